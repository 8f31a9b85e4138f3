// Paint: the colors of boxes in a theme, and the SVG elements of boxes and lines.

"use strict";

const paint = (() => {
  const PAD = 9, TOP = 4, MANY = 3, WIDE = 2.4;

  // Whether `item` has a number and no child of it has one: it has its color when it is open, too.
  const isColoredOpen = (model, annotation, item) => annotation.values[item] !== null &&
    model.children[item + 1].every(child => annotation.values[child] === null);

  // The looks of boxes in `theme`; with an annotation, in the colors of its scale, which reaches
  // from the smallest to the largest number of the boxes in `shown`.
  function palette(model, theme, annotation = null, shown = []) {
    const colors = model.data.themes[theme];
    const ramp = annotation && color.ramp(colors.heat);
    const isSum = item => Boolean(annotation?.sum) && model.folded(item) > 1;
    const isMean = item => isSum(item) || Boolean(annotation?.means.includes(item));
    // The number of an item; of a fold the mean of its siblings.
    const number = item => {
      const value = annotation.values[item];
      return isSum(item) && value !== null ? value / model.folded(item) : value;
    };
    const scale = annotation && color.scale(shown.map(number), {
      log: Boolean(annotation.log), sum: Boolean(annotation.sum),
      range: annotation.key === model.data.color_by ? model.data.color_range : null });
    function look(item, open) {
      const plain = model.look(item, open)[theme];
      if (!annotation || model.failed(item)) return plain;
      if (open && !isColoredOpen(model, annotation, item)) return plain;
      const share = scale.at(number(item));
      if (share === null) {
        return { ...plain, fill: colors.paper, stroke: colors.line, faint: true };
      }
      const fill = ramp(share);
      return { ...plain, fill, text: color.ink(fill) };
    }
    return { theme, colors, look, ramp, scale, annotation, hasMeans: shown.some(isMean) };
  }

  // The attributes of an outline or a line with this look.
  const stroked = look => ({
    stroke: look.stroke, "stroke-width": look.width,
    "stroke-dasharray": shapes.DASHES[look.dash] ?? null,
    "stroke-linejoin": "round",
  });

  // A small picture of a box with this look.
  function swatch(look, w, h, margin) {
    const size = { width: w + 2 * margin, height: h + 2 * margin };
    const viewBox = `${-margin} ${-margin} ${size.width} ${size.height}`;
    const svg = createSvgElement("svg", { class: "swatch", viewBox, ...size });
    svg.append(createSvgElement("path", {
      d: shapes.outline(look.outline, w, h), fill: look.fill, ...stroked(look) }));
    return svg;
  }

  // The outline of a box, doubled for a fold.
  const outlines = (look, w, h, isFold) => (isFold ? [0, shapes.FOLD_INSET] : [0]).map(inset => [
    "path", {
      d: shapes.outline(look.outline, w - 2 * inset, h - 2 * inset), fill: look.fill,
      ...stroked(look), transform: inset ? `translate(${inset} ${inset})` : null,
    }]);

  function textsOf(texts, look, fontsize, w, h, open) {
    const lid = look.outline === "cylinder" ? 2 * shapes.lid(h) : 0;
    const rows = shapes.textRows(texts, fontsize, open ? { top: TOP } : { height: h + lid });
    const faint = color.opacity(look.text, look.fill);
    return rows.map((row, index) => ["text", {
      x: open ? PAD : Math.round(w * 50) / 100, y: row.y, "font-size": row.size,
      "text-anchor": open ? null : "middle", fill: look.text,
      "fill-opacity": row.part === 2 && !row.number ? faint : null,
      "font-weight": (index === 0 && look.bold) || row.number ? "bold" : null,
      class: row.siblings ? "siblings" : `part${row.part}`,
    }, row.text]);
  }

  // The texts on a box: its label, and below it what depends on the state.
  const allTexts = (model, palette, { item, open, inOne }) =>
    [...model.label(item, open, inOne), ...palette.extraLabel?.(item, open) ?? []];

  // The baseline and the width of the text in an open fold at which a sibling is chosen; null if
  // there is none.
  function siblingsRow(model, palette, box) {
    if (!box.open) return null;
    const texts = allTexts(model, palette, box);
    const rows = shapes.textRows(texts, model.data.fontsize, { top: TOP });
    const row = rows.find(each => each.siblings);
    return row ? { y: row.y, width: shapes.textWidth(row.text, row.size) } : null;
  }

  // The elements of a box, [tag, attributes, text] each; its corner is at 0, 0.
  function boxParts(model, palette, box, withText = true) {
    const { item, w, h, open, hidden } = box, look = palette.look(item, open);
    if (hidden) {
      return [["circle", { cx: w / 2, cy: h / 2, r: w / 2 - 1, fill: palette.colors.paper,
        stroke: palette.colors.line, "stroke-width": 1.1 }]];
    }
    const parts = outlines(look, w, h, !open && model.folded(item) > 1);
    if (!withText) return parts;
    const texts = allTexts(model, palette, box);
    return [...parts, ...textsOf(texts, look, model.data.fontsize, w, h, open)];
  }

  // The look of a line; one that stands for many tensors is wide, except updates.
  function lineLook(model, palette, line) {
    const index = model.lineLook(line);
    const plain = { stroke: palette.colors.line, width: 0.9, dash: "solid" };
    const look = index < 0 ? plain : model.data.looks[index][palette.theme];
    if (line.loop) return { ...look, dash: "dashed", width: Math.max(look.width, 1.2) };
    return line.count > MANY && look.width >= plain.width
      ? { ...look, width: look.width * WIDE } : look;
  }

  // The name of an argument at the head of a line, as [tag, attributes, text].
  function argumentMark(model, palette, { mark: [text, x, y, anchor] }) {
    const size = model.data.fontsize * 0.8;
    return ["text", { x, y: y + size * 0.35, "font-size": size, "text-anchor": anchor,
      fill: palette.colors.line, class: "part2" }, text];
  }

  const fonts = model =>
    `${model.data.fontname}, Helvetica, Arial, "Liberation Sans", sans-serif`;

  return {
    palette, isColoredOpen, boxParts, siblingsRow, lineLook, argumentMark, stroked, swatch,
    fonts, PAD,
  };
})();
