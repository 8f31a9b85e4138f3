// Across: positions across the flow in a scope, as in layout/layered/coordinate_assignment.py.

"use strict";

const createAcross = constants => {
  const { STRAIGHT, LONG, TURN, THROUGH } = constants;
  const { PAD, ASIDE, CLOSE, INSET, PORTS, LANE, LANES } = constants;
  const OUTSIDE = -1, settle = createSettle(constants);

  // Whether lines can enter a side straight: near its middle, with enough distance.
  function fits(wanted, center, width) {
    const first = wanted[0], last = wanted[wanted.length - 1];
    return Math.abs((first + last) / 2 - center) <= ASIDE &&
      Math.max(center - first, last - center) <= width / 2 - INSET &&
      wanted.every((at, seat) => !seat || at - wanted[seat - 1] >= CLOSE);
  }

  // Positions at a side of a box for lines from `wanted`, in the same order.
  function slots(wanted, center, width) {
    const order = wanted.map((_, number) => number)
      .sort((a, b) => wanted[a] - wanted[b] || a - b);
    if (fits(order.map(number => wanted[number]), center, width)) return wanted;
    let nearest = 0;
    order.forEach((number, seat) => {
      if (Math.abs(wanted[number] - center) < Math.abs(wanted[order[nearest]] - center)) {
        nearest = seat;
      }
    });
    const room = Math.max(width / 2 - INSET, 1);
    const apart = Math.min(PORTS, 2 * room / Math.max(order.length - 1, 1));
    const left = nearest * apart, right = (order.length - 1 - nearest) * apart;
    const straight = wanted[order[nearest]];
    const wish = Math.abs(straight - center) <= ASIDE ? straight : center;
    const middle = Math.max(center + left - room, Math.min(wish, center + room - right));
    const found = [];
    order.forEach((number, seat) => { found[number] = middle + (seat - nearest) * apart; });
    return found;
  }

  const anchor = scope => scope.entries.length ? scope.entries[0] : scope.width / 2;

  // Positions of boxes, ports and lines across the flow.
  function placeAcross(template, inner, room) {
    const { spots, trunks } = template, bodies = [];
    const size = spots.map(([, , width, height]) => [width, height]);
    const hooks = spots.map(([, , width]) => width / 2);
    for (const [child, each] of inner) {
      size[child] = [each.width, each.height];
      hooks[child] = anchor(each);
    }
    const hints = [...spots.map(spot => spot[0]), ...template.entries, ...template.exits];
    const line = (first, last) => ({ first, last, left: 0, right: 0, box: false });
    spots.forEach(([, first, , , last], child) => {
      const left = hooks[child];
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
        return [spots.length + (exits ? 0 : template.entries.length) + port, 0];
      }
      const each = inner.get(child);
      return [child, each ? (exits ? each.exits : each.entries)[port] - hooks[child] : 0];
    };
    const ties = weighed(trunks.flatMap((trunk, net) => tiesOf(trunk, body[net], fixedTo)));
    const entry = spots.length, leave = entry + template.entries.length;
    if (template.entries.length && template.exits.length) {
      ties.unshift([entry + mainEntry(trunks), 0, leave, 0, THROUGH]);
    }
    const found = settle(bodies, hints, ties);
    let begin = Infinity, end = -Infinity;
    bodies.forEach((each, number) => {
      begin = Math.min(begin, found[number] - each.left);
      end = Math.max(end, found[number] + each.right);
    });
    if (!bodies.length) begin = end = 0;
    const ports = found.slice(entry, leave);
    const first = ports.length ? Math.min(...ports) : begin + room.clear;
    const shift = Math.max(PAD + room.beside - begin, room.clear - first);
    const moved = found.map(here => here + shift), middle = moved.slice(0, entry);
    const lane = Math.min(LANE, LANES / Math.max(template.lanes, 1));
    const stems = trunks.map(([, all], net) => all.map(([at], number) =>
      at < 0 ? end + shift + LANE - lane * (at + 1) : moved[body[net][number]]));
    const beside = template.lanes ? LANE + lane * template.lanes : 0;
    const across = {
      size, middle, stems,
      entries: moved.slice(entry, leave),
      exits: moved.slice(leave, leave + template.exits.length),
      side: middle.map((here, child) => here - hooks[child]),
      width: Math.max(end + shift + beside + PAD, room.least),
    };
    meetBoxes(template, inner, across);
    return across;
  }

  // The first entry, if possible one that goes several ways.
  function mainEntry(trunks) {
    const fans = trunks.filter(([[child], , branches]) => child === OUTSIDE && branches.length > 1)
      .map(([[, port]]) => port);
    return fans.length ? Math.min(...fans) : 0;
  }

  // Of several ties between two boxes, the first has the largest weight.
  function weighed(ties) {
    const known = new Set();
    return ties.map(tie => {
      if (tie[4] !== STRAIGHT) return tie;
      const key = `${tie[0]},${tie[2]}`, first = !known.has(key);
      known.add(key);
      return first ? tie : [...tie.slice(0, 4), TURN];
    });
  }

  // The pieces of a trunk without those in lanes, without duplicates.
  function tiesOf([source, , branches], body, fixedTo) {
    const ties = [], known = new Set();
    const add = tie => {
      const key = `${tie[0]},${tie[2]}`;
      if (known.has(key) && tie[4] !== STRAIGHT) return;
      known.add(key);
      ties.push(tie);
    };
    for (const [sink, way] of branches) {
      let [one, here] = fixedTo(source, true), weight = STRAIGHT, lane = false;
      for (const number of way) {
        lane = body[number] < 0;
        if (lane) break;
        weight = weight === STRAIGHT ? TURN : LONG;
        add([one, here, body[number], 0, weight]);
        [one, here] = [body[number], 0];
      }
      if (weight !== STRAIGHT) weight = TURN;
      if (!lane) add([one, here, ...fixedTo(sink, false), weight]);
    }
    return ties;
  }

  // Where lines leave and enter boxes.
  function meetBoxes(template, inner, across) {
    const { entries, exits, side, size, stems, middle } = across;
    const fixed = ([child, port], out) => {
      if (child === OUTSIDE) return (out ? entries : exits)[port];
      const each = inner.get(child);
      return each ? side[child] + (out ? each.exits : each.entries)[port] : null;
    };
    const meet = (wanted, found) => {
      for (const [child, ends] of wanted) {
        const places = slots([...ends.values()], middle[child], size[child][0]);
        [...ends.keys()].forEach((end, number) => found.set(end, places[number]));
      }
    };
    const want = (wanted, end, where) => {
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
      const next = branches.map(([sink, way]) =>
        way.length ? stems[net][way[0]] : fixed(sink, false) ?? middle[sink[0]]);
      const near = next.find(at => Math.abs(at - middle[source[0]]) <= ASIDE);
      want(out, source, near ?? next.reduce((sum, each) => sum + each, 0) / next.length);
    });
    meet(out, leaving);
    template.trunks.forEach(([source, , branches], net) => {
      for (const [sink, way] of branches) {
        const enters = fixed(sink, false);
        if (enters !== null) arriving.set(sink.join(), enters);
        else {
          want(into, sink,
            way.length ? stems[net][way[way.length - 1]] : leaving.get(source.join()));
        }
      }
    });
    meet(into, arriving);
  }

  return placeAcross;
};
