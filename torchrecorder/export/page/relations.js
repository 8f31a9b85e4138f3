// Relations: the lines and boxes that are related to the selection.

"use strict";

const relations = (() => {
  const FEW = 4;

  // A function from a line to "in", "out" or null: whether it is an input or an output of `item`.
  function ofItem(model, item) {
    const ins = new Set(model.inputs(item).map(each => each.tensor));
    const outs = new Set(model.outputs(item).map(each => each.tensor));
    return line => {
      const inside = line.scope >= 0 && model.within(line.scope, item);
      if (model.carries(line, each => outs.has(each))) return !inside || line.exits ? "out" : null;
      if (!model.carries(line, each => ins.has(each))) return null;
      if (inside) return "in";
      if (line.exits) return model.within(item, line.scope) ? null : "in";
      return model.within(item, line.head) ? "in" : null;
    };
  }

  // The same for the lines of a tensor, and of the tensors in a trunk.
  function ofTensor(model, tensor) {
    const tensors = new Set([tensor, ...model.members(tensor)]);
    return line => (model.carries(line, each => tensors.has(each)) ? "out" : null);
  }

  // The box that is visible for `item`, in closed boxes or other siblings than the shown ones.
  function visibleBox(model, { open, siblings }, item) {
    for (const around of [...model.ancestors(item), item]) {
      if (model.isOtherSibling(around, siblings)) return model.parent(around);
      if (!open.has(around)) return around;
    }
    return item;
  }

  // The box that would be visible for an item in another sibling of `fold` if that were shown, open
  // like the one that is.
  function boxInSibling(model, { open, siblings }, fold, item) {
    const path = [...model.ancestors(item), item], first = path.indexOf(fold) + 1;
    let [twin] = model.shownChildren(fold, siblings);
    for (const [index, each] of path.slice(first).entries()) {
      if (index && model.isOtherSibling(each, siblings)) return model.parent(each);
      if (!open.has(each) && !open.has(twin)) return each;
      const next = model.children[each + 1].indexOf(path[first + index + 1]);
      twin = model.children[twin + 1]?.[next];
    }
    return item;
  }

  // The box that stands for an item, seen from the item `from`, which is not in it; -1 for none.
  function neighborBox(model, now, item, from) {
    const box = item < 0 ? -1 : visibleBox(model, now, item);
    if (item < 0 || from < 0 || !model.within(from, box)) return box;
    return model.isFold(box) && box !== from ? boxInSibling(model, now, box, item) : item;
  }

  // Neighbors of the item `from` as the boxes that are visible for them: {item, tensors, slot,
  // former} each, once for each tensor, or once for a box with many tensors. The argument of a
  // consumer in a closed box is not an argument of that box.
  function merged(model, now, list, areConsumers = false, from = now.selected) {
    const byBox = new Map();
    for (const { item, tensor, slot, former } of list) {
      const box = neighborBox(model, now, item, from);
      const own = areConsumers ? box === item : !model.canOpen(now.selected);
      if (!byBox.has(box)) byBox.set(box, new Map());
      const known = byBox.get(box).get(tensor);
      if (!known) byBox.get(box).set(tensor, { slot: own ? slot : "", former });
      else known.former &&= former;
    }
    return [...byBox].flatMap(([item, found]) => (found.size > FEW
      ? [{ item, tensors: [...found.keys()], slot: "",
        former: [...found.values()].every(each => each.former) }]
      : [...found].map(([tensor, each]) => ({ item, tensors: [tensor], ...each }))));
  }

  // The visible boxes that produce inputs of `item` or consume its outputs: item -> "in" | "out".
  function neighbors(model, now, item) {
    const found = new Map();
    const add = (other, relation) => {
      const box = other < 0 ? -1 : visibleBox(model, now, other);
      if (box >= 0 && !model.within(item, box)) found.set(box, relation);
    };
    for (const each of model.outputs(item)) add(each.item, "out");
    for (const each of model.inputs(item)) add(each.item, "in");
    return found;
  }

  // The visible boxes that produce and consume a tensor.
  function ends(model, now, tensor) {
    const { producer, consumers } = model.data.tensors;
    const found = new Map(consumers[tensor].map(item => [visibleBox(model, now, item), "out"]));
    if (producer[tensor] >= 0) found.set(visibleBox(model, now, producer[tensor]), "in");
    return found;
  }

  // The visible box at which a state is seen: the selected one, or one end of the selected tensor
  // or of paths; -1 if there is none.
  function place(model, now) {
    const { selected, tensor, from } = now, { producer, consumers } = model.data.tensors;
    if (tensor < 0) return selected < 0 && from >= 0 ? visibleBox(model, now, from) : selected;
    return visibleBox(model, now, producer[tensor] >= 0 ? producer[tensor] : consumers[tensor][0]);
  }

  // What is related to the selection of a state: a function for lines, as above, and boxes; null
  // for nothing.
  function of(model, now) {
    const { selected, tensor } = now;
    if (selected >= 0) {
      return { line: ofItem(model, selected), boxes: neighbors(model, now, selected) };
    }
    if (tensor >= 0) return { line: ofTensor(model, tensor), boxes: ends(model, now, tensor) };
    return null;
  }

  // The rings around related, equal and selected boxes: [box, kind] each, those of equal boxes only
  // around `boxes`.
  function rings(picture, boxes, { chosen, neighbors, isEqual }) {
    const byItem = neighbors || chosen.length ? motion.index(picture) : new Map();
    const found = list => [...list].map(([item, kind]) => [byItem.get(item), kind])
      .filter(([box]) => box);
    return [...found(neighbors ?? []),
      ...boxes.filter(box => isEqual?.(box.item)).map(box => [box, "equal"]),
      ...found(chosen.map(item => [item, "selected"]))];
  }

  return { of, ofItem, place, merged, neighbors, neighborBox, rings };
})();
