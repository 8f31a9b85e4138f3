// Layout: puts open scopes inside each other, as layout/nested does in Python.
//
// createLayout(data).place(open) says where every visible box and line is. Scopes with the
// same template and the same open children share what is worked out once.

"use strict";

const createLayout = data => {
  const { PAD, BELOW, TRACK, BAND, BEFORE, ARROW, GAP, EDGE, LEVEL, CORNER } = data.layout;
  const OUTSIDE = -1, placeAcross = createAcross(data.layout);

  // The track of each net that moves sideways in a gap. A run is {net, origin, left, right}.
  function tracks(runs) {
    const moving = [...runs.values()].filter(run => run.right - run.left >= LEVEL);
    const leftwards = run => run.right - run.origin >= run.origin - run.left ? 0 : 1;
    moving.sort((a, b) => leftwards(a) - leftwards(b) ||
      (leftwards(a) ? a.origin - b.origin : b.origin - a.origin) || a.net - b.net);
    const used = [], track = new Map();
    for (const run of moving) {
      let below = used.length;
      while (below && !used[below - 1].some(other =>
        run.left <= other.right + 2 && other.left <= run.right + 2)) below--;
      if (below === used.length) used.push([]);
      used[below].push(run);
      track.set(run.net, below);
    }
    return { track, count: used.length };
  }

  const pitch = count => Math.min(TRACK, BAND / Math.max(count, 1));

  const gapHeight = (count, straight) =>
    count ? BEFORE + pitch(count) * (count - 1) + ARROW : straight;

  // What a branch does in the gaps on its way: [gap, begin, end].
  function movesOf(template, across, net, source, stems, [sink, way]) {
    const moves = [];
    let at = across.leaving.get(source.join());
    for (const number of way) {
      const beside = across.stems[net][number];
      moves.push([stems[number][1], at, beside]);
      at = beside;
    }
    const gap = sink[0] === OUTSIDE ? template.rows : template.spots[sink[0]][1];
    moves.push([gap, at, across.arriving.get(sink.join())]);
    return moves;
  }

  // A template with the children in `inner` (child -> composed scope) open.
  function compose(template, inner, room) {
    const across = placeAcross(template, inner, room);
    const moves = template.trunks.map(([source, stems, branches], net) =>
      branches.map(branch => movesOf(template, across, net, source, stems, branch)));
    const runs = Array.from({ length: template.rows + 1 }, () => new Map());
    moves.forEach((branches, net) => {
      for (const [gap, begin, end] of branches.flat()) {
        const run = runs[gap].get(net) ?? { net, origin: begin, left: begin, right: begin };
        run.left = Math.min(run.left, begin, end);
        run.right = Math.max(run.right, begin, end);
        runs[gap].set(net, run);
      }
    });
    const gaps = runs.map(tracks);
    const tall = new Array(template.rows).fill(0), band = [...tall], long = [];
    template.spots.forEach(([, row, , closed, last], child) => {
      const high = across.size[child][1];
      if (!inner.has(child)) band[row] = Math.max(band[row], closed);
      if (high > closed && last > row) long.push([row, last, high]);
      else tall[row] = Math.max(tall[row], high);
    });
    let at = room.before;
    const begins = [], rows = [];
    for (let row = 0; row <= template.rows; row++) {
      for (const [first, last, high] of long) {
        if (last === row - 1) at = Math.max(at, rows[first] + high);
      }
      begins.push(at);
      let straight = GAP;
      if (row === 0) straight = template.entries.length ? EDGE : PAD;
      else if (row === template.rows) straight = template.exits.length ? EDGE : PAD;
      at += gapHeight(gaps[row].count, straight);
      rows.push(at);
      at += tall[row] ?? 0;
    }
    const length = Math.max(at, room.length);
    const reading = new Set(template.trunks.flatMap(([, , branches]) =>
      branches.map(([sink]) => sink[0])));
    const frames = template.spots.map(([, row], child) => {
      const [width, height] = across.size[child], share = inner.has(child) ? height : band[row];
      const free = reading.has(child) ? 0 : Math.max(tall[row] - share, 0);
      return [across.side[child], rows[row] + free + (share - height) / 2, width, height];
    });
    const paths = [];
    template.trunks.forEach(([source, , branches], net) => {
      branches.forEach(([sink], branch) => {
        const way = moves[net][branch], points = [];
        const start = source[0] === OUTSIDE ? 0 : frames[source[0]][1] + frames[source[0]][3];
        points.push([way[0][1], start]);
        for (const [gap, begin, end] of way) {
          const track = gaps[gap].track.get(net);
          if (track === undefined) continue;
          const along = begins[gap] + BEFORE + pitch(gaps[gap].count) * track;
          points.push([begin, along], [end, along]);
        }
        points.push([way[way.length - 1][2], sink[0] === OUTSIDE ? length : frames[sink[0]][1]]);
        paths.push({ trunk: net, branch, points, area: areaOf(points) });
      });
    });
    return {
      width: across.width, height: length, entries: across.entries, exits: across.exits,
      frames, paths, inner, through: across.through,
    };
  }

  function areaOf(points) {
    const xs = points.map(point => point[0]), ys = points.map(point => point[1]);
    const x = Math.min(...xs), y = Math.min(...ys);
    return [x, y, Math.max(...xs) - x, Math.max(...ys) - y];
  }

  // The SVG path through points, with round corners.
  function pathData(points) {
    const kept = [];
    for (const point of points) {
      const last = kept[kept.length - 1], before = kept[kept.length - 2];
      if (last && Math.abs(last[0] - point[0]) < 0.01 && Math.abs(last[1] - point[1]) < 0.01) {
        continue;
      }
      if (before && ((before[0] === last[0] && last[0] === point[0]) ||
                     (before[1] === last[1] && last[1] === point[1]))) kept.pop();
      kept.push(point);
    }
    const round = number => Math.round(number * 10) / 10;
    const said = ([x, y]) => `${round(x)} ${round(y)}`;
    const toward = (one, other, far) => {
      const length = Math.hypot(other[0] - one[0], other[1] - one[1]) || 1;
      const share = Math.min(1, far / length);
      return [one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share];
    };
    let path = `M${said(kept[0])}`;
    for (let number = 1; number < kept.length - 1; number++) {
      const [before, corner, after] = kept.slice(number - 1, number + 2);
      const radius = Math.min(CORNER,
        Math.hypot(corner[0] - before[0], corner[1] - before[1]) / 2,
        Math.hypot(after[0] - corner[0], after[1] - corner[1]) / 2);
      path += `L${said(toward(corner, before, radius))}` +
        `Q${said(corner)} ${said(toward(corner, after, radius))}`;
    }
    return path + `L${said(kept[kept.length - 1])}`;
  }

  // A visible line; one that leaves its scope, or goes on in an open one, has no arrowhead. Most
  // are out of sight: the way of one is worked out when it is asked for.
  class Line {
    #path; #move; #points = null; #d = null;

    constructor(scope, path, value, move, tail, head, enters, exits, continues) {
      const { across, along, turn } = move, [x, y, width, height] = path.area;
      const [x0, y0, w, h] = turn(across + x, along + y, width, height);
      this.scope = scope;
      this.trunk = path.trunk;
      this.branch = path.branch;
      this.value = value;
      this.tail = tail;
      this.head = head;
      this.enters = enters;
      this.exits = exits;
      this.continues = continues;
      this.x0 = x0;
      this.y0 = y0;
      this.x1 = x0 + w;
      this.y1 = y0 + h;
      this.label = null;
      this.#path = path;
      this.#move = move;
    }

    get points() {
      const { across, along, turn } = this.#move;
      this.#points ??= this.#path.points.map(([x, y]) =>
        turn(across + x, along + y, 0, 0).slice(0, 2));
      return this.#points;
    }

    get d() {
      this.#d ??= pathData(this.points);
      return this.#d;
    }

    get tip() {
      if (this.exits || this.continues) return null;
      const [before, end] = this.points.slice(-2);
      const far = Math.hypot(end[0] - before[0], end[1] - before[1]) || 1;
      return [end[0], end[1], (end[0] - before[0]) / far, (end[1] - before[1]) / far];
    }

    toJSON() {
      return { ...this, points: this.points, d: this.d, tip: this.tip };
    }
  }

  const { parent, template } = data.items;
  const turned = data.direction === "LR" || data.direction === "RL";
  const backwards = data.direction === "BT" || data.direction === "RL";
  const children = Array.from({ length: parent.length + 1 }, () => []);
  const seat = parent.map((around, item) => children[around + 1].push(item) - 1);
  const shared = new Map();
  let lastId = 0;

  function roomOf(item) {
    if (item < 0) return { before: 0, beside: 0, least: 0, length: 0, clear: 0 };
    const [width, height] = data.items.headersize[item];
    return turned
      ? { before: 0, beside: height + BELOW - PAD / 2, least: 0,
          length: width + 2 * PAD, clear: 0 }
      : { before: height + BELOW, beside: 0, least: width + 2 * PAD,
          length: 0, clear: width + 2 * PAD };
  }

  function composed(item, inner) {
    const room = roomOf(item), number = item < 0 ? data.root : template[item];
    const open = [...inner].sort((a, b) => a[0] - b[0]).map(([child, each]) => `${child}:${each.id}`);
    const key = `${number}|${Object.values(room).join()}|${open.join()}`;
    if (!shared.has(key)) {
      const found = compose(data.templates[number], inner, room);
      found.id = lastId++;
      shared.set(key, found);
    }
    return shared.get(key);
  }

  // Where every visible box and line is, with the items in the set `open` open.
  function place(open) {
    const shown = [];
    for (const item of [...open].sort((a, b) => a - b)) {
      if (template[item] >= 0) shown.push(item);
    }
    const inner = new Map([[-1, new Map()]]);
    for (const item of shown) inner.set(item, new Map());
    const found = new Map();
    for (let number = shown.length - 1; number >= 0; number--) {
      const item = shown[number], scope = composed(item, inner.get(item));
      found.set(item, scope);
      inner.get(parent[item])?.set(seat[item], scope);
    }
    found.set(-1, composed(-1, inner.get(-1)));
    return spread(found);
  }

  // In parts, one for each open scope: what is far outside the window is looked at in whole parts.
  function spread(found) {
    const root = found.get(-1), parts = [], waiting = [[-1, 0, 0]];
    const turn = (across, along, width, height) => {
      const way = backwards ? root.height - along - height : along;
      return turned ? [way, across, height, width] : [across, way, width, height];
    };
    while (waiting.length) {
      const [scope, across, along] = waiting.pop(), here = found.get(scope);
      const inside = children[scope + 1], opened = [];
      const boxes = inside.map((item, number) => {
        const [beside, begin, width, height] = here.frames[number];
        const [x, y, w, h] = turn(across + beside, along + begin, width, height);
        const isOpen = here.inner.has(number);
        if (isOpen) opened.push([item, across + beside, along + begin]);
        return { item, x, y, w, h, open: isOpen };
      });
      parts.push(partOf(scope, here, boxes, { across, along, turn }));
      waiting.push(...opened.reverse());
    }
    let lines = null;
    return {
      width: turned ? root.height : root.width, height: turned ? root.width : root.height,
      parts, boxes: parts.flatMap(part => part.boxes),
      get lines() { return lines ??= parts.flatMap(part => part.lines); },
    };
  }

  // Most parts are out of sight, and nobody asks for their lines.
  function partOf(scope, here, boxes, move) {
    const [x, y, w, h] = move.turn(move.across, move.along, here.width, here.height);
    let lines = null;
    return {
      area: { x, y, w, h }, boxes,
      get lines() { return lines ??= linesOf(scope, here, move); },
    };
  }

  function linesOf(scope, here, move) {
    const { trunks } = data.templates[scope < 0 ? data.root : template[scope]];
    const values = data.values[scope + 1], inside = children[scope + 1];
    return here.paths.map(path => {
      const source = trunks[path.trunk][0], sink = trunks[path.trunk][2][path.branch][0];
      return new Line(scope, path, values[path.trunk], move,
        source[0] === OUTSIDE ? scope : inside[source[0]],
        sink[0] === OUTSIDE ? scope : inside[sink[0]],
        source[0] === OUTSIDE, sink[0] === OUTSIDE, here.inner.has(sink[0]));
    });
  }

  return { place };
};
