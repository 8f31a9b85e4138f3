// Saving: the visible part, or everything open, as an SVG or PNG file.

"use strict";

const saving = (() => {
  const MARGIN = 12, SHARP = 2, LARGEST = 16000, AREA = 120e6;

  // A separate document with everything in `area`.
  function svgOf(model, palette, picture, area, relation = null) {
    const make = (tag, attributes, said) => paint.element(document, tag, attributes, said);
    const round = value => Math.round(value * 100) / 100;
    const svg = make("svg", {
      xmlns: "http://www.w3.org/2000/svg", width: `${round(area.w)}pt`, height: `${round(area.h)}pt`,
      viewBox: [area.x, area.y, area.w, area.h].map(round).join(" "),
      "font-family": paint.fonts(model),
    });
    svg.append(make("title", {}, model.data.name || "model"),
      make("rect", { ...place(area), fill: palette.colours.paper }));
    const boxes = picture.boxes.filter(box => camera.meets(box, area));
    const group = box => {
      const made = make("g", { transform: `translate(${round(box.x)} ${round(box.y)})` });
      made.append(...paint.parts(model, palette, box).map(([tag, { class: _, ...rest }, said]) =>
        make(tag, rest, said)));
      return made;
    };
    svg.append(...boxes.filter(box => box.open).map(group),
      ...lines(model, palette, picture, area, relation, make),
      ...boxes.filter(box => !box.open).map(group));
    return svg;
  }

  const place = area => ({ x: area.x, y: area.y, width: area.w, height: area.h });

  function lines(model, palette, picture, area, relation, make) {
    const shown = camera.parts(picture, area).flatMap(part => part.lines.filter(line =>
      line.x0 < area.x + area.w && line.x1 > area.x && line.y0 < area.y + area.h && line.y1 > area.y));
    return shown.flatMap(line => {
      const look = paint.lineLook(model, palette, line), way = relation?.(line);
      const stroke = way ? { in: "#0072b2", out: "#d55e00" }[way] : look.stroke;
      const opacity = relation && !way ? 0.3 : null;
      const drawn = { ...paint.stroked(look), stroke, opacity };
      if (way) drawn["stroke-width"] = 1.8;
      return [make("path", { d: line.d, fill: "none", ...drawn }),
        ...(line.tip ? [make("path", { d: shapes.tip(line.tip), fill: stroke, opacity })] : []),
        ...(line.mark ? [make(...paint.mark(model, palette, line))] : [])];
    });
  }

  const text = svg => '<?xml version="1.0" encoding="UTF-8"?>\n' +
    new XMLSerializer().serializeToString(svg) + "\n";

  function download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const fileName = (name, suffix) =>
    `${name.replace(/[^\p{L}\p{N}._-]+/gu, "_").slice(0, 80) || "model"}.${suffix}`;

  // Pixels per point: sharp, but no larger than browsers can paint.
  const sharpness = area => Math.min(SHARP * Math.max(1, 96 / 72), LARGEST / area.w,
    LARGEST / area.h, Math.sqrt(AREA / (area.w * area.h)));

  async function pngOf(svg, area) {
    const image = new Image(), k = sharpness(area);
    const address = URL.createObjectURL(new Blob([text(svg)], { type: "image/svg+xml" }));
    try {
      image.src = address;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [area.w, area.h].map(side => Math.max(1, Math.round(side * k)));
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((done, failed) => canvas.toBlob(blob =>
        (blob ? done(blob) : failed(new Error("the browser painted nothing"))), "image/png"));
    } finally {
      URL.revokeObjectURL(address);
    }
  }

  const whole = picture => ({ x: -MARGIN, y: -MARGIN, w: picture.width + 2 * MARGIN,
    h: picture.height + 2 * MARGIN });

  // The part of `area` that has something on it.
  function trimmed(area, picture) {
    const all = whole(picture);
    const x = Math.max(area.x, all.x), y = Math.max(area.y, all.y);
    return { x, y, w: Math.max(1, Math.min(area.x + area.w, all.x + all.w) - x),
      h: Math.max(1, Math.min(area.y + area.h, all.y + all.h) - y) };
  }

  return { svgOf, pngOf, text, download, fileName, whole, trimmed, sharpness };
})();
