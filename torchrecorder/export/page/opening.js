// Opening: which boxes are open after the reader asks for one, a level, all or none.

"use strict";

const opening = (() => {
  function toggled(open, item) {
    const next = new Set(open);
    if (!next.delete(item)) next.add(item);
    return next;
  }

  // Everything around `item` opened, so that it can be seen.
  const revealed = (model, open, item) => new Set([...open, ...model.ancestors(item)]);

  const isRevealed = (model, open, item) =>
    model.ancestors(item).every(around => open.has(around));

  // The boxes that can be seen.
  function seen(model, open) {
    const found = [], waiting = [...model.children[0]].reverse();
    while (waiting.length) {
      const item = waiting.pop();
      found.push(item);
      if (open.has(item)) waiting.push(...[...model.children[item + 1]].reverse());
    }
    return found;
  }

  // How deep each item lies; the box of a fold is not a level of its own.
  function levels(model) {
    const found = new Int32Array(model.count);
    for (let item = 0; item < model.count; item++) {
      const around = model.parent(item);
      if (around >= 0) found[item] = found[around] + (model.isFold(around) ? 0 : 1);
    }
    return found;
  }

  // The first `count` levels open, folds left as they are.
  function toLevel(model, open, count) {
    const level = levels(model);
    return new Set(model.openable.filter(item =>
      model.isFold(item) ? open.has(item) : level[item] < count));
  }

  const deepest = model => {
    const level = levels(model);
    return model.openable.reduce((most, item) => Math.max(most, level[item] + 1), 0);
  };

  const everything = model => new Set(model.openable);
  const folds = model => model.openable.filter(item => model.isFold(item));
  const unfolded = (model, open) => new Set([...open, ...folds(model)]);
  const folded = (model, open) =>
    new Set([...open].filter(item => !model.isFold(item)));

  // The same with everything in `item` closed too.
  const closedWithin = (model, open, item) =>
    new Set([...open].filter(each => !model.within(each, item)));

  const same = (one, other) => one.size === other.size && [...one].every(item => other.has(item));

  return {
    toggled, seen, revealed, isRevealed, toLevel, deepest, everything, folds, unfolded, folded,
    closedWithin, same,
  };
})();
