// Tooltip: what the picture does not show of the box or line at the pointer.

"use strict";

const createTooltip = ({ byId, stage, model, names, state }) => {
  const DELAY = 350, DISTANCE = 14, READABLE = 6;  // milliseconds; pixels
  const element = byId("tooltip");
  let timer = 0;

  const row = (className, text) => createElement("div", className, text);

  // The full name of the class or function of an item.
  const typeName = item =>
    model.factsOf(item).find(([title]) => ["class", "function"].includes(title))?.[1] ?? "";

  // The lines on a box, and the number that colors it.
  function linesOn(item) {
    const annotation = layoutInputs.annotation(model, state.get());
    const number = annotation && numbers.textOf(annotation, item, model);
    return [
      ...model.details(item).slice(0, 8).map(text => row("tooltip-line", text)),
      number && row("tooltip-number", `${annotation.title}: ${number}`),
    ];
  }

  function ofBox({ item, open }) {
    const title = model.title(item), place = names.place(item), type = typeName(item);
    const fontsize = shapes.fontSize(2, model.data.fontsize) * stage.view().k;
    return [
      row("tooltip-title", title),
      ...[place, type].filter(text => text && text !== title && text !== model.cls(item))
        .map(text => row("tooltip-path", text)),
      ...(fontsize < READABLE ? linesOn(item) : []),
      model.source(item) && row("tooltip-line", model.source(item)),
      model.canOpen(item) && row("tooltip-hint", `double-click to ${open ? "collapse" : "expand"}`),
    ].filter(Boolean);
  }

  function ofLine(line) {
    const producer = model.data.tensors.producer[line.tensor];
    const consumers = model.data.tensors.consumers[line.tensor], now = state.get();
    const box = (item, from) => relations.neighborBox(model, now, item, from);
    const maker = box(producer, consumers[0] ?? -1);
    const readers = [...new Set(consumers.map(item => box(item, producer)))];
    const rest = readers.length - 4;
    const text = line.bundled ? `${line.count} tensors` : model.tensorText(line.tensor);
    return [
      row("tooltip-title", text || "tensor"),
      maker >= 0 && row("tooltip-line", `from ${model.title(maker)}`),
      ...readers.slice(0, 4).map(item => row("tooltip-line", `to ${model.title(item)}`)),
      rest > 0 && row("tooltip-line", `and ${rest} more`),
    ].filter(Boolean);
  }

  function show(px, py) {
    const line = stage.lineAt(px, py), box = stage.boxAt(px, py);
    const isOnBox = box && !(box.open && line);
    const fontsize = model.data.fontsize * stage.view().k;
    if (!isOnBox && !line) return;
    // All of it is in the corner of the open box.
    if (isOnBox && box.open && fontsize > 7) return;
    element.replaceChildren(...(isOnBox ? ofBox(box) : ofLine(line)));
    element.hidden = false;
    const size = stage.size(), { offsetWidth: w, offsetHeight: h } = element;
    const beside = (at, length, limit) =>
      Math.max(4, at + DISTANCE + length > limit ? at - DISTANCE - length : at + DISTANCE);
    element.style.left = `${beside(px, w, size.width)}px`;
    element.style.top = `${beside(py, h, size.height)}px`;
  }

  function hide() {
    clearTimeout(timer);
    element.hidden = true;
  }

  // Shows the tooltip for a pixel after a while.
  function showLater(px, py) {
    hide();
    timer = setTimeout(() => show(px, py), DELAY);
  }

  return { showLater, hide };
};
