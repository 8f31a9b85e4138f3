// Shapes: the outlines of boxes and arrowheads as SVG paths, and the positions of texts.

"use strict";

const shapes = (() => {
  const SIZES = [1, 0.9, 0.8], LINE_HEIGHT = 1.22, LETTER_WIDTH = 0.56;
  const HEAD_LENGTH = 6, HALF_HEAD = 2.2, FOLD_INSET = 3, STEP = 700;
  const round = number => Math.round(number * 100) / 100;
  const join = (...parts) =>
    parts.map(part => (typeof part === "number" ? round(part) : part)).join(" ");
  const polygon = points =>
    `M${points.map(([x, y]) => join(x, y)).join("L")}Z`;

  const rectangle = (w, h, r) => r <= 0 ? polygon([[0, 0], [w, 0], [w, h], [0, h]])
    : join("M", r, 0, "H", w - r, "A", r, r, 0, 0, 1, w, r, "V", h - r, "A", r, r, 0, 0, 1,
      w - r, h, "H", r, "A", r, r, 0, 0, 1, 0, h - r, "V", r, "A", r, r, 0, 0, 1, r, 0, "Z");

  const ellipse = (w, h) => join("M", 0, h / 2, "A", w / 2, h / 2, 0, 0, 1, w, h / 2,
    "A", w / 2, h / 2, 0, 0, 1, 0, h / 2, "Z");

  // Half the height of a cylinder's lid.
  const lid = h => Math.min(4, h / 8);

  function cylinder(w, h) {
    const r = lid(h);
    return join("M", 0, r, "A", w / 2, r, 0, 0, 1, w, r, "V", h - r,
      "A", w / 2, r, 0, 0, 1, 0, h - r, "V", r,
      "A", w / 2, r, 0, 0, 0, w, r, "A", w / 2, r, 0, 0, 0, 0, r, "Z");
  }

  function note(w, h) {
    const ear = Math.min(7, w / 4, h / 3);
    return polygon([[0, 0], [w - ear, 0], [w, ear], [w, h], [0, h]]) +
      join("M", w - ear, 0, "V", ear, "H", w);
  }

  // How far the sides of a parallelogram lean.
  const lean = w => Math.min(14, w / 4);

  const parallelogram = (w, h) => polygon([[lean(w), 0], [w, 0], [w - lean(w), h], [0, h]]);

  function octagon(w, h) {
    const cut = Math.min(8, w / 4, h / 3);
    return polygon([[cut, 0], [w - cut, 0], [w, cut], [w, h - cut], [w - cut, h], [cut, h],
      [0, h - cut], [0, cut]]);
  }

  const OUTLINES = {
    box: (w, h) => rectangle(w, h, 1.5),
    rounded: (w, h) => rectangle(w, h, Math.min(8, w / 2, h / 2)),
    plain: (w, h) => rectangle(w, h, 0),
    ellipse, circle: ellipse, cylinder, note, parallelogram, octagon,
  };

  // The path of an outline in this size with its corner at 0, 0; rounded if the name is unknown.
  const outline = (name, w, h) => (OUTLINES[name] ?? OUTLINES.rounded)(w, h);

  // The arrowhead of a line that ends at x, y in the direction dx, dy.
  function arrowhead([x, y, dx, dy]) {
    const bx = x - HEAD_LENGTH * dx, by = y - HEAD_LENGTH * dy;
    return polygon([[x, y], [bx - HALF_HEAD * dy, by + HALF_HEAD * dx],
      [bx + HALF_HEAD * dy, by - HALF_HEAD * dx]]);
  }

  // The ring around a box at the scale `k`, as attributes of a rectangle.
  function ring(box, kind, k) {
    const isWide = kind === "selected" || kind === "equal";
    const away = Math.min((isWide ? 3.5 : 2) / k, 24) + (isWide ? 1 : 0);
    return {
      x: box.x - away, y: box.y - away, rx: Math.min(9, 6 + away),
      width: box.w * (box.sx ?? 1) + 2 * away, height: box.h * (box.sy ?? 1) + 2 * away,
    };
  }

  const DASHES = { dashed: "4 3", dotted: "1.2 2.3" };

  // The font size of a part of a label: title, name or detail.
  const fontSize = (part, base) => base * SIZES[part];
  // The approximate width of a text, without measuring it in the browser.
  const textWidth = (text, size) => text.length * size * LETTER_WIDTH;

  // The baseline and the size of each text, centered in `height` or below `top`.
  function textRows(texts, base, { height = 0, top = null }) {
    const sizes = texts.map(text => fontSize(text.part, base));
    const total = sizes.reduce((sum, size) => sum + size * LINE_HEIGHT, 0);
    let at = top ?? (height - total) / 2;
    return texts.map((text, index) => {
      const size = sizes[index], baseline = at + size * (LINE_HEIGHT / 2 + 0.35);
      at += size * LINE_HEIGHT;
      return { ...text, size: round(size), y: round(baseline) };
    });
  }

  // `box` without the parts far outside `area`, because browsers draw huge outlines slowly. It is
  // cut in whole steps, so that dashes do not move.
  function clipped(box, area) {
    const [x, w] = cut(box.x, box.w, area.x, area.w), [y, h] = cut(box.y, box.h, area.y, area.h);
    return w === box.w && h === box.h ? box : { ...box, x, y, w, h, cut: y > box.y || x > box.x };
  }

  function cut(begin, size, from, extent) {
    if (size < extent + 2 * STEP) return [begin, size];
    const before = Math.max(0, Math.floor((from - begin) / STEP - 0.2)) * STEP;
    const after = Math.max(0, Math.floor((begin + size - from - extent) / STEP - 0.2)) * STEP;
    return [begin + before, size - before - after];
  }

  // Whether the bounds of a line overlap an area.
  const isLineIn = (line, area) => line.x0 < area.x + area.w && line.x1 > area.x &&
    line.y0 < area.y + area.h && line.y1 > area.y;

  // The distance of x, y from the line through points.
  function distance(points, x, y) {
    let least = Infinity;
    for (let number = 1; number < points.length; number++) {
      const [ax, ay] = points[number - 1], [bx, by] = points[number];
      const length = (bx - ax) ** 2 + (by - ay) ** 2;
      const share = length ? ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length : 0;
      const part = Math.min(1, Math.max(0, share));
      least = Math.min(least, Math.hypot(ax + part * (bx - ax) - x, ay + part * (by - ay) - y));
    }
    return least;
  }

  return {
    fontSize, textWidth, LINE_HEIGHT, LETTER_WIDTH, outline, lid, lean, arrowhead, ring, textRows,
    clipped, isLineIn, distance, DASHES, FOLD_INSET,
  };
})();
