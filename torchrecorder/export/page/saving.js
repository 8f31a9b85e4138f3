// Saving: the part of the picture in the window, or all of it, as an SVG or PNG file.

"use strict";

const saving = (() => {
  const MARGIN = 12, LEGEND_GAP = 16, SHARPNESS = 2;
  const MOST_LENGTH = 16000, MOST_AREA = 120e6;  // of a canvas, in pixels

  const round = value => Math.round(value * 100) / 100;
  const group = (x, y, parts, more = {}) => {
    const g = createSvgElement("g", { transform: `translate(${round(x)} ${round(y)})`, ...more });
    g.append(...parts.map(([tag, attributes, text]) =>
      createSvgElement(tag, { ...attributes, class: null }, text)));
    return g;
  };

  // An SVG document of `area`, with only paper on it.
  function emptySvg(model, palette, area) {
    const svg = createSvgElement("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width: `${round(area.w)}pt`, height: `${round(area.h)}pt`,
      viewBox: [area.x, area.y, area.w, area.h].map(round).join(" "),
      "font-family": paint.fonts(model),
    });
    svg.append(createSvgElement("title", {}, model.data.name || "model"), createSvgElement("rect",
      { x: area.x, y: area.y, width: area.w, height: area.h, fill: palette.colors.paper }));
    return svg;
  }

  // The color of what is highlighted, as on the screen.
  const accent = name =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // A box; if some stand out, other closed ones are pale.
  function boxElement(model, { palette, isEmphasized }, box) {
    const parts = paint.boxParts(model, palette, box), standsOut = isEmphasized?.(box);
    if (standsOut) Object.assign(parts[0][1], { stroke: accent("accent"), "stroke-width": 2.4 });
    return group(box.x, box.y, parts,
      { opacity: isEmphasized && !standsOut && !box.open ? 0.35 : null });
  }

  function ringElement([box, kind]) {
    const isRelated = kind === "in" || kind === "out";
    return createSvgElement("rect", { ...shapes.ring(box, kind, 1), fill: "none",
      stroke: accent(isRelated ? kind : "accent"), "stroke-opacity": isRelated ? 0.75 : null,
      "stroke-width": kind === "selected" ? 2.6 : 1.6,
      "stroke-dasharray": kind === "equal" ? shapes.DASHES.dashed : null });
  }

  // An SVG document with everything in `area`, highlighted as on the screen.
  function svgOf(model, styling, picture, area) {
    const svg = emptySvg(model, styling.palette, area);
    const boxes = picture.boxes.filter(box => camera.overlaps(box, area));
    const elementOf = box => boxElement(model, styling, box);
    svg.append(...boxes.filter(box => box.open).map(elementOf),
      ...linesOf(model, styling, picture, area),
      ...boxes.filter(box => !box.open).map(elementOf),
      ...relations.rings(picture, boxes, styling).map(ringElement));
    return svg;
  }

  // The same with the legend below it, if colors need one.
  function withLegend(model, styling, picture, area) {
    const svg = svgOf(model, styling, picture, area), { palette } = styling;
    const drawn = legend.drawing(model, palette);
    if (!drawn) return svg;
    const { x, y, w, h } = area, width = Math.max(w, drawn.w + 2 * MARGIN);
    const all = emptySvg(model, palette, { x, y, w: width, h: h + LEGEND_GAP + drawn.h + MARGIN });
    const place = { x: x + (width - w) / 2, y, width: w, height: h };
    for (const [name, value] of Object.entries(place)) svg.setAttribute(name, round(value));
    all.append(svg, group(x + MARGIN, y + h + LEGEND_GAP, drawn.parts,
      { "font-size": legend.SIZE }));
    return all;
  }

  function linesOf(model, { palette, relation }, picture, area) {
    const visible = camera.visibleParts(picture, area).flatMap(part => part.lines)
      .filter(line => shapes.isLineIn(line, area));
    return visible.flatMap(line => {
      const look = paint.lineLook(model, palette, line), related = relation?.(line);
      const stroke = related ? accent(related) : look.stroke;
      const opacity = relation && !related ? 0.3 : null;
      const attributes = { ...paint.stroked(look), stroke, opacity };
      if (related) attributes["stroke-width"] = 1.8;
      const head = line.arrowhead && shapes.arrowhead(line.arrowhead);
      return [createSvgElement("path", { d: line.d, fill: "none", ...attributes }),
        ...(head ? [createSvgElement("path", { d: head, fill: stroke, opacity })] : []),
        ...(line.mark ? [createSvgElement(...paint.argumentMark(model, palette, line))] : [])];
    });
  }

  // An SVG document as text.
  const svgText = svg => '<?xml version="1.0" encoding="UTF-8"?>\n' +
    new XMLSerializer().serializeToString(svg) + "\n";

  function download(blob, name) {
    const link = createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const fileName = (name, suffix) =>
    `${name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80) || "model"}.${suffix}`;

  // The pixels per point of a PNG, as far as a canvas can have them.
  const sharpness = ({ width, height }) => Math.min(SHARPNESS * 96 / 72, MOST_LENGTH / width,
    MOST_LENGTH / height, Math.sqrt(MOST_AREA / (width * height)));

  async function pngOf(svg) {
    const image = new Image(), size = svg.viewBox.baseVal, k = sharpness(size);
    const address = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
    try {
      image.src = address;
      await image.decode();
      const canvas = createElement("canvas");
      [canvas.width, canvas.height] = [size.width, size.height].map(side =>
        Math.max(1, Math.round(side * k)));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((resolve, reject) => canvas.toBlob(blob =>
        (blob ? resolve(blob) : reject(new Error("the browser painted nothing"))), "image/png"));
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  // The area of a picture with a margin.
  const wholeArea = picture => ({ x: -MARGIN, y: -MARGIN, w: picture.width + 2 * MARGIN,
    h: picture.height + 2 * MARGIN });

  // The part of `area` that is on the picture.
  function croppedTo(area, picture) {
    const all = wholeArea(picture);
    const x = Math.max(area.x, all.x), y = Math.max(area.y, all.y);
    return { x, y, w: Math.max(1, Math.min(area.x + area.w, all.x + all.w) - x),
      h: Math.max(1, Math.min(area.y + area.h, all.y + all.h) - y) };
  }

  return { svgOf, withLegend, pngOf, svgText, download, fileName, wholeArea, croppedTo, sharpness };
})();
