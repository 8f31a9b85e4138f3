// Signpost: which names stand large on open boxes when their own text is too small to read.

"use strict";

const signpost = (() => {
  const SIZE = 11.5, SMALL = 6, HIGH = 26, WIDE = 22, LETTER = 0.6, MOST = 60;

  const overlaps = (one, other) => one.x < other.x + other.w && other.x < one.x + one.w &&
    one.y < other.y + other.h && other.y < one.y + one.h;

  // A sign for an open box in pixels of the window, or null if the box is too small for one.
  function signOf(box, view, model) {
    const [x, y] = camera.toScreen(view, box.x, box.y);
    const w = box.w * view.k, h = box.h * view.k;
    if (!box.open || box.alpha < 1 || w < WIDE || h < HIGH) return null;
    const text = model.title(box.item).slice(0, 40);
    return { box, text, x: x + 4, y: y + 3, w: text.length * SIZE * LETTER, h: SIZE * 1.25 };
  }

  // Signs that do not cover each other, those of outer boxes first: {text, x, y, size} in points.
  function choose(boxes, view, textSize, model) {
    if (textSize >= SMALL) return [];
    const found = boxes.map(box => signOf(box, view, model)).filter(Boolean);
    found.sort((a, b) => model.level[a.box.item] - model.level[b.box.item] ||
      b.box.h - a.box.h || a.box.item - b.box.item);
    const kept = [];
    for (const sign of found) {
      if (kept.length >= MOST) break;
      if (!kept.some(other => overlaps(sign, other))) kept.push(sign);
    }
    return kept.map(({ text, box }) => ({
      text, x: box.x + 4 / view.k, y: box.y + (3 + SIZE) / view.k, size: SIZE / view.k,
    }));
  }

  return { choose };
})();
