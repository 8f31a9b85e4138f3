// Tip: a short tooltip beside the pointer.

"use strict";

const createTip = (element, stage, model, state) => {
  const SOON = 350, AWAY = 14;
  let timer = 0;

  const row = (name, said) => {
    const made = document.createElement("div");
    made.className = name;
    made.textContent = said;
    return made;
  };

  function ofBox(box) {
    const { item } = box, rows = [row("tip-title", model.title(item))];
    const path = model.path(item);
    if (path && path !== model.title(item)) rows.push(row("tip-path", path));
    rows.push(...model.details(item).slice(0, 8).map(said => row("tip-line", said)));
    const annotation = model.data.annotations.find(each => each.key === state.get().colour);
    const value = annotation && numbers.of(annotation, item, model);
    if (value) rows.push(row("tip-value", `${annotation.title}: ${value}`));
    if (model.canOpen(item)) {
      rows.push(row("tip-hint", `double-click to ${box.open ? "close" : "open"}`));
    }
    return rows;
  }

  function ofLine(line) {
    const { producer, consumers } = model.data.tensors;
    const from = producer[line.value], to = consumers[line.value];
    const said = line.more ? `${line.count} tensors` : model.tensorText(line.value);
    const rows = [row("tip-title", said || "tensor")];
    if (from >= 0) rows.push(row("tip-line", `from ${model.title(from)}`));
    for (const item of to.slice(0, 4)) rows.push(row("tip-line", `to ${model.title(item)}`));
    if (to.length > 4) rows.push(row("tip-line", `and ${to.length - 4} more`));
    return rows;
  }

  function show(px, py) {
    const line = stage.lineAt(px, py), box = stage.boxAt(px, py);
    const onBox = box && !(box.open && line);
    const size = model.data.fontsize * stage.view().k;
    if (!onBox && !line) return hide();
    // On an open box there is nothing to say that is not written in its corner.
    if (onBox && box.open && size > 7) return hide();
    element.replaceChildren(...(onBox ? ofBox(box) : ofLine(line)));
    element.hidden = false;
    const room = stage.room(), { offsetWidth: w, offsetHeight: h } = element;
    element.style.left = `${Math.max(4, px + AWAY + w > room.width ? px - AWAY - w : px + AWAY)}px`;
    element.style.top = `${Math.max(4, py + AWAY + h > room.height ? py - AWAY - h : py + AWAY)}px`;
  }

  function hide() {
    clearTimeout(timer);
    element.hidden = true;
  }

  function at(px, py) {
    hide();
    timer = setTimeout(() => show(px, py), SOON);
  }

  return { at, hide, show };
};
