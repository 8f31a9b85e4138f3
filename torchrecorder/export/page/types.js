// Types: what class or operation a box is, which boxes are of one type, and which are equal.

"use strict";

const createTypes = model => {
  const { items } = model.data;
  let byType = null, keys = null, classes = null;

  const of = item => model.cls(item) || model.op(item);
  // A module, or anything else that can be opened; folds are not counted beside what is in them.
  const isCall = item => !model.isFold(item) && (model.canOpen(item) || model.kind(item) === "module");
  const isLeaf = item => model.kind(item) === "op" && !model.canOpen(item);

  // The items of each type, in the order of the run.
  function all() {
    if (byType) return byType;
    byType = new Map();
    for (let item = 0; item < model.count; item++) {
      const type = of(item);
      if (!type || !(isCall(item) || isLeaf(item))) continue;
      if (!byType.has(type)) byType.set(type, []);
      byType.get(type).push(item);
    }
    return byType;
  }

  // For each item a number that those have in common of which all is equal that was recorded,
  // and everything in them too; numbers and names aside.
  function allKeys() {
    if (keys) return keys;
    const known = new Map();
    keys = new Int32Array(model.count);
    classes = new Map();
    for (let item = model.count - 1; item >= 0; item--) {
      const inner = model.children[item + 1].map(child => keys[child]).join();
      const key = [items.facts[item], items.kind[item], items.cls[item], items.op[item], inner].join("/");
      if (!known.has(key)) known.set(key, known.size);
      keys[item] = known.get(key);
      if (!classes.has(keys[item])) classes.set(keys[item], []);
      classes.get(keys[item]).push(item);
    }
    return keys;
  }

  // The items that are equal to `item`, itself among them, in the order of the run.
  const equal = item => (of(item) && !model.isFold(item) ? classesOf(item) : [item]);
  const classesOf = item => {
    const key = allKeys()[item];
    return [...classes.get(key)].reverse();
  };
  const areEqual = (one, other) => allKeys()[one] === keys[other];

  return { of, all, equal, areEqual, isCall, isLeaf };
};
