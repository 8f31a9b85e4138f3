// Types: the class or operation of each box, the boxes of each type, and boxes that are equal.

"use strict";

const createTypes = model => {
  const { items } = model.data;
  let byType = null, keys = null, groups = null;

  // Modules and everything else that can be opened, without folds, whose siblings count.
  const isCall = item => !model.isFold(item) &&
    (model.canOpen(item) || model.kind(item) === "module");
  const isLeaf = item => model.kind(item) === "op" && !model.canOpen(item);

  // A map from each type to its items, in the order of the run.
  function itemsByType() {
    byType ??= Map.groupBy(
      model.all.filter(item => model.typeOf(item) && (isCall(item) || isLeaf(item))), model.typeOf);
    return byType;
  }

  // For each item a number that is the same for items with equal recorded data, except names and
  // measured numbers, and with equal contents.
  function equalityKeys() {
    if (keys) return keys;
    const known = new Map();
    keys = new Int32Array(model.count);
    for (let item = model.count - 1; item >= 0; item--) {
      const inner = model.children[item + 1].map(child => keys[child]).join();
      const { facts, kind, cls, op } = items;
      const key = [facts[item], kind[item], cls[item], op[item], inner].join("/");
      if (!known.has(key)) known.set(key, known.size);
      keys[item] = known.get(key);
    }
    groups = Map.groupBy(model.all, item => keys[item]);
    return keys;
  }

  // The items that are equal to `item`, including itself, in the order of the run.
  function equalTo(item) {
    if (!model.typeOf(item) || model.isFold(item)) return [item];
    const key = equalityKeys()[item];
    return groups.get(key);
  }

  // Whether two items are not the same, but equal. Folds are compared by their siblings.
  const areEqual = (one, other) => one !== other && !model.isFold(one) && !model.isFold(other) &&
    equalityKeys()[one] === keys[other];

  return { itemsByType, equalTo, areEqual, isCall, isLeaf };
};
