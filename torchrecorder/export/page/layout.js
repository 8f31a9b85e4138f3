// Layout: puts open scopes inside each other, as layout/layered does in Python.
//
// createLayout(data).place(open, options) returns the positions of all visible boxes and lines.
// Scopes with the same template and the same open children share one result.

"use strict";

// `object` with `lines`, which are computed on demand.
function withLines(object, compute) {
  let lines = null;
  return Object.defineProperty(object, "lines", { get: () => lines ??= compute() });
}

const createLayout = (data, children = childrenOf(data.items.parent)) => {
  const { PAD, HEADER_GAP, BORDER_MARGIN, LAYER_GAP, CORNER_RADIUS } = data.layout;
  const { TRACK_MARGIN, TRACK_PITCH, MAX_TRACKS_HEIGHT, ARROW_MARGIN } = data.layout;
  const { STRAIGHT_TOLERANCE, TITLE_SHIFT } = data.layout;
  const NO_HEADER = { before: 0, beside: 0, least: 0, length: 0, clear: 0 };
  const LOOP_WIDTH = 12, assignCoordinates = createCoordinateAssignment(data.layout);

  // The track of each net that moves sideways in a gap, and the number of tracks. A run, the extent
  // of one net in the gap, is {net, origin, left, right}.
  function tracks(runs) {
    const moving = [...runs.values()].filter(run => run.right - run.left >= STRAIGHT_TOLERANCE);
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

  const pitch = count => Math.min(TRACK_PITCH, MAX_TRACKS_HEIGHT / Math.max(count, 1));

  const gapHeight = (count, straight) =>
    count ? TRACK_MARGIN + pitch(count) * (count - 1) + ARROW_MARGIN : straight;

  // The sideways moves of a branch in gaps: [gap, begin, end] each.
  function movesOf(template, across, net, source, stems, [sink, numbers]) {
    const moves = [];
    let at = across.leaving.get(source.join());
    for (const number of numbers) {
      const position = across.stems[net][number];
      moves.push([stems[number][1], at, position]);
      at = position;
    }
    const gap = sink[0] === OUTSIDE ? template.rows : template.children[sink[0]][1];
    moves.push([gap, at, across.arriving.get(sink.join())]);
    return moves;
  }

  // The positions in a template with the children in `inner` (child -> composed scope) open.
  function compose(template, inner, space) {
    const across = assignCoordinates(template, inner, space);
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
    const rowHeights = new Array(template.rows).fill(0), closedHeights = [...rowHeights];
    const long = [];  // open children that fill several rows: [first, last, height] each
    template.children.forEach(([, row, , closed, last], child) => {
      const high = across.size[child][1];
      if (!inner.has(child)) closedHeights[row] = Math.max(closedHeights[row], closed);
      if (high > closed && last > row) long.push([row, last, high]);
      else rowHeights[row] = Math.max(rowHeights[row], high);
    });
    let at = space.before;
    const begins = [], rows = [];
    for (let row = 0; row <= template.rows; row++) {
      for (const [first, last, high] of long) {
        if (last === row - 1) at = Math.max(at, rows[first] + high);
      }
      begins.push(at);
      let straight = LAYER_GAP;
      if (row === 0) straight = template.entries.length ? BORDER_MARGIN : PAD;
      else if (row === template.rows) straight = template.exits.length ? BORDER_MARGIN : PAD;
      at += gapHeight(gaps[row].count, straight);
      rows.push(at);
      at += rowHeights[row] ?? 0;
    }
    const length = Math.max(at, space.length);
    const withInputs = new Set(template.trunks.flatMap(([, , branches]) =>
      branches.map(([sink]) => sink[0])));
    const frames = template.children.map(([, row], child) => {
      const [width, height] = across.size[child];
      const used = inner.has(child) ? height : closedHeights[row];
      const free = withInputs.has(child) ? 0 : Math.max(rowHeights[row] - used, 0);
      return [across.side[child], rows[row] + free + (used - height) / 2, width, height];
    });
    const paths = [];
    template.trunks.forEach(([source, , branches], net) => {
      branches.forEach(([sink], branch) => {
        const moved = moves[net][branch], points = [];
        const start = source[0] === OUTSIDE ? 0 : frames[source[0]][1] + frames[source[0]][3];
        points.push([moved[0][1], start]);
        for (const [gap, begin, end] of moved) {
          const track = gaps[gap].track.get(net);
          if (track === undefined) continue;
          const along = begins[gap] + TRACK_MARGIN + pitch(gaps[gap].count) * track;
          points.push([begin, along], [end, along]);
        }
        points.push([moved.at(-1)[2], sink[0] === OUTSIDE ? length : frames[sink[0]][1]]);
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

  // The data of an SVG path through points, with round corners.
  function pathData(points) {
    const corners = [];
    for (const point of points) {
      const last = corners.at(-1), before = corners.at(-2);
      if (last && Math.abs(last[0] - point[0]) < 0.01 && Math.abs(last[1] - point[1]) < 0.01) {
        continue;
      }
      if (before && ((before[0] === last[0] && last[0] === point[0]) ||
                     (before[1] === last[1] && last[1] === point[1]))) corners.pop();
      corners.push(point);
    }
    const round = number => Math.round(number * 10) / 10;
    const text = ([x, y]) => `${round(x)} ${round(y)}`;
    const toward = (one, other, distance) => {
      const length = Math.hypot(other[0] - one[0], other[1] - one[1]) || 1;
      const share = Math.min(1, distance / length);
      return [one[0] + (other[0] - one[0]) * share, one[1] + (other[1] - one[1]) * share];
    };
    let path = `M${text(corners[0])}`;
    for (let number = 1; number < corners.length - 1; number++) {
      const [before, corner, after] = corners.slice(number - 1, number + 2);
      const radius = Math.min(CORNER_RADIUS,
        Math.hypot(corner[0] - before[0], corner[1] - before[1]) / 2,
        Math.hypot(after[0] - corner[0], after[1] - corner[1]) / 2);
      path += `L${text(toward(corner, before, radius))}` +
        `Q${text(corner)} ${text(toward(corner, after, radius))}`;
    }
    return path + `L${text(corners.at(-1))}`;
  }

  // A visible line in `scope` from the box `tail` to the box `head`. One that enters the scope, or
  // exits it, has the scope in the place of that box; where a fold shows one of its siblings, lines to
  // others exit it, too. Lines that exit, or continue in an open box, have no arrowhead. The points
  // are computed on demand, because most lines are outside the window. `begin`, if it is set, is where
  // the outline of the tail is, instead of the first point.
  class Line {
    #path; #move; #points = null; #d = null;

    constructor(scope, path, tensor, move, tail, head, enters = false, exits = false,
      continues = false) {
      const { across, along, turn } = move, [x, y, width, height] = path.area;
      const [x0, y0, w, h] = turn(across + x, along + y, width, height);
      this.scope = scope;
      this.trunk = path.trunk;
      this.branch = path.branch;
      this.tensor = tensor;
      this.tail = tail;
      this.head = head;
      this.enters = enters;
      this.exits = exits;
      this.continues = continues;
      this.x0 = x0;
      this.y0 = y0;
      this.x1 = x0 + w;
      this.y1 = y0 + h;
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
      this.#d ??= pathData(this.begin ? [this.begin, ...this.points.slice(1)] : this.points);
      return this.#d;
    }

    get arrowhead() {
      if (this.exits || this.continues) return null;
      const [before, end] = this.points.slice(-2);
      const length = Math.hypot(end[0] - before[0], end[1] - before[1]) || 1;
      return [end[0], end[1], (end[0] - before[0]) / length, (end[1] - before[1]) / length];
    }

    toJSON() {
      return { ...this, points: this.points, d: this.d, arrowhead: this.arrowhead };
    }
  }

  const { template } = data.items;
  const variants = createVariants(data, children);
  const shared = new Map();
  let lastId = 0;

  // The space for the header of an open scope.
  function headerSpace([width, height], { direction }) {
    return isHorizontal(direction)
      ? { before: 0, beside: height + HEADER_GAP - PAD / 2, least: 0,
          length: width + 2 * PAD, clear: 0 }
      : { before: height + HEADER_GAP, beside: 0, least: width + 2 * PAD,
          length: 0, clear: width + 2 * PAD };
  }

  // A composed scope, whose title is in one line if that hardly moves anything. `size` is that of
  // its header, and then that of a header with the title in one line, if it is in two.
  function withHeader(scope, inner, size, options) {
    if (!size.length) return compose(scope, inner, NO_HEADER);
    const found = compose(scope, inner, headerSpace(size, options));
    if (size.length < 3) return found;
    const space = headerSpace(size.slice(2), options);
    const free = Math.min(found.height - space.length, found.width - space.least,
      ...found.entries.map(entry => entry - space.clear));
    return free < -TITLE_SHIFT ? found : { ...compose(scope, inner, space), inOne: true };
  }

  // `withHeader`, whose results are kept.
  function composed(item, variant, inner, options) {
    const size = item < 0 ? [] : options.header?.(item) ?? data.items.header_size[item];
    const open = [...inner].sort((a, b) => a[0] - b[0])
      .map(([child, each]) => `${child}:${each.id}`);
    const key = `${variant.key}|${options.direction}|${size.join()}|${open.join()}`;
    if (!shared.has(key)) {
      const result = withHeader(variant.template, inner, size, options);
      result.id = lastId++;
      shared.set(key, result);
    }
    return shared.get(key);
  }

  // The visible open scopes, outer ones first, with their variants.
  function visible(open, options) {
    const result = new Map(), waiting = [options.root ?? -1];
    while (waiting.length) {
      const scope = waiting.pop(), variant = variants.of(scope, options);
      result.set(scope, variant);
      for (const item of variant.shown) {
        if (open.has(item) && template[item] >= 0 && !options.hidden?.has(item)) waiting.push(item);
      }
    }
    return result;
  }

  // The positions of all visible boxes and lines, with the items in the set `open` open. `options`:
  // the direction; the hidden items; the chosen siblings of folds (all if missing); the root, the
  // only item that is shown; and the size of the numbers on boxes and of headers.
  function place(open, options = {}) {
    const complete = { direction: data.direction, ...options };
    const scopes = visible(open, complete), results = new Map();
    for (const [scope, variant] of [...scopes].reverse()) {
      const inner = new Map();
      variant.shown.forEach((item, index) => {
        if (results.has(item)) inner.set(index, results.get(item));
      });
      results.set(scope, composed(scope, variant, inner, complete));
    }
    return pictureOf(results, scopes, complete);
  }

  // Composed scopes as a picture in the direction of the flow. It has one part per open scope, so
  // that parts outside the window can be skipped.
  function pictureOf(results, scopes, { direction, root = -1, hidden }) {
    const horizontal = isHorizontal(direction);
    const backwards = direction === "BT" || direction === "RL";
    const outer = results.get(root), edge = root < 0 ? 0 : PAD;
    const length = outer.height + 2 * edge;
    const turn = (across, along, width, height) => {
      const position = backwards ? length - along - height : along;
      return horizontal ? [position, across, height, width] : [across, position, width, height];
    };
    const parts = [], waiting = [[root, edge, edge]];
    if (root >= 0) parts.push(rootPart(root, turn(edge, edge, outer.width, outer.height), outer));
    while (waiting.length) {
      const [scope, across, along] = waiting.pop(), here = results.get(scope);
      const { shown } = scopes.get(scope), opened = [];
      const boxes = shown.map((item, number) => {
        const [position, begin, width, height] = here.frames[number];
        const [x, y, w, h] = turn(across + position, along + begin, width, height);
        const isOpen = here.inner.has(number), box = { item, x, y, w, h, open: isOpen };
        if (isOpen) opened.push([item, across + position, along + begin]);
        if (here.inner.get(number)?.inOne) box.inOne = true;
        return hidden?.has(item) ? { ...box, hidden: true } : box;
      });
      parts.push(partOf(scope, here, scopes.get(scope), boxes, { across, along, turn }, hidden));
      waiting.push(...opened.reverse());
    }
    const width = outer.width + 2 * edge;
    return withLines({
      width: horizontal ? length : width, height: horizontal ? width : length,
      parts, boxes: parts.flatMap(part => part.boxes),
    }, () => parts.flatMap(part => part.lines));
  }

  // A part with nothing but the frame of the root.
  const rootPart = (item, [x, y, w, h], { inOne }) =>
    ({ area: { x, y, w, h }, boxes: [{ item, x, y, w, h, open: true, inOne }], lines: [] });

  // One open scope as part of a picture; its lines are computed on demand.
  function partOf(scope, here, variant, boxes, move, hidden) {
    const [x, y, w, h] = move.turn(move.across, move.along, here.width, here.height);
    return withLines({ area: { x, y, w, h }, boxes },
      () => linesOf(scope, here, variant, move, hidden));
  }

  // Whether a line continues at its end, in an open box or behind a hidden one.
  const continuesIn = (inner, port, isHidden) => isHidden || Boolean(inner?.reached.has(port));

  // The line of a loop: beside the only sibling that is shown, from its end back to its beginning.
  // Its head points along the border: lines into the scope may pass right beside it.
  function loopLine(scope, here, { template: drawn }, move) {
    const margin = PAD / 2, right = here.width - margin, end = here.height - margin;
    const left = right - LOOP_WIDTH;
    const points = [[left, end], [right, end], [right, margin]];
    const path = { trunk: drawn.trunks.length, branch: 0, points, area: areaOf(points) };
    const line = new Line(scope, path, data.carried[scope + 1][drawn.back], move, scope, scope);
    line.loop = true;
    return line;
  }

  function linesOf(scope, here, variant, move, hidden) {
    const { template: drawn, shown } = variant, carried = data.carried[scope + 1];
    const isLoop = drawn.back !== undefined && data.loops.includes(scope);
    const loop = isLoop ? [loopLine(scope, here, variant, move)] : [];
    return loop.concat(here.paths.map(path => {
      const [source, , branches] = drawn.trunks[path.trunk], [sink] = branches[path.branch];
      const [tail, head] = [source, sink].map(([child]) =>
        (child === OUTSIDE ? scope : shown[child]));
      const enters = source[0] === OUTSIDE, exits = sink[0] === OUTSIDE;
      const continues = !exits &&
        continuesIn(here.inner.get(sink[0]), sink[1], Boolean(hidden?.has(head)));
      const tensor = carried[drawn.origin?.[path.trunk] ?? path.trunk];
      return new Line(scope, path, tensor, move, tail, head, enters, exits, continues);
    }));
  }

  return { place };
};
