// Paths: what is on the paths of data between two boxes.

"use strict";

// The ends of paths in a state without any.
const NO_PATHS = { from: -1, to: -1 };

const createPaths = (model, names) => {
  const { consumers } = model.data.tensors;

  // The items that `next` leads to from the item `start`, up to the first ones in `end`.
  function reached(start, end, next) {
    const found = new Set(), waiting = [start];
    while (waiting.length) {
      for (const { item } of next(waiting.pop())) {
        if (item < 0 || found.has(item) || model.within(item, start)) continue;
        found.add(item);
        if (!model.within(item, end)) waiting.push(item);
      }
    }
    return found;
  }

  // The steps of all paths out of `from` into `to`: {tensor, maker, reader} each.
  function steps(from, to) {
    const after = reached(from, to, model.outputs), before = reached(to, from, model.inputs);
    const makers = [...before].filter(item => after.has(item) || model.within(item, from));
    return makers.flatMap(maker => model.outputs(maker)
      .filter(({ item }) => after.has(item) && (before.has(item) || model.within(item, to)))
      .map(({ tensor, item }) => ({ tensor, maker, reader: item })));
  }

  // A function that counts those of `items` that are in a scope.
  function counter(items) {
    const sorted = Int32Array.from(items).sort();
    function before(limit) {
      let low = 0, high = sorted.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (sorted[middle] < limit) low = middle + 1;
        else high = middle;
      }
      return low;
    }
    return scope => (scope < 0 ? sorted.length : before(model.end[scope]) - before(scope));
  }

  // Whether a line leads to one of the items that `count` counts, which read its tensor.
  function leadsTo(count, tensor, { scope, tail, head, exits }) {
    if (!exits) return count(head) > 0;
    if (count(scope) < count(-1)) return true;
    // Where one sibling of a fold is shown, a line to another one is drawn as if it left the fold.
    return model.isFold(scope) && count(tail) < count(-1) &&
      consumers[tensor].every(item => model.within(item, scope));
  }

  // Whether one of two items is in the other: then no path leads from one to the other.
  const areNested = (one, other) => model.within(one, other) || model.within(other, one);

  // The paths between two items, in both directions: whether there are any, whether an item or
  // something in it is on one, and which lines are.
  function between(from, to) {
    const all = areNested(from, to) ? [] : [...steps(from, to), ...steps(to, from)];
    const counts = new Map([...Map.groupBy(all, step => step.tensor)].map(([tensor, list]) =>
      [tensor, counter(list.map(step => step.reader))]));
    const count = counter([from, to, ...all.flatMap(({ maker, reader }) => [maker, reader])]);
    const isOn = line => tensor =>
      counts.has(tensor) && leadsTo(counts.get(tensor), tensor, line);
    return {
      exist: all.length > 0, has: item => count(item) > 0,
      line: line => (model.carries(line, isOn(line)) ? "path" : null),
    };
  }

  // The paths between the two boxes of a state; null if none were chosen.
  let key = null, found = null;
  function of({ from, to }) {
    if (to < 0) return null;
    if (key !== `${from} ${to}`) [key, found] = [`${from} ${to}`, between(from, to)];
    return found;
  }

  // Two paths without the modules that they have in common.
  function withoutCommon(one, other) {
    const [ours, theirs] = [one, other].map(path => path.split("."));
    let common = 0;
    while (common < Math.min(ours.length, theirs.length) - 1 && ours[common] === theirs[common]) {
      common++;
    }
    return [ours, theirs].map(parts => parts.slice(common).join("."));
  }

  // The same as text.
  function text({ from, to }) {
    if (to < 0) return "";
    const [one, other] = [from, to].map(item => names.ownPath(item) || names.short(item));
    if (model.within(to, from)) return `No path: ${other} is in ${one}`;
    if (model.within(from, to)) return `No path: ${one} is in ${other}`;
    const exist = of({ from, to }).exist ? "Paths" : "No path";
    return `${exist} between ${withoutCommon(one, other).join(" and ")}`;
  }

  return { of, text };
};
