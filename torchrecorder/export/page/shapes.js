// Shapes: the outlines of boxes, tips of arrows and rows of text as numbers and SVG paths.

"use strict";

const shapes = (() => {
  const SIZES = [1, 0.9, 0.8], LEADING = 1.22, INK = 0.56, TIP = 6, HALF_TIP = 2.2, AGAIN = 3, CUT = 700;
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

  function parallelogram(w, h) {
    const lean = Math.min(14, w / 4);
    return polygon([[lean, 0], [w, 0], [w - lean, h], [0, h]]);
  }

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

  // The outline of a box of this size with its corner at 0, 0; what is unknown is round.
  const outline = (name, w, h) => (OUTLINES[name] ?? OUTLINES.rounded)(w, h);

  // The tip of an arrow that ends at x, y and comes along dx, dy.
  function tip([x, y, dx, dy]) {
    const bx = x - TIP * dx, by = y - TIP * dy;
    return polygon([[x, y], [bx - HALF_TIP * dy, by + HALF_TIP * dx],
      [bx + HALF_TIP * dy, by - HALF_TIP * dx]]);
  }

  const DASHES = { dashed: "4 3", dotted: "1.2 2.3" };

  const sizeOf = (part, fontsize) => fontsize * (SIZES[part] ?? SIZES[2]);
  // About how wide a text is, without asking the browser.
  const widthOf = (text, size) => text.length * size * INK;

  // Baseline and size of each row of text, rows centred in `height` or hung from `top`.
  function rows(lines, fontsize, { height = 0, top = null } = {}) {
    const sizes = lines.map(line => sizeOf(line.part, fontsize));
    const total = sizes.reduce((sum, size) => sum + size * LEADING, 0);
    let at = top ?? (height - total) / 2;
    return lines.map((line, number) => {
      const size = sizes[number], baseline = at + size * (LEADING / 2 + 0.35);
      at += size * LEADING;
      return { text: line.text, part: line.part, size: round(size), y: round(baseline) };
    });
  }

  // `box` without what lies far outside `seen`: browsers take long over huge outlines. Cuts
  // are whole steps away from its sides, so that dashes stay where they are.
  function clipped(box, seen) {
    const [x, w] = cut(box.x, box.w, seen.x, seen.w), [y, h] = cut(box.y, box.h, seen.y, seen.h);
    return w === box.w && h === box.h ? box : { ...box, x, y, w, h, cut: y > box.y || x > box.x };
  }

  function cut(begin, size, from, room) {
    if (size < room + 2 * CUT) return [begin, size];
    const before = Math.max(0, Math.floor((from - begin) / CUT - 0.2)) * CUT;
    const after = Math.max(0, Math.floor((begin + size - from - room) / CUT - 0.2)) * CUT;
    return [begin + before, size - before - after];
  }

  // How far x, y is from the line through points.
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

  return { sizeOf, widthOf, LEADING, INK, outline, lid, tip, rows, clipped, distance, DASHES, AGAIN, TIP };
})();
