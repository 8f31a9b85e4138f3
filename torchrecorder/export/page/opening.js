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

  // The state in which `item` can be seen, in whatever fold, hidden or outside of the root.
  function shown(model, now, item) {
    const around = [...model.ancestors(item), item], { siblings, hidden, root } = now;
    return {
      open: isRevealed(model, now.open, item) ? now.open : revealed(model, now.open, item),
      siblings: around.some(each => model.isAside(each, siblings))
        ? chosen(model, siblings, around) : siblings,
      hidden: around.some(each => hidden.has(each))
        ? new Set([...hidden].filter(each => !around.includes(each))) : hidden,
      root: model.within(item, root) ? root : -1,
    };
  }

  function chosen(model, siblings, items) {
    const next = new Map(siblings);
    for (const item of items) if (model.isAside(item, next)) next.set(model.parent(item), item);
    return next;
  }

  // Whether `item` can be seen, as a dot at least.
  const isShown = (model, now, item) => isRevealed(model, now.open, item) &&
    model.within(item, now.root) && [...model.ancestors(item), item].every(each =>
    !model.isAside(each, now.siblings) && (each === item || !now.hidden.has(each)));

  const isRevealed = (model, open, item) =>
    model.ancestors(item).every(around => open.has(around));

  // The boxes that can be seen, without hidden ones; all siblings if none are chosen.
  function seen(model, open, { siblings, hidden, root = -1 } = {}) {
    const found = [], waiting = root < 0 ? [...model.children[0]].reverse() : [root];
    while (waiting.length) {
      const item = waiting.pop();
      if (hidden?.has(item)) continue;
      found.push(item);
      if (open.has(item)) waiting.push(...[...model.inside(item, siblings)].reverse());
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

  // A fold opens to a sibling that is open too.
  function toggledBox(model, { open, siblings }, item) {
    const next = toggled(open, item);
    const [only, ...more] = next.has(item) && model.isFold(item) ? model.inside(item, siblings) : [];
    return only !== undefined && !more.length && model.canOpen(only) ? next.add(only) : next;
  }

  // The state with another sibling of a fold in the place of the one that is shown, open as that is.
  function exchanged(model, { open, siblings, selected }, fold, member) {
    const [one, ...more] = model.inside(fold, siblings), next = new Map(siblings).set(fold, member);
    const alike = member !== ALL && !more.length && model.end[one] - one === model.end[member] - member;
    if (!alike) return { siblings: next, selected: model.within(selected, fold) ? fold : selected };
    const moved = item => (model.within(item, one) ? item - one + member : item);
    return { siblings: next, selected: moved(selected), open: new Set([...open].flatMap(item =>
      [item, moved(item)])) };
  }

  const everySibling = model => new Map(folds(model).map(fold => [fold, ALL]));

  const same = (one, other) => one.size === other.size && [...one].every(item => other.has(item));

  return {
    toggled, seen, revealed, isRevealed, toLevel, deepest, everything, folds, unfolded, folded,
    closedWithin, same, shown, isShown, chosen, toggledBox, exchanged, everySibling,
  };
})();
