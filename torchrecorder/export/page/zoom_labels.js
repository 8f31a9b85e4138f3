// Signpost: large names on open boxes whose own text is too small to read.

"use strict";

const zoomLabels = (() => {
  const SIZE = 11, SMALL = 6, HIGH = 30, WIDE = 8, LETTER = 0.58, MOST = 60, NARROW = 320, INDENT = 8, LONG = 48, SHORT = 6;

  const overlaps = (one, other) => one.x < other.x + other.w && other.x < one.x + one.w &&
    one.y < other.y + other.h && other.y < one.y + one.h;

  const onScreen = (box, view) => ({
    x: (box.x - view.x) * view.k, y: (box.y - view.y) * view.k,
    w: box.w * view.k, h: box.h * view.k,
  });

  // Places for the sign of an open box in pixels of the window: in its corner, or to the
  // right of what is around it as far as that is narrow, and as much of it as the window has room
  // for. None if the box is too small.
  function places(box, frames, view, model, room) {
    const at = onScreen(box, view);
    if (!box.open || box.cut || box.alpha < 1 || at.w < WIDE || at.h < HIGH) return [];
    const title = model.title(box.item), width = said => said.length * SIZE * LETTER;
    const cut = most => (title.length > most ? `${title.slice(0, most - 1)}…` : title);
    let right = at.x + at.w;
    for (let item = model.parent(box.item); frames.has(item); item = model.parent(item)) {
      const around = onScreen(frames.get(item), view);
      if (around.w < NARROW) right = Math.max(right, around.x + around.w);
    }
    const beside = right + 6 + INDENT * model.level[box.item];
    const letters = Math.floor((room.width - 4 - beside) / (SIZE * LETTER));
    const found = [{ inside: false, x: beside, text: cut(letters < SHORT ? LONG : Math.min(LONG, letters)) }];
    if (width(cut(LONG)) + 10 < at.w) found.unshift({ inside: true, x: at.x + 5, text: cut(LONG) });
    return found.map(place => ({ ...place, box, y: at.y + 2, w: width(place.text), h: SIZE * 1.5 }));
  }

  // Whether a sign, or the line from its box to it, covers a box that must stay visible.
  function covers({ inside, box: own, ...place }, boxes, view, model) {
    const edge = inside ? place.x : (own.x + own.w - view.x) * view.k + 1;
    const sign = { ...place, x: edge, w: place.x + place.w - edge };
    return boxes.some(box => box.item !== own.item && model.within(box.item, own.item) === inside &&
      !model.within(own.item, box.item) && overlaps(sign, onScreen(box, view)));
  }

  // Signs that do not cover each other, those of outer boxes first: {text, x, y, size} in points,
  // and the box that a sign stands on, instead of its own text.
  function choose(boxes, view, textSize, model, room = { width: Infinity }) {
    if (textSize >= SMALL) return [];
    const frames = new Map(boxes.map(box => [box.item, box])), kept = [];
    const order = boxes.filter(box => box.open).sort((a, b) =>
      model.level[a.item] - model.level[b.item] || b.h - a.h || a.item - b.item);
    for (const box of order) {
      if (kept.length >= MOST) break;
      const sign = places(box, frames, view, model, room).find(each =>
        !kept.some(other => overlaps(each, other)) && !covers(each, boxes, view, model));
      if (sign) kept.push(sign);
    }
    return kept.map(({ text, x, y, inside, box }) => {
      const [wx, wy] = camera.toWorld(view, x, y + SIZE);
      return { text, x: wx, y: wy, size: SIZE / view.k, on: inside ? box.item : -1 };
    });
  }

  return { choose };
})();
