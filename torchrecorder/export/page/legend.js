// Legend: what the colours mean.

"use strict";

const createLegend = (element, model, state, told) => {
  // The colours of the ramp as an image, because CSS gradients interpolate differently.
  function strip(ramp) {
    const canvas = make("canvas", "ramp");
    [canvas.width, canvas.height] = [160, 1];
    const pen = canvas.getContext("2d");
    for (let at = 0; at < 160; at++) {
      pen.fillStyle = ramp(at / 159);
      pen.fillRect(at, 0, 1, 1);
    }
    return canvas;
  }

  const middle = ({ low, high, log }) => (log ? Math.sqrt(low * high) : (low + high) / 2);

  function ofAnnotation(palette) {
    const { annotation, scale, ramp } = palette;
    const parts = [make("h3", "", annotation.title)];
    if (scale.low === null) return [...parts, make("p", "", "no box has a number for it")];
    const ends = make("div", "ends");
    const marks = scale.low === scale.high ? [scale.high]
      : [scale.low, middle(scale), scale.high];
    ends.append(...marks.map(value => make("span", "", numbers.said(value, annotation.format))));
    const more = scale.log ? ", equal steps are equal factors" : "";
    const mean = palette.means ? " (mean for ×N)" : "";
    return [...parts, strip(ramp), ends, make("p", "", `of the boxes shown${mean}${more}`)];
  }

  // A small box in the outline and the colours of `look`.
  function swatch(look) {
    const picture = paint.element(document, "svg", { class: "swatch", viewBox: "-1 -1 26 16" });
    const outline = { d: shapes.outline(look.outline, 24, 14), fill: look.fill };
    picture.append(paint.element(document, "path", { ...outline, ...paint.stroked(look) }));
    return picture;
  }

  function ofList(rows, palette) {
    return rows.map(([said, look]) => {
      const row = make("div", "entry");
      const shown = model.data.looks[look][palette.theme];
      if (shown.outline !== "plain") row.append(swatch(shown));
      row.append(make("span", "", model.text(said)));
      return row;
    });
  }

  function update() {
    const { palette } = told();
    const rows = model.data.legend ?? [];
    if (palette.annotation) element.replaceChildren(...ofAnnotation(palette));
    else element.replaceChildren(...ofList(rows, palette));
    element.hidden = !palette.annotation && !rows.length;
  }

  state.watch((now, before) => {
    if (now.colour !== before.colour || now.theme !== before.theme ||
      now.system !== before.system ||
      (now.colour && arrangement.changed(now, before))) update();
  });
  return { update };
};
