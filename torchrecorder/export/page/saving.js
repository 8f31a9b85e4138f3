// Saving: the part of the picture in the window, or all of it, as an SVG or PNG file.

"use strict";

const saving = (() => {
  const MARGIN = 12, SHARPNESS = 2;
  const MOST_LENGTH = 16000, MOST_AREA = 120e6;  // of a canvas, in pixels

  // An SVG document with everything in `area`.
  function svgOf(model, palette, picture, area, relation = null) {
    const round = value => Math.round(value * 100) / 100;
    const svg = createSvgElement("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width: `${round(area.w)}pt`, height: `${round(area.h)}pt`,
      viewBox: [area.x, area.y, area.w, area.h].map(round).join(" "),
      "font-family": paint.fonts(model),
    });
    svg.append(createSvgElement("title", {}, model.data.name || "model"), createSvgElement("rect",
      { x: area.x, y: area.y, width: area.w, height: area.h, fill: palette.colours.paper }));
    const boxes = picture.boxes.filter(box => camera.overlaps(box, area));
    const group = box => {
      const g = createSvgElement("g", { transform: `translate(${round(box.x)} ${round(box.y)})` });
      g.append(...paint.boxParts(model, palette, box).map(([tag, attributes, text]) =>
        createSvgElement(tag, { ...attributes, class: null }, text)));
      return g;
    };
    svg.append(...boxes.filter(box => box.open).map(group),
      ...linesOf(model, palette, picture, area, relation),
      ...boxes.filter(box => !box.open).map(group));
    return svg;
  }

  function linesOf(model, palette, picture, area, relation) {
    const visible = camera.visibleParts(picture, area).flatMap(part => part.lines)
      .filter(line => shapes.isLineIn(line, area));
    return visible.flatMap(line => {
      const look = paint.lineLook(model, palette, line), related = relation?.(line);
      const stroke = related ? { in: "#0072b2", out: "#d55e00" }[related] : look.stroke;
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
  const sharpness = area => Math.min(SHARPNESS * 96 / 72, MOST_LENGTH / area.w,
    MOST_LENGTH / area.h, Math.sqrt(MOST_AREA / (area.w * area.h)));

  async function pngOf(svg, area) {
    const image = new Image(), k = sharpness(area);
    const address = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
    try {
      image.src = address;
      await image.decode();
      const canvas = createElement("canvas");
      [canvas.width, canvas.height] = [area.w, area.h].map(side =>
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

  return { svgOf, pngOf, svgText, download, fileName, wholeArea, croppedTo, sharpness };
})();
