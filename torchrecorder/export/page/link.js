// Link: a state as the fragment of an address, and back.

"use strict";

const link = (() => {
  // Sorted integers as "0-3,7": in base 36, with ranges.
  function ranges(list) {
    const parts = [];
    for (let at = 0; at < list.length; at++) {
      const begin = at;
      while (list[at + 1] === list[at] + 1) at++;
      const [first, last] = [list[begin], list[at]].map(number => number.toString(36));
      parts.push(first === last ? first : `${first}-${last}`);
    }
    return parts.join(",");
  }

  function fromRanges(text, limit) {
    const list = [];
    for (const part of text.split(",")) {
      const [first, last = first] = part.split("-").map(number => parseInt(number, 36));
      for (let at = first; at <= last && at < limit; at++) list.push(at);
    }
    return list;
  }

  const named = ({ selected, from, to }) => [from, to, selected].filter(item => item >= 0);

  // The open items of a link with nothing but the selected item and the ends of paths.
  function defaultOpen(model, now) {
    const open = new Set([...model.data.open, ...named(now).flatMap(model.ancestors)]);
    return model.canOpen(now.selected) ? open.add(now.selected) : open;
  }

  // The shown siblings of such a link.
  const defaultSiblings = (model, now) => openItems.choosing(model, new Map(),
    named(now).flatMap(item => [...model.ancestors(item), item]));

  // Folds with their siblings as "3.4,7.all": of the fold 3, the sibling 4.
  const encodeSiblings = (model, siblings) => [...siblings].sort((a, b) => a[0] - b[0])
    .map(([fold, member]) => [fold, member, model.children[fold + 1].indexOf(member)])
    .filter(([, member, index]) => member === ALL_SIBLINGS || index > 0)
    .map(([fold, member, index]) =>
      `${fold.toString(36)}.${member === ALL_SIBLINGS ? "all" : index.toString(36)}`)
    .join(",");

  function decodeSiblings(model, text) {
    const siblings = new Map();
    for (const part of text.split(",")) {
      const [fold, index] = part.split("."), number = parseInt(fold, 36);
      const member = model.children[number + 1]?.[parseInt(index, 36)];
      if (!model.isFold(number)) continue;
      if (index === "all") siblings.set(number, ALL_SIBLINGS);
      else if (member !== undefined) siblings.set(number, member);
    }
    return siblings;
  }

  // Escapes only where necessary: dots, slashes and similar characters are kept.
  const escaped = text => encodeURIComponent(text).replace(/%(2F|3A|40|20)/g,
    (whole, code) => ({ "2F": "/", "3A": ":", 40: "@", 20: "+" })[code]);

  function encode(model, now) {
    const { open, selected, tensor, from, to, color, siblings, hidden, root } = now;
    const parts = [];
    if (selected >= 0) parts.push(`scope=${escaped(model.linkName(selected))}`);
    if (tensor >= 0) parts.push(`tensor=${tensor}`);
    if (to >= 0) {
      parts.push(`from=${escaped(model.linkName(from))}`, `to=${escaped(model.linkName(to))}`);
    }
    if (!openItems.areEqualSets(open, defaultOpen(model, now))) {
      const indices = new Map(model.openable.map((item, index) => [item, index]));
      const list = [...open].map(item => indices.get(item)).filter(index => index !== undefined);
      parts.push(`open=${ranges(list.sort((a, b) => a - b))}`);
    }
    const shown = encodeSiblings(model, siblings);
    const initial = encodeSiblings(model, defaultSiblings(model, now));
    if (shown !== initial) parts.push(`siblings=${shown}`);
    if (hidden.size) parts.push(`hidden=${ranges([...hidden].sort((a, b) => a - b))}`);
    if (root >= 0) parts.push(`isolated=${escaped(model.linkName(root))}`);
    if (now.type) parts.push(`type=${escaped(now.type)}`);
    if (now.direction !== model.data.direction) parts.push(`direction=${now.direction}`);
    if (now.side) parts.push(`side=${now.side}`);
    if (color !== model.data.color_by) parts.push(`color=${escaped(color ?? "kind")}`);
    return parts.join("&");
  }

  // The state of a fragment, with initial values for missing and invalid parts.
  function decode(model, hash) {
    const parts = new URLSearchParams(hash.replace(/^#/, ""));
    const itemOf = key => (parts.has(key) ? model.find(parts.get(key)) : -1);
    const oneOf = (key, values, initial) =>
      (values.includes(parts.get(key)) ? parts.get(key) : initial);
    const isolated = itemOf("isolated"), ends = { from: itemOf("from"), to: itemOf("to") };
    const chosen = { selected: itemOf("scope"),
      ...(ends.from === ends.to || Object.values(ends).includes(-1) ? NO_PATHS : ends) };
    const type = parts.get("type");
    const number = /^\d+$/.test(parts.get("tensor")) ? Number(parts.get("tensor")) : -1;
    const indices = fromRanges(parts.get("open") ?? "", model.openable.length);
    const open = parts.has("open") ? new Set(indices.map(index => model.openable[index]))
      : defaultOpen(model, chosen);
    const root = model.canOpen(isolated) ? isolated : -1;
    if (root >= 0) open.add(root);
    const keys = model.data.annotations.map(annotation => annotation.key);
    return {
      open, root, ...chosen,
      tensor: number < model.data.tensors.producer.length ? number : -1,
      color: parts.has("color") ? oneOf("color", keys, null) : model.data.color_by,
      siblings: parts.has("siblings") ? decodeSiblings(model, parts.get("siblings"))
        : defaultSiblings(model, chosen),
      type: type && model.all.some(item => model.typeOf(item) === type) ? type : null,
      hidden: new Set(fromRanges(parts.get("hidden") ?? "", model.count)),
      side: oneOf("side", ["tree", "costs"], null),
      direction: oneOf("direction", ["TB", "LR", "BT", "RL"], model.data.direction),
    };
  }

  return { encode, decode, ranges, fromRanges };
})();
