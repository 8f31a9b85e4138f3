// Variants: templates with one sibling of a fold, with hidden boxes, with space for numbers on
// boxes, or for another direction. The rows and the order in them are those of the template.

"use strict";

// Whether the flow is horizontal.
const isHorizontal = direction => direction === "LR" || direction === "RL";

const createVariants = (data, children) => {
  const DOT = 8;
  const { items, root, templates } = data;
  const known = new Map();

  // The ports of siblings on one side: the ends of lines between the sibling `index` and the border
  // of the fold (`own`), the same of other siblings (`others`), and a map from the ports of
  // `index` that are connected to siblings to their trunks (`between`).
  function ends(template, index, isIn) {
    const own = [], between = new Map(), others = [];
    template.trunks.forEach(([source, , branches], trunk) => {
      for (const [sink] of branches) {
        const [here, there] = isIn ? [sink, source] : [source, sink];
        if (here[0] === OUTSIDE) continue;
        const end = { port: here[1], outer: there[1], child: here[0], trunk };
        if (there[0] !== OUTSIDE) {
          if (here[0] === index) between.set(here[1], trunk);
        } else if (here[0] === index) own.push(end);
        else others.push(end);
      }
    });
    return { own, between, others };
  }

  // The connections of one sibling to the ports of its fold: its own lines, and for lines to its
  // siblings, those of the first or last of them. A port without either gets a new outer port.
  function connections(template, index, isIn) {
    const { own, between, others } = ends(template, index, isIn);
    const order = [...others].sort((a, b) => (isIn ? a.child - b.child : b.child - a.child));
    const used = new Set(own.map(each => each.outer)), found = [...own], open = [];
    for (const [port, trunk] of between) {
      const match = order.find(each => each.port === port && !used.has(each.outer));
      if (match) {
        used.add(match.outer);
        found.push({ port, outer: match.outer, trunk });
      } else if (!own.some(each => each.port === port)) open.push({ port, trunk });
    }
    const left = [...new Set(order.map(each => each.outer))].filter(each => !used.has(each));
    let extra = (isIn ? template.entries : template.exits).length;
    for (const { port, trunk } of open) {
      const isOnly = open.length === 1 && left.length === 1;
      found.push({ port, trunk, outer: isOnly ? left[0] : extra++ });
    }
    return { found, between, count: extra };
  }

  // The positions of lines on the border of a fold, in the order of their ports at the box in it.
  function inOrder(positions, found, ports, count, middle) {
    const all = [...positions, ...Array(count - positions.length).fill(middle)];
    if (!ports) return all;
    const inner = new Map(found.map(({ outer, port }) => [outer, ports[port] ?? middle]));
    const order = [...inner.keys()].sort((a, b) => inner.get(a) - inner.get(b) || a - b);
    const places = order.map(outer => all[outer]).sort((a, b) => a - b);
    order.forEach((outer, number) => { all[outer] = places[number]; });
    return all;
  }

  // The template of a fold with only the child `index` in it, whose own template is `inner`.
  function single(template, index, inner) {
    const into = connections(template, index, true), out = connections(template, index, false);
    const [across, , width, height] = template.children[index];
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
      children: [[across, 0, width, height, 0]], rows: 1, lanes: 0, branches: [],
      entries: inOrder(template.entries, into.found, inner?.entries, into.count, across),
      exits: inOrder(template.exits, out.found, inner?.exits, out.count, across),
      trunks: all.map(({ source, branches }) => [source, [], branches]),
      back: [...out.between.values(), ...into.between.values()][0],
      origin: all.map(({ trunk }) => trunk),
    };
  }

  // A letter for each child in the key of a variant: hidden, with a number, or neither.
  function marksOf(inner, { hidden, numbered }) {
    if (!hidden?.size && !numbered) return "";
    return inner.map(item => (hidden?.has(item) ? "h" : numbered?.has(item) ? "n" : ".")).join("");
  }

  // `template` with the sizes of its children changed.
  function resized(template, marks, { numbered, direction }) {
    const horizontal = isHorizontal(direction);
    const swap = horizontal !== isHorizontal(data.direction);
    const resizedChildren = template.children.map(([at, row, across, along, last], child) => {
      if (marks[child] === "h") return [at, row, DOT, DOT, last];
      const [width, height] = horizontal === swap ? [across, along] : [along, across];
      const [w, h] = marks[child] === "n"
        ? [Math.max(width, numbered.width), height + numbered.height] : [width, height];
      return [at, row, ...(horizontal ? [h, w] : [w, h]), last];
    });
    return { ...template, children: resizedChildren };
  }

  // The template of `scope`, with the items shown in it and a key for each different variant.
  function of(scope, options) {
    const number = scope < 0 ? root : items.template[scope];
    const all = children[scope + 1];
    const shown = shownChildren(items, children, scope, options.siblings);
    const index = shown.length < all.length ? all.indexOf(shown[0]) : -1;
    const marks = marksOf(shown, options);
    const swap = isHorizontal(options.direction) !== isHorizontal(data.direction);
    if (index < 0 && !marks && !swap) {
      return { template: templates[number], shown, key: `${number}` };
    }
    const { width, height } = options.numbered ?? {};
    const growth = marks.includes("n") ? `${width},${height}` : "";
    const inner = items.template[shown[0]];
    const key = `${number}/${index}/${index < 0 ? "" : inner}/${marks}/${Number(swap)}/${growth}`;
    if (!known.has(key)) {
      const plain = index < 0 ? templates[number]
        : single(templates[number], index, templates[inner]);
      known.set(key, marks || swap ? resized(plain, marks, options) : plain);
    }
    return { template: known.get(key), shown, key };
  }

  return { of };
};
