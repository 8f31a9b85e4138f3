// Variants: templates with one sibling of a fold, with hidden boxes, with room for numbers on
// boxes, or for another direction. Rows and the order in them stay those of the template.

"use strict";

// Whether the flow is horizontal.
const sideways = direction => direction === "LR" || direction === "RL";

// In the place of the chosen sibling of a fold: all of them.
const ALL = -1;

// What is shown of the siblings in a fold: the chosen one, or the first.
const ofFold = (all, chosen = all[0]) => (chosen === ALL ? all : [chosen]);

const createVariants = (data, children) => {
  const DOT = 8, OUTSIDE = -1;
  const { items, root, templates } = data;
  const known = new Map();

  // What is shown of the items in `scope`: of a fold one sibling, its first if none is chosen.
  function inside(scope, siblings) {
    const all = children[scope + 1];
    return siblings && items.fold?.[scope] ? ofFold(all, siblings.get(scope)) : all;
  }

  // The only number of each list, if it has one.
  const pairOf = (ones, others) => (ones.length === 1 && others.length === 1 ? others[0] : null);

  // The ports at which siblings feed each other, and those at which the fold feeds them or they
  // it: of `seat`, {own: [port, outer port], fed: [port]}, and of the others [port, outer port].
  function ends(template, seat, isIn) {
    const own = [], fed = new Map(), others = [];
    template.trunks.forEach(([source, , branches], trunk) => {
      for (const [sink] of branches) {
        const [here, there] = isIn ? [sink, source] : [source, sink];
        if (here[0] === OUTSIDE) continue;
        const end = { port: here[1], outer: there[1], child: here[0], trunk };
        if (there[0] !== OUTSIDE) {
          if (here[0] === seat) fed.set(here[1], trunk);
        } else if (here[0] === seat) own.push(end);
        else others.push(end);
      }
    });
    return { own, fed, others };
  }

  // How one sibling is joined to the ports of its fold: by its own lines, and where it is joined
  // to its siblings, by those of the first or last of them. What has none gets a port of its own.
  function joints(template, seat, isIn) {
    const { own, fed, others } = ends(template, seat, isIn);
    const order = [...others].sort((a, b) => (isIn ? a.child - b.child : b.child - a.child));
    const taken = new Set(own.map(each => each.outer)), found = [...own], open = [];
    for (const [port, trunk] of fed) {
      const match = order.find(each => each.port === port && !taken.has(each.outer));
      if (match) {
        taken.add(match.outer);
        found.push({ port, outer: match.outer, trunk });
      } else if (!own.some(each => each.port === port)) open.push({ port, trunk });
    }
    const left = [...new Set(order.map(each => each.outer))].filter(each => !taken.has(each));
    let extra = (isIn ? template.entries : template.exits).length;
    for (const { port, trunk } of open) {
      found.push({ port, trunk, outer: pairOf(open, left) ?? extra++ });
    }
    return { found, fed, count: extra };
  }

  // Where lines cross the border of a fold, in the order in which they meet the box in it.
  function inOrder(given, joints, ports, count, middle) {
    const all = [...given, ...Array(count - given.length).fill(middle)];
    if (!ports) return all;
    const met = new Map(joints.map(({ outer, port }) => [outer, ports[port] ?? middle]));
    const order = [...met.keys()].sort((a, b) => met.get(a) - met.get(b) || a - b);
    const places = order.map(outer => all[outer]).sort((a, b) => a - b);
    order.forEach((outer, number) => { all[outer] = places[number]; });
    return all;
  }

  // The template of a fold with only the child `seat` in it, whose own template is `inner`.
  function single(template, seat, inner) {
    const into = joints(template, seat, true), out = joints(template, seat, false);
    const [across, , width, height] = template.spots[seat];
    const groups = new Map();
    const add = (source, sink, trunk) => {
      const key = `${source} ${trunk}`;
      if (!groups.has(key)) groups.set(key, { source, branches: [], trunk });
      groups.get(key).branches.push([sink, []]);
    };
    for (const { port, outer, trunk } of into.found) add([OUTSIDE, outer], [0, port], trunk);
    for (const { port, outer, trunk } of out.found) add([0, port], [OUTSIDE, outer], trunk);
    const all = [...groups.values()];
    return {
      spots: [[across, 0, width, height, 0]], rows: 1, lanes: 0,
      entries: inOrder(template.entries, into.found, inner?.entries, into.count, across),
      exits: inOrder(template.exits, out.found, inner?.exits, out.count, across),
      trunks: all.map(({ source, branches }) => [source, [], branches]),
      back: [...out.fed.values(), ...into.fed.values()][0],
      origin: all.map(({ trunk }) => trunk),
    };
  }

  // What is said of each child in the key of a variant: hidden, with a number, or neither.
  function marksOf(inner, { hidden, numbered }) {
    if (!hidden?.size && !numbered) return "";
    return inner.map(item => (hidden?.has(item) ? "h" : numbered?.has(item) ? "n" : ".")).join("");
  }

  function resized(template, marks, { numbered, direction }) {
    const turned = sideways(direction), swap = turned !== sideways(data.direction);
    const spots = template.spots.map(([at, row, across, along, last], child) => {
      if (marks[child] === "h") return [at, row, DOT, DOT, row];
      const wide = turned === swap ? across : along, high = turned === swap ? along : across;
      const [w, h] = marks[child] === "n"
        ? [Math.max(wide, numbered.width), high + numbered.height] : [wide, high];
      return [at, row, ...(turned ? [h, w] : [w, h]), last];
    });
    return { ...template, spots };
  }

  // The template of `scope`, with the items in it and a key that tells it from all others.
  function of(scope, how) {
    const number = scope < 0 ? root : items.template[scope];
    const shown = inside(scope, how.siblings), all = children[scope + 1];
    const seat = shown.length < all.length ? all.indexOf(shown[0]) : -1;
    const marks = marksOf(shown, how), swap = sideways(how.direction) !== sideways(data.direction);
    if (seat < 0 && !marks && !swap) return { template: templates[number], shown, key: `${number}` };
    const growth = marks.includes("n") ? `${how.numbered.width},${how.numbered.height}` : "";
    const inner = items.template[shown[0]];
    const key = `${number}/${seat}/${seat < 0 ? "" : inner}/${marks}/${Number(swap)}/${growth}`;
    if (!known.has(key)) {
      const plain = seat < 0 ? templates[number] : single(templates[number], seat, templates[inner]);
      known.set(key, marks || swap ? resized(plain, marks, how) : plain);
    }
    return { template: known.get(key), shown, key };
  }

  return { of, inside };
};
