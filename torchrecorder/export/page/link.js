// Link: a state as the hash of an address, and back.

"use strict";

const link = (() => {
  // Sorted whole numbers as "0-3,7": in base 36, runs joined.
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

  function fromRanges(said, limit) {
    const found = [];
    for (const part of said.split(",")) {
      const [first, last = first] = part.split("-").map(number => parseInt(number, 36));
      for (let at = first; at <= last && at < limit; at++) found.push(at);
    }
    return found;
  }

  // What is open if a link says only which box it leads to.
  function implied(model, item) {
    const open = new Set(model.data.open);
    if (item < 0) return open;
    for (const around of model.ancestors(item)) open.add(around);
    if (model.canOpen(item)) open.add(item);
    return open;
  }

  // The siblings that are shown then.
  const impliedSiblings = (model, item) => (item < 0 ? new Map()
    : opening.chosen(model, new Map(), [...model.ancestors(item), item]));

  // Folds with their siblings as "3.4,7.all": of the fold 3, the sibling 4.
  const saidSiblings = (model, siblings) => [...siblings].sort((a, b) => a[0] - b[0])
    .map(([fold, member]) => [fold, member, model.children[fold + 1].indexOf(member)])
    .filter(([, member, seat]) => member === ALL || seat > 0)
    .map(([fold, member, seat]) => `${fold.toString(36)}.${member === ALL ? "all" : seat.toString(36)}`)
    .join(",");

  function siblingsOf(model, said) {
    const found = new Map();
    for (const part of said.split(",")) {
      const [fold, seat] = part.split(".");
      const number = parseInt(fold, 36), member = model.children[number + 1]?.[parseInt(seat, 36)];
      if (!model.isFold(number)) continue;
      if (seat === "all") found.set(number, ALL);
      else if (member !== undefined) found.set(number, member);
    }
    return found;
  }

  // Escapes only where necessary: dots, slashes and similar characters are kept.
  const escape = said => encodeURIComponent(said).replace(/%(2F|3A|40|20)/g,
    (whole, code) => ({ "2F": "/", "3A": ":", 40: "@", 20: "+" })[code]);

  function unescape(said) {
    try {
      return decodeURIComponent(said.replaceAll("+", " "));
    } catch {
      return "";
    }
  }

  function encode(model, { open, selected, value, colour, siblings, hidden, root, direction, side }) {
    const parts = [];
    if (selected >= 0) parts.push(`scope=${escape(model.nameOf(selected))}`);
    if (value >= 0) parts.push(`tensor=${value}`);
    if (!opening.same(open, implied(model, selected))) {
      const seats = new Map(model.openable.map((item, seat) => [item, seat]));
      const list = [...open].map(item => seats.get(item)).filter(seat => seat !== undefined);
      parts.push(`open=${ranges(list.sort((a, b) => a - b))}`);
    }
    const chosen = saidSiblings(model, siblings);
    if (chosen !== saidSiblings(model, impliedSiblings(model, selected))) parts.push(`siblings=${chosen}`);
    if (hidden.size) parts.push(`hidden=${ranges([...hidden].sort((a, b) => a - b))}`);
    if (root >= 0) parts.push(`isolated=${escape(model.nameOf(root))}`);
    if (direction !== model.data.direction) parts.push(`direction=${direction}`);
    if (side) parts.push(`side=${side}`);
    if (colour !== (model.data.color_by ?? null)) parts.push(`color=${escape(colour ?? "kind")}`);
    return parts.join("&");
  }

  // The state of a hash, with initial values for missing or invalid parts.
  function decode(model, hash) {
    const given = new Map(hash.replace(/^#/, "").split("&").filter(Boolean).map(part => {
      const [key, ...rest] = part.split("=");
      return [key, rest.join("=")];
    }));
    const selected = given.has("scope") ? model.find(unescape(given.get("scope"))) : -1;
    const tensor = /^\d+$/.test(given.get("tensor") ?? "") ? Number(given.get("tensor")) : -1;
    const value = tensor < model.data.tensors.producer.length ? tensor : -1;
    let open = implied(model, selected);
    if (given.has("open")) {
      open = new Set(fromRanges(given.get("open"), model.openable.length)
        .map(seat => model.openable[seat]).filter(item => item !== undefined));
    }
    const siblings = given.has("siblings") ? siblingsOf(model, given.get("siblings"))
      : impliedSiblings(model, selected);
    const hidden = new Set(given.has("hidden") ? fromRanges(given.get("hidden"), model.count) : []);
    const isolated = given.has("isolated") ? model.find(unescape(given.get("isolated"))) : -1;
    const root = model.canOpen(isolated) ? isolated : -1;
    if (root >= 0) open.add(root);
    const wanted = given.get("direction"), known = ["TB", "LR", "BT", "RL"].includes(wanted);
    let colour = model.data.color_by ?? null;
    if (given.has("color")) {
      const key = unescape(given.get("color"));
      colour = model.data.annotations.some(each => each.key === key) ? key : null;
    }
    return {
      open, selected, value, colour, siblings, hidden, root,
      side: ["tree", "costs"].includes(given.get("side")) ? given.get("side") : null,
      direction: known ? wanted : model.data.direction,
    };
  }

  return { encode, decode, implied, ranges, fromRanges };
})();
