// Marks: small names of arguments at the heads of lines that enter an op out of order.

"use strict";

const createMarks = model => {
  const ASIDE = 3.5, BACK = 5, NEAR = 20, INK = 0.55, SMALL = 0.8;
  const { consumers } = model.data.tensors, size = model.data.fontsize * SMALL;
  let upright = true, axis = 0;

  // value -> [which of its consumers, text, place]; a negative place says it is shown anyway.
  const known = new Map();
  for (const [value, consumer, text, place] of model.data.marks ?? []) {
    if (!known.has(value)) known.set(value, new Map());
    known.get(value).set(consumer, { text: model.text(text), place });
  }
  // Those of lines into modules that are closed.
  const closed = new Map();
  for (const [item, value, text, place] of model.data.closedmarks ?? []) {
    closed.set(`${value} ${item}`, { text: model.text(text), place });
  }

  // The mark of the line of `value` into `head`; of several such lines, that of number `copy`.
  function markOf(value, head, copy) {
    if (closed.has(`${value} ${head}`)) return closed.get(`${value} ${head}`);
    const found = known.get(value);
    if (!found) return null;
    const seats = consumers[value].map((item, seat) => (item === head ? seat : -1));
    return found.get(seats.filter(seat => seat >= 0)[copy]) ?? null;
  }

  const wide = text => text.length * size * INK;

  function spot(line, text, left) {
    const [before, [x, y]] = line.points.slice(-2);
    if (upright) {
      const aside = left ? [x - ASIDE, "end"] : [x + ASIDE, "start"];
      return [aside[0], y + (y > before[1] ? -BACK : BACK), aside[1]];
    }
    return x > before[0] ? [x - 2, y - size * 0.7, "end"] : [x + 2, y - size * 0.7, "start"];
  }

  // Left of a tip, if that is away from other lines and from the line itself.
  function isLeft(seat, order, beside) {
    if (!upright || order.length > 1) return upright && !seat;
    const { points } = order[0], [x, y] = points[points.length - 1], level = [];
    for (const other of beside) {
      other.points.slice(1).forEach(([right, end], place) => {
        const [left, start] = other.points[place];
        if (start === end && Math.abs(end - y) < NEAR) level.push(left, right);
      });
    }
    return level.some(at => at > x + ASIDE) && !level.some(at => at < x - ASIDE);
  }

  function mark(group, leaving) {
    const order = [...group].sort((a, b) => tip(a) - tip(b));
    const places = order.map(placeOf).filter(place => place >= 0);
    const sorted = places.every((place, seat) => !seat || places[seat - 1] <= place);
    const numbered = line =>
      (placeOf(line) >= 0 && nameOf(line) ? String(placeOf(line) + 1) : "");
    const inner = seat => seat && seat < order.length - 1;
    const fit = textOf => order.every((line, seat) => !upright || !inner(seat) ||
      wide(textOf(line)) <= tip(order[seat + 1]) - tip(order[seat]) - ASIDE);
    const named = fit(nameOf), room = named || fit(numbered);
    const texts = order.map((line, seat) => {
      if (placeOf(line) < 0) return nameOf(line);
      if (sorted || !room && inner(seat)) return "";
      return named ? nameOf(line) : numbered(line);
    });
    order.forEach((line, seat) => {
      const left = texts[seat] && isLeft(seat, order, leaving.get(line.tail));
      line.mark = texts[seat] ? [texts[seat], ...spot(line, texts[seat], left)] : null;
    });
  }

  const nameOf = line => line.mark?.text ?? "";
  const placeOf = line => line.mark?.place ?? -1;
  const tip = line => line.points[line.points.length - 1][axis];

  // Gives each of `lines` that has one its mark: [text, x, y, anchor].
  function give(lines, direction) {
    upright = direction === "TB" || direction === "BT";
    axis = upright ? 0 : 1;
    if (!known.size && !closed.size) return lines;
    const groups = new Map(), leaving = new Map(), copies = new Map();
    for (const line of lines) {
      if (!leaving.has(line.tail)) leaving.set(line.tail, []);
      leaving.get(line.tail).push(line);
      const key = `${line.value} ${line.head}`, copy = copies.get(key) ?? 0;
      copies.set(key, copy + 1);
      line.mark = line.exits || line.continues || line.loop ? null : markOf(line.value, line.head, copy);
      if (line.exits || line.loop) continue;
      if (!groups.has(line.head)) groups.set(line.head, []);
      groups.get(line.head).push(line);
    }
    for (const group of groups.values()) if (group.some(line => line.mark)) mark(group, leaving);
    return lines;
  }

  return { give };
};
