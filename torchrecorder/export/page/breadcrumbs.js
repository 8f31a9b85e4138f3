// Breadcrumbs: the path to the selected box, or to the box in the middle of the window.

"use strict";

const createBreadcrumbs = (element, stage, model, names, state, actions) => {
  const DELAY = 80;
  let shown = null, timer = 0;

  // The selected box and all around it; otherwise the open boxes in the middle of the window.
  function path() {
    const { selected } = state.get();
    if (selected >= 0) return [...model.ancestors(selected), selected];
    const { width, height } = stage.freeSize(), box = stage.boxAt(width / 2, height / 2);
    if (!box) return [];
    const ancestors = model.ancestors(box.item);
    return box.open ? [...ancestors, box.item] : ancestors;
  }

  function crumb(text, onClick, isLast) {
    const button = createButton("", text, onClick);
    button.title = text;
    if (isLast) button.setAttribute("aria-current", "location");
    return button;
  }

  function update() {
    const items = path(), key = items.join();
    if (key === shown) return;
    shown = key;
    const { name } = model.data;
    const rest = items.filter(item => model.parent(item) >= 0 || names.short(item) !== name);
    replaceFocused(element, crumb(name || "model", actions.showAbout, !items.length),
      ...rest.map(item => crumb(names.short(item), () => actions.goTo(item), item === items.at(-1))));
  }

  // Not updated while the picture moves.
  stage.onDraw(() => {
    clearTimeout(timer);
    timer = setTimeout(update, DELAY);
  });
  state.onChange(update);
  update();
};
