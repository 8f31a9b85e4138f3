// Paint: the colours in this theme, outline and text of a box.

"use strict";

const paint = (() => {
  const SPACE = "http://www.w3.org/2000/svg";
  const PAD = 9, TOP = 4, MOST = 3, WIDE = 2.4;

  // A new element; `attributes` and text are data and never read as markup.
  function element(document, tag, attributes, said = null) {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) made.setAttribute(name, value);
    }
    if (said !== null) made.textContent = said;
    return made;
  }

  // Whether `item` has a number and nothing in it has one: it shows its colour when open too.
  const carries = (model, annotation, item) => annotation.values[item] !== null &&
    model.children[item + 1].every(child => annotation.values[child] === null);

  // Looks of boxes in `theme`; with an annotation, boxes in the colours of its ramp, which
  // reaches from the least to the largest number of the boxes in `seen`.
  function palette(model, theme, annotation = null, seen = []) {
    const colours = model.data.themes[theme], own = colours.ink;
    const ramp = annotation && colour.ramp(colours.heat);
    const isMean = item => Boolean(annotation?.sum) && model.folded(item) > 1;
    // The number of an item; of a fold that adds up, of one of its siblings on average.
    const number = item => {
      const value = annotation.values[item];
      return isMean(item) && value !== null ? value / model.folded(item) : value;
    };
    const scale = annotation && colour.scale(seen.map(number), {
      log: Boolean(annotation.log), sum: Boolean(annotation.sum),
      range: annotation.key === model.data.color_by ? model.data.color_range : null });
    const shade = item => {
      const share = annotation ? scale.at(number(item)) : null;
      return share === null ? null : ramp(share);
    };
    function look(item, open) {
      const plain = model.look(item, open)[theme];
      if (!annotation || model.failed(item)) return plain;
      if (open && !carries(model, annotation, item)) return plain;
      const fill = shade(item);
      if (!fill) return { ...plain, fill: colours.paper, stroke: colours.line, faint: true };
      return { ...plain, fill, text: colour.ink(fill) };
    }
    const means = seen.some(isMean);
    return { theme, colours, look, ramp, scale, annotation, means, ink: own };
  }

  const stroked = look => ({
    stroke: look.stroke, "stroke-width": look.width,
    "stroke-dasharray": shapes.DASHES[look.dash] ?? null,
    "stroke-linejoin": "round",
  });

  function faces(look, w, h, folded) {
    if (!folded) return [["path", { d: shapes.outline(look.outline, w, h), fill: look.fill,
      ...stroked(look) }]];
    return [0, shapes.AGAIN].map(gap => ["path", {
      d: shapes.outline(look.outline, w - 2 * gap, h - 2 * gap), fill: look.fill, ...stroked(look),
      transform: gap ? `translate(${gap} ${gap})` : null }]);
  }

  function words(lines, look, fontsize, w, h, open) {
    const lid = look.outline === "cylinder" ? 2 * shapes.lid(h) : 0;
    const rows = open ? shapes.rows(lines, fontsize, { top: TOP })
      : shapes.rows(lines, fontsize, { height: h + lid });
    const faint = colour.opacity(look.text, look.fill);
    return rows.map((row, number) => ["text", {
      x: open ? PAD : Math.round(w * 50) / 100, y: row.y, "font-size": row.size,
      "text-anchor": open ? null : "middle", fill: look.text,
      "fill-opacity": row.part === 2 && !lines[number].number ? faint : null,
      "font-weight": (number === 0 && look.bold) || lines[number].number ? "bold" : null,
      class: lines[number].siblings ? "siblings" : `part${row.part}`,
    }, row.text]);
  }

  // Where the choice of siblings is in an open fold: its baseline, and about how wide it is.
  function siblingsRow(model, palette, { item, open }) {
    const more = open ? palette.below?.(item, open) ?? [] : [];
    const line = more.find(each => each.siblings), own = model.lines(item, open);
    if (!line) return null;
    const rows = shapes.rows([...own, ...more], model.data.fontsize, { top: TOP });
    const row = rows[own.length + more.indexOf(line)];
    return { y: row.y, wide: shapes.widthOf(line.text, row.size) };
  }

  // Everything in a box, as [tag, attributes, text]; its corner is at 0, 0.
  function parts(model, palette, { item, w, h, open, hidden }, withText = true) {
    const look = palette.look(item, open), folded = !open && model.folded(item) > 1;
    if (hidden) return [["circle", { cx: w / 2, cy: h / 2, r: w / 2 - 1, fill: palette.colours.paper,
      stroke: palette.colours.line, "stroke-width": 1.1 }]];
    const found = faces(look, w, h, folded);
    if (!withText) return found;
    const lines = [...model.lines(item, open), ...palette.below?.(item, open) ?? []];
    for (const [tag, attributes, said] of
      words(lines, look, model.data.fontsize, w, h, open)) {
      found.push([tag, attributes, said]);
    }
    return found;
  }

  // The look of a line; one that stands for many tensors is wide, unless it is light.
  function lineLook(model, palette, line) {
    const number = model.data.tensors.look?.[line.value] ?? -1;
    const plain = { stroke: palette.colours.line, width: 0.9, dash: "solid" };
    const look = number < 0 ? plain : model.data.looks[number][palette.theme];
    if (line.loop) return { ...look, dash: "dashed", width: Math.max(look.width, 1.2) };
    return line.count > MOST && look.width >= plain.width
      ? { ...look, width: look.width * WIDE } : look;
  }

  // The small name of an argument at the head of a line, as [tag, attributes, text].
  function mark(model, palette, { mark: [said, x, y, anchor] }) {
    const size = model.data.fontsize * 0.8;
    return ["text", { x, y: y + size * 0.35, "font-size": size, "text-anchor": anchor,
      fill: palette.colours.line, class: "part2" }, said];
  }

  const fonts = model =>
    `${model.data.fontname || "Helvetica"}, Helvetica, Arial, "Liberation Sans", sans-serif`;

  return { element, palette, carries, parts, siblingsRow, lineLook, mark, stroked, fonts, PAD, TOP };
})();
