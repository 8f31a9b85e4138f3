// Model: queries on the page's data: names, nesting, producers and consumers.

"use strict";

// Caches the last result of `work`.
function lately(work) {
  let asked, found;
  return thing => {
    if (thing !== asked) [asked, found] = [thing, work(thing)];
    return found;
  };
}

const createModel = data => {
  const { items, strings, tensors } = data;
  const count = items.parent.length;
  const text = number => (number >= 0 ? strings[number] ?? "" : "");
  const children = Array.from({ length: count + 1 }, () => []);
  const level = new Int32Array(count);
  const end = new Int32Array(count);
  for (let item = 0; item < count; item++) {
    const around = items.parent[item];
    children[around + 1].push(item);
    level[item] = around < 0 ? 0 : level[around] + 1;
  }
  for (let item = count - 1; item >= 0; item--) {
    end[item] = Math.max(end[item], item + 1);
    const around = items.parent[item];
    if (around >= 0) end[around] = Math.max(end[around], end[item]);
  }

  const canOpen = item => item >= 0 && items.header[item] >= 0 && items.template[item] >= 0;
  const openable = [];
  for (let item = 0; item < count; item++) if (canOpen(item)) openable.push(item);

  // Whether `item` is `scope` or in it; everything is in the paper, -1.
  const within = (item, scope) => scope < 0 || (item >= scope && item < end[scope]);

  function ancestors(item) {
    const found = [];
    for (let at = items.parent[item]; at >= 0; at = items.parent[at]) found.push(at);
    return found.reverse();
  }

  const label = (item, open) => data.labels[items[open ? "header" : "label"][item]] ?? [];
  const lines = (item, open) =>
    label(item, open).map(([number, part]) => ({ text: text(number), part }));
  // A header may be broken in two lines; they are one title.
  const title = item => lines(item, canOpen(item)).filter(line => line.part === 0)
    .map(line => line.text).join(" ") || lines(item, false).map(line => line.text)[0] || "box";
  const details = item => lines(item, false).filter(line => line.part > 0).map(line => line.text);
  const look = (item, open) => data.looks[items[open ? "openlook" : "look"][item]];

  function path(item) {
    const own = text(items.path[item]);
    return own || (items.parent[item] < 0 ? "" : text(items.path[items.parent[item]]));
  }

  // Where a path leads to: the first item that has it, the given call of it if there is one.
  const byPath = new Map(), byId = new Map();
  for (let item = 0; item < count; item++) {
    const own = text(items.path[item]), call = items.call?.[item] ?? 0;
    for (const key of call ? [`${own}@${call}`] : [own]) {
      if (own && !byPath.has(key)) byPath.set(key, item);
    }
    byId.set(items.id[item], item);
  }
  const find = name => byPath.get(name) ?? byId.get(name) ?? -1;
  // The name of an item in a link: its path if unambiguous, otherwise its id.
  function nameOf(item) {
    const own = text(items.path[item]), call = items.call?.[item] ?? 0;
    const name = call ? `${own}@${call}` : own;
    return byPath.get(name) === item ? name : items.id[item];
  }

  // What lies in a trunk: values that leave a place side by side, and are one line.
  const bundles = data.bundles ?? [], single = tensors.text.length - bundles.length;
  const members = value => bundles[value - single] ?? [];
  // Whether a line carries one of the values in `set`.
  const carries = (set, { value, more = [] }) => [value, ...more].some(each =>
    set.has(each) || members(each).some(inner => set.has(inner)));

  // Values by the item that made them, and by those that read them.
  const made = [], used = [];
  const note = (table, item, value) => {
    if (item >= 0 && value < single) (table[item] ??= []).push(value);
  };
  tensors.producer.forEach((item, value) => note(made, item, value));
  tensors.consumers.forEach((list, value) => {
    for (const item of list.length > 1 ? new Set(list) : list) note(used, item, value);
  });

  // Values of what is in `scope`, each once, that `leaves` says cross its edge.
  function crossing(table, scope, leaves) {
    const found = new Set();
    for (let item = scope; item < end[scope]; item++) {
      const values = table[item];
      if (values) for (const value of values) if (leaves(value)) found.add(value);
    }
    return [...found];
  }

  // What comes into `scope` from outside, and what leaves it: {value, item, slot} each.
  const inputs = lately(scope =>
    crossing(used, scope, value => !within(tensors.producer[value], scope))
      .map(value => ({ value, item: tensors.producer[value], slot: slotAt(value, scope) })));

  const outputs = lately(scope => {
    const isOutside = item => !within(item, scope), found = [];
    for (const value of crossing(made, scope, each => tensors.consumers[each].some(isOutside))) {
      tensors.consumers[value].forEach((item, number) => {
        if (isOutside(item)) found.push({ value, item, slot: slot(value, number) });
      });
    }
    return found;
  });

  const slot = (value, number) => text(tensors.slots?.[value]?.[number] ?? -1);
  function slotAt(value, scope) {
    const number = tensors.consumers[value].findIndex(item => within(item, scope));
    return slot(value, number);
  }

  // The share of an item in the whole, of numbers that add up.
  const totals = new Map();
  function shareOf(annotation, item) {
    if (!annotation.sum) return null;
    if (!totals.has(annotation)) {
      totals.set(annotation, children[0].reduce((sum, each) =>
        sum + (annotation.values[each] ?? 0), 0));
    }
    const total = totals.get(annotation), own = annotation.values[item];
    return total > 0 && own !== null ? Math.min(1, own / total) : null;
  }

  // What is shown in an open box: of a fold the chosen sibling, or all if there is no choice.
  const inside = (scope, siblings) => (siblings && scope >= 0 && items.fold[scope]
    ? ofFold(children[scope + 1], siblings.get(scope)) : children[scope + 1]);

  // Whether another sibling of its fold is shown instead of `item`.
  function isAside(item, siblings) {
    const fold = items.parent[item];
    if (!siblings || fold < 0 || !items.fold[fold]) return false;
    const shown = siblings.get(fold) ?? children[fold + 1][0];
    return shown !== ALL && shown !== item;
  }

  // Rows of facts, [title, text]; one title over following rows that share it.
  function facts(index) {
    return (data.facts[index] ?? []).map(([title, said]) => [text(title), text(said)]);
  }

  return {
    data, count, text, children, level, end, canOpen, openable, within, ancestors, lines,
    title, members, carries, details, look, path, find, nameOf, inputs, outputs, slot, facts, shareOf, inside, isAside,
    parent: item => items.parent[item],
    isFold: item => Boolean(items.fold[item]),
    folded: item => items.count?.[item] ?? 1,
    failed: item => Boolean(items.failed?.[item]),
    kind: item => text(items.kind[item]),
    cls: item => text(items.cls[item]),
    op: item => text(items.op[item]),
    source: item => text(items.source[item]),
    factsOf: item => facts(items.facts[item]),
    tensorText: value => text(tensors.text[value]),
    tensorFacts: value => facts(tensors.facts?.[value] ?? -1),
  };
};
