// Open items: which boxes are open after an action of the reader, and which are visible then.

"use strict";

const openItems = (() => {
  function toggledItem(open, item) {
    const next = new Set(open);
    if (!next.delete(item)) next.add(item);
    return next;
  }

  // The changes of a state with which `items` are visible, wherever they are.
  function showing(model, now, ...items) {
    const { open, siblings, hidden, root } = now;
    const around = items.flatMap(model.ancestors), path = [...around, ...items];
    return {
      open: around.every(each => open.has(each)) ? open : new Set([...open, ...around]),
      siblings: path.some(each => model.isOtherSibling(each, siblings))
        ? choosing(model, siblings, path) : siblings,
      hidden: path.some(each => hidden.has(each))
        ? new Set([...hidden].filter(each => !path.includes(each))) : hidden,
      root: items.every(item => model.within(item, root)) ? root : -1,
    };
  }

  // The siblings that are shown so that none of `items` is replaced by another one; all of a fold
  // if several of them are among the items.
  function choosing(model, siblings, items) {
    const next = new Map(siblings);
    for (const item of items) {
      if (!model.isOtherSibling(item, next)) continue;
      const fold = model.parent(item), [shown] = model.shownChildren(fold, next);
      next.set(fold, items.includes(shown) ? ALL_SIBLINGS : item);
    }
    return next;
  }

  // Whether `item` is visible, at least as a dot.
  const isVisible = (model, now, item) => isRevealed(model, now.open, item) &&
    model.within(item, now.root) && [...model.ancestors(item), item].every(each =>
    !model.isOtherSibling(each, now.siblings) && (each === item || !now.hidden.has(each)));

  const isRevealed = (model, open, item) => model.ancestors(item).every(each => open.has(each));

  // The visible boxes, without hidden ones; all siblings if `siblings` is missing.
  function visible(model, open, { siblings, hidden, root = -1 } = {}) {
    const result = [], waiting = root < 0 ? model.children[0].toReversed() : [root];
    while (waiting.length) {
      const item = waiting.pop();
      if (hidden?.has(item)) continue;
      result.push(item);
      if (open.has(item)) waiting.push(...model.shownChildren(item, siblings).toReversed());
    }
    return result;
  }

  // The level of each item; a fold is not a level of its own.
  function levels(model) {
    const result = new Int32Array(model.count);
    for (let item = 0; item < model.count; item++) {
      const parent = model.parent(item);
      if (parent >= 0) result[item] = result[parent] + (model.isFold(parent) ? 0 : 1);
    }
    return result;
  }

  // The first `count` levels, and the folds in `open`.
  function toLevel(model, open, count) {
    const level = levels(model);
    return new Set(model.openable.filter(item =>
      model.isFold(item) ? open.has(item) : level[item] < count));
  }

  // The number of levels.
  const deepest = model => {
    const level = levels(model);
    return model.openable.reduce((most, item) => Math.max(most, level[item] + 1), 0);
  };

  const all = model => new Set(model.openable);
  const folds = model => model.openable.filter(item => model.isFold(item));
  const withFolds = (model, open) => new Set([...open, ...folds(model)]);
  const withoutFolds = (model, open) => new Set([...open].filter(item => !model.isFold(item)));
  const allSiblings = model => new Map(folds(model).map(fold => [fold, ALL_SIBLINGS]));

  // `open` with `item` opened or closed; a fold opens with the sibling that it shows.
  function toggled(model, { open, siblings }, item) {
    const next = toggledItem(open, item);
    const [only, ...more] = next.has(item) && model.isFold(item)
      ? model.shownChildren(item, siblings) : [];
    return only !== undefined && !more.length && model.canOpen(only) ? next.add(only) : next;
  }

  // Pairs of items that have the same place in two siblings: in order if both have as many,
  // otherwise those of each type in order.
  function pairs(model, own, others) {
    if (own.length === others.length) return own.map((item, index) => [item, others[index]]);
    const typeOf = item => model.typeOf(item) || model.title(item);
    const byType = Map.groupBy(others, typeOf), next = new Map();
    return own.map(item => {
      const type = typeOf(item), index = next.get(type) ?? 0;
      next.set(type, index + 1);
      return [item, byType.get(type)?.[index]];
    }).filter(([, other]) => other !== undefined);
  }

  // A map from the items in `one` to those in `other` that have the same place there.
  function counterparts(model, one, other) {
    const result = new Map(), waiting = [[one, other]];
    while (waiting.length) {
      const [from, to] = waiting.pop();
      result.set(from, to);
      const inside = pairs(model, model.children[from + 1], model.children[to + 1]);
      for (const pair of inside) waiting.push(pair);
    }
    return result;
  }

  // The changes of a state with which `member` is shown instead of another sibling of its fold,
  // open and selected like that one.
  function exchanged(model, { open, siblings, selected }, fold, member) {
    const [one, ...more] = model.shownChildren(fold, siblings);
    const next = new Map(siblings).set(fold, member);
    if (member === ALL_SIBLINGS || more.length) {
      return { siblings: next, selected: model.within(selected, fold) ? fold : selected };
    }
    const places = counterparts(model, one, member);
    places.set(ALL_SIBLINGS, ALL_SIBLINGS);
    for (const [inner, shown] of siblings) {
      if (places.has(inner) && places.has(shown)) next.set(places.get(inner), places.get(shown));
    }
    const isLost = selected !== fold && model.within(selected, fold) && !places.has(selected);
    return { siblings: next, selected: isLost ? member : places.get(selected) ?? selected,
      open: new Set([...open].flatMap(item => [item, places.get(item) ?? item])) };
  }

  const areEqualSets = (one, other) => one.size === other.size && one.isSubsetOf(other);

  return {
    toggledItem, toggled, visible, isRevealed, toLevel, deepest, all, folds, withFolds,
    withoutFolds, areEqualSets, showing, isVisible, choosing, exchanged, allSiblings,
  };
})();
