// Layout: puts open scopes inside each other, as layout/nested does in Python.
//
// createLayout(data).place(open, how) says where every visible box and line is. Scopes with the
// same template and the same open children share results.

"use strict";

const createLayout = data => {
  const { PAD, BELOW, TRACK, BAND, BEFORE, ARROW, GAP, EDGE, LEVEL, CORNER } = data.layout;
  const OUTSIDE = -1, TURN = 12, placeAcross = createAcross(data.layout);

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

  // Sideways moves of a branch in gaps: [gap, begin, end].
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
      frames, paths, inner,
      reached: new Set(template.trunks.filter(([source]) => source[0] === OUTSIDE)
        .map(([source]) => source[1])),
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

    constructor(scope, path, value, move, tail, head, enters = false, exits = false,
      continues = false) {
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
  const children = Array.from({ length: parent.length + 1 }, () => []);
  parent.forEach((around, item) => children[around + 1].push(item));
  const variants = createVariants(data, children);
  const shared = new Map();
  let lastId = 0;

  function roomOf(item, { direction, header }) {
    if (item < 0) return { before: 0, beside: 0, least: 0, length: 0, clear: 0 };
    const [width, height] = header?.(item) ?? data.items.headersize[item];
    return sideways(direction)
      ? { before: 0, beside: height + BELOW - PAD / 2, least: 0,
          length: width + 2 * PAD, clear: 0 }
      : { before: height + BELOW, beside: 0, least: width + 2 * PAD,
          length: 0, clear: width + 2 * PAD };
  }

  function composed(item, variant, inner, how) {
    const room = roomOf(item, how);
    const open = [...inner].sort((a, b) => a[0] - b[0]).map(([child, each]) => `${child}:${each.id}`);
    const key = `${variant.key}|${Object.values(room).join()}|${open.join()}`;
    if (!shared.has(key)) {
      const found = compose(variant.template, inner, room);
      found.id = lastId++;
      shared.set(key, found);
    }
    return shared.get(key);
  }

  // The open scopes that can be seen, outer ones first, with their variants.
  function visible(open, how) {
    const found = new Map(), waiting = [how.root ?? -1];
    while (waiting.length) {
      const scope = waiting.pop(), variant = variants.of(scope, how);
      found.set(scope, variant);
      for (const item of variant.shown) {
        if (open.has(item) && template[item] >= 0 && !how.hidden?.has(item)) waiting.push(item);
      }
    }
    return found;
  }

  // Where every visible box and line is, with the items in the set `open` open. `how`: the
  // direction; the items that are hidden; the chosen siblings of folds (all if it has none); the
  // `root` to which all is limited; and room for numbers and in the corners of open boxes.
  function place(open, how = {}) {
    const given = { direction: data.direction, ...how };
    const seen = visible(open, given), found = new Map();
    for (const [scope, variant] of [...seen].reverse()) {
      const inner = new Map();
      variant.shown.forEach((item, seat) => {
        if (found.has(item)) inner.set(seat, found.get(item));
      });
      found.set(scope, composed(scope, variant, inner, given));
    }
    return spread(found, seen, given);
  }

  // In parts, one per open scope, so that parts outside the window can be skipped.
  function spread(found, seen, { direction, root = -1, hidden }) {
    const turned = sideways(direction);
    const backwards = direction === "BT" || direction === "RL";
    const outer = found.get(root), edge = root < 0 ? 0 : PAD;
    const length = outer.height + 2 * edge;
    const turn = (across, along, width, height) => {
      const way = backwards ? length - along - height : along;
      return turned ? [way, across, height, width] : [across, way, width, height];
    };
    const parts = [], waiting = [[root, edge, edge]];
    if (root >= 0) parts.push(alone(root, turn(edge, edge, outer.width, outer.height)));
    while (waiting.length) {
      const [scope, across, along] = waiting.pop(), here = found.get(scope);
      const { shown } = seen.get(scope), opened = [];
      const boxes = shown.map((item, number) => {
        const [beside, begin, width, height] = here.frames[number];
        const [x, y, w, h] = turn(across + beside, along + begin, width, height);
        const isOpen = here.inner.has(number), box = { item, x, y, w, h, open: isOpen };
        if (isOpen) opened.push([item, across + beside, along + begin]);
        return hidden?.has(item) ? { ...box, hidden: true } : box;
      });
      parts.push(partOf(scope, here, seen.get(scope), boxes, { across, along, turn }, hidden));
      waiting.push(...opened.reverse());
    }
    let lines = null;
    const width = outer.width + 2 * edge;
    return {
      width: turned ? length : width, height: turned ? width : length,
      parts, boxes: parts.flatMap(part => part.boxes),
      get lines() { return lines ??= parts.flatMap(part => part.lines); },
    };
  }

  // The frame of the box to which all is limited.
  const alone = (item, [x, y, w, h]) =>
    ({ area: { x, y, w, h }, boxes: [{ item, x, y, w, h, open: true }], lines: [] });

  // Lines of invisible parts are not computed.
  function partOf(scope, here, variant, boxes, move, hidden) {
    const [x, y, w, h] = move.turn(move.across, move.along, here.width, here.height);
    let lines = null;
    return {
      area: { x, y, w, h }, boxes,
      get lines() { return lines ??= linesOf(scope, here, variant, move, hidden); },
    };
  }

  // A line ends without a tip where it goes on: in an open box, or in what comes after a hidden one.
  const goesOn = (inner, port, isHidden) => isHidden || Boolean(inner?.reached.has(port));

  // The line back beside the only sibling that is shown of a loop, from its end to its beginning.
  function backOf(scope, here, { template: drawn }, move) {
    const far = PAD / 2, right = here.width - far, end = here.height - far, near = right - TURN;
    const points = [[near, end], [right, end], [right, far], [near, far]];
    const path = { trunk: drawn.trunks.length, branch: 0, points, area: areaOf(points) };
    const line = new Line(scope, path, data.values[scope + 1][drawn.back], move, scope, scope);
    line.loop = true;
    return line;
  }

  function linesOf(scope, here, variant, move, hidden) {
    const { template: drawn, shown } = variant, values = data.values[scope + 1];
    const isLoop = drawn.back !== undefined && data.loops?.includes(scope);
    const back = isLoop ? [backOf(scope, here, variant, move)] : [];
    return back.concat(here.paths.map(path => {
      const [source, , branches] = drawn.trunks[path.trunk], [sink] = branches[path.branch];
      const [tail, head] = [source, sink].map(([child]) => (child === OUTSIDE ? scope : shown[child]));
      return new Line(scope, path, values[drawn.origin?.[path.trunk] ?? path.trunk], move, tail, head,
        source[0] === OUTSIDE, sink[0] === OUTSIDE,
        sink[0] !== OUTSIDE && goesOn(here.inner.get(sink[0]), sink[1], Boolean(hidden?.has(head))));
    }));
  }

  return { place, inside: variants.inside };
};
