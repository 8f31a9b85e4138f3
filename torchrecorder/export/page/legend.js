// Legend: the meaning of the colours.

"use strict";

const createLegend = (element, model, state, currentStyling) => {
  // The colours of a scale as an image, because CSS gradients interpolate differently.
  function strip(ramp) {
    const canvas = createElement("canvas", "ramp");
    [canvas.width, canvas.height] = [160, 1];
    const context = canvas.getContext("2d");
    for (let at = 0; at < 160; at++) {
      context.fillStyle = ramp(at / 159);
      context.fillRect(at, 0, 1, 1);
    }
    return canvas;
  }

  const middle = ({ low, high, log }) => (log ? Math.sqrt(low * high) : (low + high) / 2);

  function ofAnnotation({ annotation, scale, ramp, hasMeans }) {
    const title = createElement("h3", "", annotation.title);
    if (scale.low === null) return [title, createElement("p", "", "no box shown has this number")];
    const values = scale.low === scale.high ? [scale.high] : [scale.low, middle(scale), scale.high];
    const ends = createElement("div", "ends", null, ...values.map(value =>
      createElement("span", "", numbers.format(value, annotation.format))));
    const text = `of the boxes shown${hasMeans ? " (mean for ×N)" : ""}` +
      (scale.log ? ", on a logarithmic scale" : "");
    return [title, strip(ramp), ends, createElement("p", "", text)];
  }

  function ofLooks(rows, palette) {
    return rows.map(([text, look]) => {
      const shown = model.data.looks[look][palette.theme];
      const swatch = shown.outline === "plain" ? [] : [paint.swatch(shown, 24, 14, 1)];
      const name = createElement("span", "", model.text(text));
      return createElement("div", "entry", null, ...swatch, name);
    });
  }

  function update() {
    const { palette } = currentStyling(), rows = model.data.legend;
    const entries = palette.annotation ? ofAnnotation(palette) : ofLooks(rows, palette);
    element.replaceChildren(...entries);
    element.hidden = !palette.annotation && !rows.length;
  }

  state.onChange((now, before) => {
    if (["colour", "theme", "isSystemDark"].some(key => now[key] !== before[key]) ||
      (now.colour && layoutInputs.changed(now, before))) update();
  });
  update();
};
