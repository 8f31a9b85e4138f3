// Legend: the meaning of the colors, in the page and in saved pictures.

"use strict";

const legend = (() => {
  // In a saved picture, in points.
  const SIZE = 9, ROW = 15, SWATCH = { w: 24, h: 11 }, RAMP = { w: 200, h: 9, step: 2 };

  const middle = ({ low, high, log }) => (log ? Math.sqrt(low * high) : (low + high) / 2);

  function ofAnnotation({ annotation, scale, ramp, hasMeans }) {
    const { title } = annotation;
    if (scale.low === null) return { title, note: "no box shown has this number", ends: [] };
    const isOne = scale.low === scale.high;
    const values = isOne ? [scale.high] : [scale.low, middle(scale), scale.high];
    const note = `of the boxes shown${hasMeans ? " (mean for ×N)" : ""}` +
      (scale.log ? ", on a logarithmic scale" : "");
    const only = isOne ? () => ramp(scale.at(scale.high)) : ramp;
    return { title, note, ramp: only,
      ends: values.map(each => numbers.format(each, annotation.format)) };
  }

  // A title with a scale, or with rows of looks in `entries`; null if there is nothing to explain.
  function content(model, palette) {
    if (palette.annotation) return ofAnnotation(palette);
    const entries = model.data.legend.map(([text, look]) =>
      ({ text: model.text(text), look: model.data.looks[look][palette.theme] }));
    return entries.length ? { title: "Legend", entries } : null;
  }

  const hasBox = look => look.outline !== "plain";
  const indent = look => (hasBox(look) ? SWATCH.w + 8 : 0);

  function entryParts({ text, look }, y, ink) {
    const parts = [["text", { x: indent(look), y: y + SIZE, fill: ink }, text]];
    return hasBox(look) ? [["path", { d: shapes.outline(look.outline, SWATCH.w, SWATCH.h),
      transform: `translate(0 ${y})`, fill: look.fill, ...paint.stroked(look) }], ...parts] : parts;
  }

  // The ends of the scale stand below its left, middle and right.
  function rampParts({ ramp, ends }, y, ink) {
    const colors = Array.from({ length: RAMP.w / RAMP.step }, (_, at) => ["rect", {
      x: at * RAMP.step, y, width: RAMP.step, height: RAMP.h, "shape-rendering": "crispEdges",
      fill: ramp(at / (RAMP.w / RAMP.step - 1)) }]);
    const anchors = ends.length === 1 ? ["end"] : ["start", "middle", "end"];
    const x = { start: 0, middle: RAMP.w / 2, end: RAMP.w };
    return [...colors, ...ends.map((text, at) => ["text", {
      x: x[anchors[at]], y: y + RAMP.h + SIZE + 3, "text-anchor": anchors[at], fill: ink }, text])];
  }

  // The legend of a saved picture: its elements, [tag, attributes, text] each, from 0, 0 on, and its
  // size; null if there is none.
  function drawing(model, palette) {
    const found = content(model, palette), { ink, line } = palette.colors;
    if (!found) return null;
    const context = createElement("canvas").getContext("2d");
    context.font = `bold ${SIZE}px ${paint.fonts(model)}`;
    const width = text => context.measureText(text).width;
    if (found.entries) {
      return { h: found.entries.length * ROW,
        w: Math.max(...found.entries.map(({ text, look }) => indent(look) + width(text))),
        parts: found.entries.flatMap((entry, at) => entryParts(entry, at * ROW, ink)) };
    }
    const { title, note, ramp } = found, y = ramp ? ROW + RAMP.h + ROW : ROW;
    return { h: y + ROW, w: Math.max(ramp ? RAMP.w : 0, width(title), width(note)), parts: [
      ["text", { x: 0, y: SIZE, "font-weight": "bold", fill: ink }, title],
      ...(ramp ? rampParts(found, ROW, ink) : []),
      ["text", { x: 0, y: y + SIZE + 2, fill: line }, note]] };
  }

  // The colors of a scale as an image, because CSS gradients interpolate differently.
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

  // The HTML elements of what `content` found, below its title.
  function elements({ note, ramp, ends, entries }) {
    if (entries) {
      return entries.map(({ text, look }) => createElement("div", "entry", null,
        ...(hasBox(look) ? [paint.swatch(look, 24, 14, 1)] : []),
        createElement("span", "", text)));
    }
    const scale = ramp ? [strip(ramp), createElement("div", "ends", null,
      ...ends.map(text => createElement("span", "", text)))] : [];
    return [...scale, createElement("p", "", note)];
  }

  // In a small window it is closed at first, because it would cover much of the picture.
  function attach({ byId, model, state, styling }) {
    const element = byId("legend"), [summary, body] = element.children;

    function update() {
      const found = content(model, styling.current().palette);
      summary.textContent = found?.title ?? "";
      body.replaceChildren(...(found ? elements(found) : []));
      element.hidden = !found;
    }

    element.open = !window.matchMedia("(max-width: 560px), (max-height: 420px)").matches;

    state.onChange((now, before) => {
      if (["color", "theme", "isSystemDark"].some(key => now[key] !== before[key]) ||
        (now.color && layoutInputs.changed(now, before))) update();
    });
    update();
  }

  return { attach, drawing, SIZE };
})();
