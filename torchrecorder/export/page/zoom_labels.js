// Zoom labels: large names of open boxes whose own text is too small to read.

"use strict";

const zoomLabels = (() => {
  const SIZE = 11, READABLE = 6, MIN_LENGTH = 30, MIN_ACROSS = 8, LETTER_WIDTH = 0.58, MOST = 60;
  const FAR = 14, GAP = 3, NARROW = 320, INDENT = 8, MAX_LETTERS = 48, MIN_LETTERS = 6, ROWS = 4;

  // A box in pixels of the window.
  const onScreen = (box, view) => ({
    x: (box.x - view.x) * view.k, y: (box.y - view.y) * view.k,
    w: box.w * view.k, h: box.h * view.k,
  });

  // The possible positions of the label of an open box, in pixels of the window: in its corner, to
  // the right of narrow boxes around it, or, if the picture is wide, in rows below low ones; shortened
  // to the width of the window. None if the box is too small.
  function candidates(box, frames, view, model, size, isWide) {
    const at = onScreen(box, view), [length, across] = isWide ? [at.w, at.h] : [at.h, at.w];
    if (!box.open || box.cut || box.alpha < 1 || across < MIN_ACROSS || length < MIN_LENGTH) return [];
    const title = model.title(box.item), width = text => text.length * SIZE * LETTER_WIDTH;
    const shortened = most => (title.length > most ? `${title.slice(0, most - 1)}…` : title);
    let right = at.x + at.w, bottom = at.y + at.h;
    for (let item = model.parent(box.item); frames.has(item); item = model.parent(item)) {
      const frame = onScreen(frames.get(item), view);
      if (frame.w < NARROW) right = Math.max(right, frame.x + frame.w);
      if (frame.h < NARROW) bottom = Math.max(bottom, frame.y + frame.h);
    }
    const beside = right + 6 + INDENT * model.level[box.item];
    const letters = Math.floor((size.width - 4 - beside) / (SIZE * LETTER_WIDTH));
    const most = letters < MIN_LETTERS ? MAX_LETTERS : Math.min(MAX_LETTERS, letters);
    const long = shortened(MAX_LETTERS), positions = !isWide ? [{ x: beside, text: shortened(most) }]
      : Array.from({ length: ROWS }, (_, row) =>
        ({ isBelow: true, x: at.x, y: bottom + 4 + row * SIZE * 1.5, text: long }));
    if (width(long) + 10 < at.w) positions.unshift({ inside: true, x: at.x + 5, text: long });
    return positions.map(position => ({ inside: false, y: at.y + 2, ...position, box,
      w: width(position.text), h: SIZE * 1.5 }));
  }

  // Whether a label, or the space between it and its box, covers a box that must stay visible.
  function covers({ inside, isBelow, box: own, ...label }, boxes, view, model) {
    const at = onScreen(own, view), left = inside || isBelow ? label.x : at.x + at.w + 1;
    const areas = [{ ...label, x: left, w: label.x + label.w - left }];
    const top = at.y + at.h + 1;
    if (isBelow) areas.push({ x: at.x, y: top, w: Math.min(at.w, label.w), h: label.y - top });
    return boxes.some(box => box.item !== own.item && model.within(box.item, own.item) === inside &&
      !model.within(own.item, box.item) &&
      areas.some(area => camera.overlaps(area, onScreen(box, view))));
  }

  // The line from a box to its label, if that is not near: {x, y, w, h} in pixels, or null; none
  // through other labels.
  function leaderOf(label, labels, view) {
    const { inside, isBelow, x, y } = label, at = onScreen(label.box, view);
    const [right, bottom] = [at.x + at.w + GAP, at.y + at.h + GAP];
    const line = isBelow ? { x: at.x + GAP, y: bottom, w: 0, h: y - bottom }
      : { x: right, y: y + SIZE * 0.65, w: x - GAP - right, h: 0 };
    const isFar = !inside && Math.max(line.w, line.h) > FAR;
    return isFar && !labels.some(other => other !== label && camera.overlaps(other, line))
      ? line : null;
  }

  // Labels that do not overlap, those of outer boxes first: {text, x, y, size} each, in points; `on`,
  // the box whose own text a label replaces, or -1; and `leader`, the ends of a line to it, or null.
  function choose(boxes, view, textSize, model, size = { width: Infinity }) {
    if (textSize >= READABLE) return [];
    const frames = new Map(boxes.map(box => [box.item, box])), labels = [];
    const order = boxes.filter(box => box.open).sort((a, b) =>
      model.level[a.item] - model.level[b.item] || b.h - a.h || a.item - b.item);
    const isWide = order.length > 0 && order[0].w > order[0].h;
    for (const box of order) {
      if (labels.length >= MOST) break;
      const label = candidates(box, frames, view, model, size, isWide).find(each =>
        !labels.some(other => camera.overlaps(each, other)) && !covers(each, boxes, view, model));
      if (label) labels.push(label);
    }
    return labels.map(label => {
      const { text, x, y, inside, box } = label, line = leaderOf(label, labels, view);
      const [worldX, worldY] = camera.toWorld(view, x, y + SIZE);
      const leader = line && [[line.x, line.y], [line.x + line.w, line.y + line.h]]
        .map(point => camera.toWorld(view, ...point));
      return { text, x: worldX, y: worldY, size: SIZE / view.k, leader,
        on: inside ? box.item : -1 };
    });
  }

  return { choose };
})();
