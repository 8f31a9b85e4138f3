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

  function encode(model, { open, selected, value, colour }) {
    const parts = [];
    if (selected >= 0) parts.push(`scope=${escape(model.nameOf(selected))}`);
    if (value >= 0) parts.push(`tensor=${value}`);
    if (!opening.same(open, implied(model, selected))) {
      const seats = new Map(model.openable.map((item, seat) => [item, seat]));
      const list = [...open].map(item => seats.get(item)).filter(seat => seat !== undefined);
      parts.push(`open=${ranges(list.sort((a, b) => a - b))}`);
    }
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
    let colour = model.data.color_by ?? null;
    if (given.has("color")) {
      const key = unescape(given.get("color"));
      colour = model.data.annotations.some(each => each.key === key) ? key : null;
    }
    return { open, selected, value, colour };
  }

  return { encode, decode, implied, ranges, fromRanges };
})();
