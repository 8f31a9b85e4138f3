// Relations: the lines and boxes related to the selection.

"use strict";

const relations = (() => {
  const FEW = 4;

  // A function from a line to "in", "out" or null: whether it leads to `item` or from it.
  function ofItem(model, item) {
    const ins = new Set(model.inputs(item).map(each => each.value));
    const outs = new Set(model.outputs(item).map(each => each.value));
    return line => {
      const inside = line.scope >= 0 && model.within(line.scope, item);
      if (model.carries(outs, line)) return !inside || line.exits ? "out" : null;
      if (!model.carries(ins, line)) return null;
      if (inside) return "in";
      if (line.exits) return model.within(item, line.scope) ? null : "in";
      return model.within(item, line.head) ? "in" : null;
    };
  }

  // The lines of a tensor, of the bundles that it is in, and of what is in a bundle.
  function ofValue(model, value) {
    const wanted = new Set([value, ...model.members(value)]);
    return line => (model.carries(wanted, line) ? "out" : null);
  }

  // The box that stands for `item` while only `open` is open and only these siblings are shown.
  function seen(model, { open, siblings }, item) {
    for (const around of [...model.ancestors(item), item]) {
      if (model.isAside(around, siblings)) return model.parent(around);
      if (!open.has(around)) return around;
    }
    return item;
  }

  // Neighbours as the boxes that are seen for them: {item, values, slot} each, once for a tensor;
  // of a box with which there are many, once for all. The argument of a reader in a closed box is
  // none of that box.
  function asSeen(model, now, list, areReaders = false) {
    const byBox = new Map();
    for (const { item, value, slot } of list) {
      const around = item < 0 ? item : seen(model, now, item);
      const box = now.selected >= 0 && model.within(now.selected, around) ? item : around;
      const own = areReaders ? box === item : !model.canOpen(now.selected);
      if (!byBox.has(box)) byBox.set(box, new Map());
      if (!byBox.get(box).has(value)) byBox.get(box).set(value, own ? slot : "");
    }
    return [...byBox].flatMap(([item, slots]) => (slots.size > FEW
      ? [{ item, values: [...slots.keys()], slot: "" }]
      : [...slots].map(([value, slot]) => ({ item, values: [value], slot }))));
  }

  // Boxes that feed `item` or read from it, as they are seen: item -> "in" | "out".
  function neighbours(model, now, item) {
    const found = new Map();
    const note = (other, way) => {
      const box = other < 0 ? -1 : seen(model, now, other);
      if (box >= 0 && !model.within(item, box)) found.set(box, way);
    };
    for (const each of model.outputs(item)) note(each.item, "out");
    for (const each of model.inputs(item)) note(each.item, "in");
    return found;
  }

  function ends(model, now, value) {
    const { producer, consumers } = model.data.tensors;
    const found = new Map(consumers[value].map(item => [seen(model, now, item), "out"]));
    if (producer[value] >= 0) found.set(seen(model, now, producer[value]), "in");
    return found;
  }

  // What to highlight in this state: a test of lines, and boxes.
  function of(model, now) {
    const { selected, value } = now;
    if (selected >= 0) {
      return { line: ofItem(model, selected), boxes: neighbours(model, now, selected) };
    }
    if (value >= 0) return { line: ofValue(model, value), boxes: ends(model, now, value) };
    return null;
  }

  return { of, ofItem, ofValue, seen, asSeen, neighbours };
})();
