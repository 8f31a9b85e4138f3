// Coordinate assignment: the positions of boxes, ports and lines of a scope across the flow, as in
// layout/layered/coordinate_assignment.py.

"use strict";

// In the place of a child at the end of a net: the border of the scope.
const OUTSIDE = -1;

const createCoordinateAssignment = constants => {
  const { STRAIGHT_WEIGHT, LONG_WEIGHT, BEND_WEIGHT, SIDE_WEIGHT, THROUGH_WEIGHT } = constants;
  const { MAX_PORT_OFFSET, MIN_PORT_PITCH, PORT_PITCH, PORT_MARGIN } = constants;
  const { PAD, LANE_PITCH, MAX_LANES_WIDTH, MIN_MOVE } = constants;
  const compact = createCompaction(constants);

  // Whether all lines can be straight: around the middle of the side, and apart.
  function fits(wanted, center, width) {
    const first = wanted[0], last = wanted[wanted.length - 1];
    return Math.abs((first + last) / 2 - center) <= MAX_PORT_OFFSET &&
      Math.max(center - first, last - center) <= width / 2 - PORT_MARGIN &&
      wanted.every((at, place) => !place || at - wanted[place - 1] >= MIN_PORT_PITCH);
  }

  // The ports of lines on a side of a box, in the order of their positions `wanted`.
  function slots(wanted, center, width) {
    const order = wanted.map((_, number) => number)
      .sort((a, b) => wanted[a] - wanted[b] || a - b);
    if (fits(order.map(number => wanted[number]), center, width)) return wanted;
    const distance = place => Math.abs(wanted[order[place]] - center);
    const places = order.map((_, place) => place)
      .sort((a, b) => distance(a) - distance(b) || a - b);
    const [straight, other] = [places[0], places[1] ?? places[0]].map(each => wanted[order[each]]);
    const isNear = Math.abs(straight - center) <= MAX_PORT_OFFSET;
    const isEven = !isNear && Math.abs(straight + other - 2 * center) < MIN_MOVE;
    const nearest = isEven ? (places[0] + places[1]) / 2 : places[0];
    const before = nearest, after = order.length - 1 - nearest;
    const room = Math.max(width / 2 - PORT_MARGIN, 1);
    let middle = isNear ? straight : center;
    let apart = Math.min(
      (room + middle - center) / Math.max(before, 1), (room + center - middle) / Math.max(after, 1));
    if (apart < MIN_PORT_PITCH) apart = 2 * room / Math.max(order.length - 1, 1);
    apart = Math.min(PORT_PITCH, apart);
    middle = Math.max(center + before * apart - room,
      Math.min(middle, center + room - after * apart));
    const found = [];
    order.forEach((number, place) => { found[number] = middle + (place - nearest) * apart; });
    for (const sign of [-1, 1]) {
      let at = sign * found[order[places[0]]];
      for (let place = places[0] + sign; place in order; place += sign) {
        const straightOn = sign * wanted[order[place]], here = sign * found[order[place]];
        if (at + MIN_PORT_PITCH <= straightOn && straightOn <= here) {
          found[order[place]] = wanted[order[place]];
        }
        at = sign * found[order[place]];
      }
    }
    return found;
  }

  // The position of the entry of an open scope that a straight line meets.
  const anchorOf = scope => scope.entries.length ? scope.entries[0] : scope.width / 2;

  // The positions in a template with the children in `inner` (child -> composed scope) open;
  // `space` is that of the header.
  function assignCoordinates(template, inner, space) {
    const { children, trunks } = template, bodies = [];
    const size = children.map(([, , width, height]) => [width, height]);
    const anchors = children.map(([, , width]) => width / 2);
    for (const [child, each] of inner) {
      size[child] = [each.width, each.height];
      anchors[child] = anchorOf(each);
    }
    const hints = [...children.map(closed => closed[0]), ...template.entries, ...template.exits];
    const line = (first, last) => ({ first, last, left: 0, right: 0, box: false });
    children.forEach(([, first, , , last], child) => {
      const left = anchors[child];
      bodies.push({ first, last, left, right: size[child][0] - left, box: true });
    });
    for (const _ of template.entries) bodies.push(line(-1, -1));
    for (const _ of template.exits) bodies.push(line(template.rows, template.rows));
    const body = trunks.map(([, stems]) => stems.map(([at, begin, end]) => {
      if (at < 0) return -1;
      hints.push(at);
      return bodies.push(line(begin, end - 1)) - 1;
    }));
    const fixedTo = ([child, port], exits) => {
      if (child === OUTSIDE) {
        return [children.length + (exits ? 0 : template.entries.length) + port, 0];
      }
      const each = inner.get(child);
      return [child, each ? (exits ? each.exits : each.entries)[port] - anchors[child] : 0];
    };
    const [aside, bends] = pairsAside(trunks, children, inner);
    const segments = weighed(
      trunks.flatMap((trunk, net) => segmentsOf(trunk, body[net], fixedTo, bends)), aside);
    const entry = children.length, leave = entry + template.entries.length;
    if (template.entries.length && template.exits.length) {
      segments.unshift([entry + mainEntry(trunks), 0, leave, 0, THROUGH_WEIGHT]);
    }
    const found = compact(bodies, hints, segments, template.branches);
    let begin = Infinity, end = -Infinity;
    bodies.forEach((each, number) => {
      begin = Math.min(begin, found[number] - each.left);
      end = Math.max(end, found[number] + each.right);
    });
    if (!bodies.length) begin = end = 0;
    const ports = found.slice(entry, leave);
    const first = ports.length ? Math.min(...ports) : begin + space.clear;
    const shift = Math.max(PAD + space.beside - begin, space.clear - first);
    const moved = found.map(position => position + shift), middle = moved.slice(0, entry);
    const lane = Math.min(LANE_PITCH, MAX_LANES_WIDTH / Math.max(template.lanes, 1));
    const stems = trunks.map(([, all], net) => all.map(([at], number) =>
      at < 0 ? end + shift + LANE_PITCH - lane * (at + 1) : moved[body[net][number]]));
    const beside = template.lanes ? LANE_PITCH + lane * template.lanes : 0;
    const across = {
      size, middle, stems,
      entries: moved.slice(entry, leave),
      exits: moved.slice(leave, leave + template.exits.length),
      side: middle.map((position, child) => position - anchors[child]),
      width: Math.max(end + shift + beside + PAD, space.least),
    };
    assignPorts(template, inner, across);
    return across;
  }

  // The first entry, if possible one with data and several branches.
  function mainEntry(trunks) {
    const [[, , port]] = trunks
      .filter(([[child]]) => child === OUTSIDE)
      .map(([[, port], , branches, side = 0]) => [side, Number(branches.length < 2), port])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    return port;
  }

  // `segments` with their weights: of several between two boxes, the first has the largest one.
  // Sources, such as weights, do not pull a box that also reads other boxes out of line.
  function weighed(segments, aside) {
    const known = new Set();
    return segments.map(segment => {
      if (segment[4] !== STRAIGHT_WEIGHT) return segment;
      const key = `${segment[0]},${segment[2]}`;
      const weight = known.has(key) ? BEND_WEIGHT : aside.has(key) ? SIDE_WEIGHT : STRAIGHT_WEIGHT;
      known.add(key);
      return [...segment.slice(0, 4), weight];
    });
  }

  // Pairs of a source and a child that reads it together with something else: data, if the source
  // has none; a line that comes from further, the first of several sources, or a child on a longer
  // path. But if an open child, which has the places of its entries, reads only sources, these are
  // alike. Pairs of a source and a child that makes something else of its data, such as a mask, if
  // another child makes data of them. Also the weights of bends, of lines from sources without data
  // and from the data beside them.
  function pairsAside(trunks, children, opened) {
    const pairs = new Map();
    for (const [[source], , branches, side = 0] of trunks) {
      for (const [[sink]] of branches) {
        const key = `${source},${sink}`, [, , before] = pairs.get(key) ?? [source, sink, 1];
        pairs.set(key, [source, sink, before && side]);
      }
    }
    const all = [...pairs.values()], reading = new Set(all.map(([, sink]) => sink));
    const idle = source => source !== OUTSIDE && !reading.has(source);
    const free = source => source === OUTSIDE || idle(source);
    const data = all.filter(([, sink, side]) => !side && sink !== OUTSIDE);
    const given = new Set(data.map(([, sink]) => sink));
    const computed = new Set(data.filter(([source]) => !free(source)).map(([, sink]) => sink));
    const isLight = ([source, sink, side]) => side && (free(source) ? computed : given).has(sink);
    const light = all.filter(isLight), rest = all.filter(pair => !isLight(pair));
    const bends = new Map(light.map(([source, sink]) => [`${source},${sink}`, SIDE_WEIGHT]));
    const found = new Set(bends.keys()), depth = depths(rest, children);
    const carry = new Set(all.filter(([, , side]) => !side).map(([source]) => source));
    const masks = new Set(all.map(([source]) => source).filter(source => !carry.has(source)));
    const forks = new Set(data.filter(([, sink]) => carry.has(sink)).map(([source]) => source));
    for (const [source, sink] of data) {
      if (forks.has(source) && masks.has(sink)) found.add(`${source},${sink}`);
    }
    const main = new Set(rest.filter(([source]) => !idle(source)).map(([, sink]) => sink));
    const alike = new Set([...opened.keys()].filter(sink => !main.has(sink)));
    for (const [source, sink] of rest) {
      const shorter = idle(source) || depth.get(source) + 1 < depth.get(sink);
      const joins = main.has(sink) && sink !== OUTSIDE && !alike.has(sink);
      if (shorter && joins) found.add(`${source},${sink}`);
      main.add(sink);
    }
    const crowded = new Set(light.map(([, sink]) => sink));
    for (const [source, sink] of data) {
      const deepest = source !== OUTSIDE && depth.get(source) + 1 === depth.get(sink);
      if (deepest && crowded.has(sink)) bends.set(`${source},${sink}`, LONG_WEIGHT);
    }
    return [found, bends];
  }

  // The length of the longest path to each child: less than its layer, if it is just above its
  // first reader because it depends on no input.
  function depths(pairs, children) {
    const row = new Map(children.map(([, layer], child) => [child, layer])).set(OUTSIDE, -1);
    const depth = new Map([...row.keys()].map(child => [child, 0])).set(OUTSIDE, -1);
    const sorted = [...pairs].sort(([, one], [, other]) => row.get(one) - row.get(other));
    for (const [source, sink] of sorted) {
      if (row.get(source) >= row.get(sink)) continue;
      depth.set(sink, Math.max(depth.get(sink), depth.get(source) + 1));
    }
    return depth;
  }

  // The segments of the edges of a trunk, without those in lanes and without duplicates.
  function segmentsOf([source, , branches], body, fixedTo, bends) {
    const segments = [], known = new Set();
    const add = segment => {
      const key = `${segment[0]},${segment[2]}`;
      if (known.has(key) && segment[4] !== STRAIGHT_WEIGHT) return;
      known.add(key);
      segments.push(segment);
    };
    for (const [sink, numbers] of branches) {
      const bend = bends.get(`${source[0]},${sink[0]}`) ?? BEND_WEIGHT;
      let [one, here] = fixedTo(source, true), weight = STRAIGHT_WEIGHT, lane = false;
      for (const number of numbers) {
        lane = body[number] < 0;
        if (lane) break;
        weight = weight === STRAIGHT_WEIGHT ? Math.max(bend, BEND_WEIGHT) : LONG_WEIGHT;
        add([one, here, body[number], 0, weight]);
        [one, here] = [body[number], 0];
      }
      if (numbers.length || bend === SIDE_WEIGHT) weight = bend;
      if (!lane) add([one, here, ...fixedTo(sink, false), weight]);
    }
    return segments;
  }

  // Sets the positions at which lines leave and enter boxes.
  function assignPorts(template, inner, across) {
    const { entries, exits, side, size, stems, middle } = across;
    const fixed = ([child, port], out) => {
      if (child === OUTSIDE) return (out ? entries : exits)[port];
      const each = inner.get(child);
      return each ? side[child] + (out ? each.exits : each.entries)[port] : null;
    };
    const place = (wanted, found) => {
      for (const [child, ends] of wanted) {
        const places = slots([...ends.values()], middle[child], size[child][0]);
        [...ends.keys()].forEach((end, number) => found.set(end, places[number]));
      }
    };
    const request = (wanted, end, where) => {
      if (!wanted.has(end[0])) wanted.set(end[0], new Map());
      wanted.get(end[0]).set(end.join(), where);
    };
    const leaving = across.leaving = new Map(), arriving = across.arriving = new Map();
    const out = new Map(), into = new Map();
    template.trunks.forEach(([source, , branches], net) => {
      const leaves = fixed(source, true);
      if (leaves !== null) {
        leaving.set(source.join(), leaves);
        return;
      }
      const next = branches.map(([sink, numbers]) =>
        numbers.length ? stems[net][numbers[0]] : fixed(sink, false) ?? middle[sink[0]]);
      const straight = next.find(at => Math.abs(at - middle[source[0]]) <= MAX_PORT_OFFSET);
      request(out, source, straight ?? next.reduce((sum, each) => sum + each, 0) / next.length);
    });
    place(out, leaving);
    template.trunks.forEach(([source, , branches], net) => {
      for (const [sink, numbers] of branches) {
        const enters = fixed(sink, false);
        if (enters !== null) arriving.set(sink.join(), enters);
        else {
          request(into, sink,
            numbers.length ? stems[net][numbers.at(-1)] : leaving.get(source.join()));
        }
      }
    });
    place(into, arriving);
  }

  return assignCoordinates;
};
