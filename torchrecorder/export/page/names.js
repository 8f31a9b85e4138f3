// Names: what tells a box from others with the same title.

"use strict";

const createNames = model => {
  const known = new Map();  // parent -> its children that share a title: item -> [number, count]

  function numbersIn(parent) {
    const result = new Map();
    for (const group of Map.groupBy(model.children[parent + 1], model.title).values()) {
      if (group.length < 2) continue;
      group.forEach((item, index) => result.set(item, [index + 1, group.length]));
    }
    return result;
  }

  // The number of an item among the boxes beside it with the same title; empty for the only one.
  function number(item) {
    const parent = model.parent(item);
    if (!known.has(parent)) known.set(parent, numbersIn(parent));
    const found = known.get(parent).get(item);
    if (!found) return "";
    const text = `${found[0]} of ${found[1]}`;
    return parent >= 0 && model.isFold(parent) ? `step ${text}` : text;
  }

  // The numbers of an item and of all around it, the outermost first; without those of what is also
  // around the item `near`.
  const numbers = (item, near = -1) => [...model.ancestors(item), item]
    .filter(each => near < 0 || !model.within(near, each)).map(number).filter(Boolean).join(" · ");

  // The path of an item, unless it is that of the module around it.
  const ownPath = item =>
    (model.path(item) === model.path(model.parent(item)) ? "" : model.path(item));

  const joined = (...parts) => parts.filter(Boolean).join(" · ");

  // Where an item is: its path or that of what is around it, and the numbers.
  const place = (item, near) => joined(model.path(item), numbers(item, near));

  // The module that an item is or is in, without the functions between, and the numbers.
  const module = item => joined(model.path([...model.ancestors(item), item]
    .findLast(each => model.kind(each) === "module" && model.cls(each) !== "function") ?? item),
  numbers(item));

  // The name of an item among the siblings of its fold.
  const sibling = item => number(item) || model.title(item);

  // The part of a path that those around it do not have, as in its frame; otherwise the title.
  function short(item) {
    const own = model.path(item), parent = model.parent(item);
    if (model.isFold(item) || (own && parent < 0)) return model.title(item).split(": ")[0];
    if (!own || own === model.path(parent)) {
      return model.isFold(parent) ? sibling(item) : model.title(item);
    }
    const paths = model.ancestors(item).map(model.path);
    const around = paths.filter(path => path && own.startsWith(`${path}.`)).at(-1);
    return around ? own.slice(around.length + 1) : own;
  }

  return { joined, number, numbers, ownPath, place, module, sibling, short };
};
