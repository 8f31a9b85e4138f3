// Model: queries on the data of the page: names, nesting, producers and consumers.

"use strict";

// `compute`, which returns its last result again for an equal argument.
function memoizeLast(compute) {
  let argument, result;
  return given => {
    if (given !== argument) [argument, result] = [given, compute(given)];
    return result;
  };
}

const createModel = data => {
  const { items, strings, tensors } = data;
  const all = [...items.parent.keys()], count = all.length;
  const text = index => (index >= 0 ? strings[index] : "");
  const children = childrenOf(items.parent);
  const level = new Int32Array(count);
  const end = new Int32Array(count);  // the index after the last item in each item
  for (const item of all) {
    const parent = items.parent[item];
    level[item] = parent < 0 ? 0 : level[parent] + 1;
  }
  for (let item = count - 1; item >= 0; item--) {
    end[item] = Math.max(end[item], item + 1);
    const parent = items.parent[item];
    if (parent >= 0) end[parent] = Math.max(end[parent], end[item]);
  }

  const canOpen = item => item >= 0 && items.header[item] >= 0 && items.template[item] >= 0;
  const openable = all.filter(canOpen);

  // Whether `item` is `scope` or in it; everything is in the root, -1.
  const within = (item, scope) => scope < 0 || (item >= scope && item < end[scope]);

  // The items around `item`, the outermost first.
  function ancestors(item) {
    const result = [];
    for (let at = items.parent[item]; at >= 0; at = items.parent[at]) result.push(at);
    return result.reverse();
  }

  // The texts on a closed box, or in the corner of an open one: {text, part} each. A title in two
  // lines can be put in one.
  function label(item, open, inOne = false) {
    const lines = data.labels[items[open ? "header" : "label"][item]]
      .map(([index, part]) => ({ text: text(index), part }));
    const broken = inOne ? lines.findIndex(line => line.part === 0 && line.text.endsWith(":")) : -1;
    if (broken < 0) return lines;
    const [{ text: name, part }, { text: cls }] = lines.slice(broken);
    return [...lines.slice(0, broken), { text: `${name} ${cls}`, part }, ...lines.slice(broken + 2)];
  }
  // The title of an item; a header may be broken in two lines, which are one title.
  const title = item => label(item, canOpen(item)).filter(line => line.part === 0)
    .map(line => line.text).join(" ") || label(item, false).map(line => line.text)[0] || "box";
  const details = item => label(item, false).filter(line => line.part > 0).map(line => line.text);
  const look = (item, open) => data.looks[items[open ? "open_look" : "look"][item]];

  // The dotted path of a module; of other items, that of the module around them.
  const path = item => text(items.path[item]);

  // The path of an item, with the number of the call after the first one.
  function pathAndCall(item) {
    const call = items.call[item];
    return call ? `${path(item)}@${call}` : path(item);
  }

  const byPath = new Map(), byId = new Map();
  for (const item of all) {
    const key = pathAndCall(item);
    if (path(item) && !byPath.has(key)) byPath.set(key, item);
    byId.set(items.id[item], item);
  }
  // The first item with a path, or the item with an id; -1 if there is none.
  const find = name => byPath.get(name) ?? byId.get(name) ?? -1;
  // The name of an item in a link: its path if it is the first with this path, otherwise its id.
  function linkName(item) {
    const name = pathAndCall(item);
    return byPath.get(name) === item ? name : items.id[item];
  }

  // A trunk stands for tensors that leave a place side by side and are drawn as one line; trunks
  // are the last rows of the tensors.
  const trunks = data.tensor_trunks, firstTrunk = tensors.text.length - trunks.length;
  const members = tensor => trunks[tensor - firstTrunk] ?? [];
  // Whether a line carries a tensor for which `isOne` is true.
  const carries = ({ tensor, bundled = [] }, isOne) => [tensor, ...bundled].some(each =>
    isOne(each) || members(each).some(isOne));

  // Tensors without trunks by the item that produces them, and by those that consume them.
  const produced = [], consumed = [];
  const add = (table, item, tensor) => {
    if (item >= 0 && tensor < firstTrunk) (table[item] ??= []).push(tensor);
  };
  tensors.producer.forEach((item, tensor) => add(produced, item, tensor));
  tensors.consumers.forEach((list, tensor) => {
    for (const item of list.length > 1 ? new Set(list) : list) add(consumed, item, tensor);
  });

  // The tensors in `table` of items in `scope` for which `crosses` is true, each once.
  function crossing(table, scope, crosses) {
    const result = new Set();
    for (let item = scope; item < end[scope]; item++) {
      for (const tensor of table[item] ?? []) if (crosses(tensor)) result.add(tensor);
    }
    return [...result];
  }

  // The reads that only the first of two compared runs has.
  const formerReads = new Set(data.former_reads.map(pair => pair.join()));
  const isFormer = (tensor, index) => formerReads.has(`${tensor},${index}`);
  const isFormerIn = (tensor, scope) => formerReads.size > 0 && tensors.consumers[tensor]
    .every((item, index) => !within(item, scope) || isFormer(tensor, index));

  // The tensors that enter `scope`, with the items that produce them: {tensor, item, slot, former}
  // each.
  const inputs = memoizeLast(scope =>
    crossing(consumed, scope, tensor => !within(tensors.producer[tensor], scope))
      .map(tensor => ({ tensor, item: tensors.producer[tensor], slot: slotIn(tensor, scope),
        former: isFormerIn(tensor, scope) })));

  // The tensors that leave `scope`, once for each item that consumes them.
  const outputs = memoizeLast(scope => {
    const isOutside = item => !within(item, scope), result = [];
    const leaves = tensor => tensors.consumers[tensor].some(isOutside);
    for (const tensor of crossing(produced, scope, leaves)) {
      tensors.consumers[tensor].forEach((item, index) => {
        if (isOutside(item)) {
          result.push({ tensor, item, slot: slot(tensor, index), former: isFormer(tensor, index) });
        }
      });
    }
    return result;
  });

  // The index of the look of a line: the one that all consumers that it leads to share, or -1.
  function lineLook({ tensor, scope, head, exits }) {
    const found = tensors.look[tensor];
    if (!Array.isArray(found)) return found;
    const looks = new Set(found.filter((_, index) => {
      const item = tensors.consumers[tensor][index];
      return exits ? !within(item, scope) : within(item, head);
    }));
    return looks.size === 1 ? [...looks][0] : -1;
  }

  // The name of the argument as which a consumer takes a tensor.
  const slot = (tensor, index) => text(tensors.slots[tensor][index]);
  const slotIn = (tensor, scope) =>
    slot(tensor, tensors.consumers[tensor].findIndex(item => within(item, scope)));

  // The share of an item in the total of an annotation; null if it is not a sum.
  function shareOf(annotation, item) {
    if (!annotation.sum) return null;
    const { total } = annotation, own = annotation.values[item];
    return total > 0 && own !== null ? Math.min(1, own / total) : null;
  }

  // Whether another sibling of its fold is shown instead of `item`.
  function isOtherSibling(item, siblings) {
    const fold = items.parent[item];
    if (fold < 0 || !items.fold[fold]) return false;
    const chosen = siblings.get(fold) ?? children[fold + 1][0];
    return chosen !== ALL_SIBLINGS && chosen !== item;
  }

  // Rows of facts: [title, text] each.
  const facts = index => data.facts[index].map(row => row.map(text));

  // A function from an item to what `compute` returns for its facts, which many items share.
  function ofFacts(compute) {
    const known = new Map();
    return item => {
      const index = items.facts[item];
      if (!known.has(index)) known.set(index, compute(facts(index)));
      return known.get(index);
    };
  }

  const notes = ofFacts(rows => rows.filter(([title]) => title === "note").map(row => row[1]));
  // What an op draws from a random generator: "random numbers", or an empty text.
  const draws = ofFacts(rows => rows.find(([title]) => title === "draws")?.[1] ?? "");
  // The parameters and buffers of a module: [name, description] each.
  const stored = ofFacts(rows => rows.map(([title, text]) =>
    [/^(?:parameter|buffer) (.+)$/.exec(title)?.[1], text]).filter(([name]) => name));

  return {
    data, all, count, text, children, level, end, canOpen, openable, within, ancestors, label, title,
    members, carries, details, look, lineLook, path, find, linkName, inputs, outputs, slot, shareOf,
    isFormer, isOtherSibling,
    shownChildren: (scope, siblings) => shownChildren(items, children, scope, siblings),
    parent: item => items.parent[item],
    isFold: item => Boolean(items.fold[item]),
    folded: item => items.count[item],
    failed: item => items.failed[item] > 0,
    endedIn: item => items.failed[item] > 1,
    running: item => items.failed[item] > 2,
    kind: item => text(items.kind[item]),
    cls: item => text(items.cls[item]),
    op: item => text(items.op[item]),
    typeOf: item => text(items.cls[item]) || text(items.op[item]),
    source: item => text(items.source[item]),
    factsOf: item => facts(items.facts[item]),
    notes, draws, stored,
    tensorText: tensor => text(tensors.text[tensor]),
    tensorFacts: tensor => facts(tensors.facts[tensor]),
  };
};
