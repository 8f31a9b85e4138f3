// Crumbs: what is around the selected box, or around the middle of the window, as a path.

"use strict";

const createCrumbs = (element, stage, model, state, actions) => {
  const SOON = 80;
  let shown = "", timer = 0;

  // The open box that the middle of the window is in, and those around it.
  function here() {
    const { selected } = state.get();
    if (selected >= 0) return [...model.ancestors(selected), selected];
    const { width, height } = stage.free(), box = stage.boxAt(width / 2, height / 2);
    if (!box) return [];
    const around = model.ancestors(box.item);
    return box.open ? [...around, box.item] : around;
  }

  function crumb(text, act, isLast) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.title = text;
    made.addEventListener("click", act);
    if (isLast) made.setAttribute("aria-current", "location");
    return made;
  }

  function short(item) {
    const path = model.text(model.data.items.path[item]), around = model.parent(item);
    if (model.isFold(item) || (path && around < 0)) return model.title(item).split(": ")[0];
    if (!path || (around >= 0 && path === model.path(around))) return model.title(item);
    return path.split(".").pop();
  }

  function update() {
    const path = here(), key = path.join();
    if (key === shown && element.childElementCount) return;
    shown = key;
    const parts = [crumb(model.data.name || "model", actions.about, !path.length)];
    for (const item of path) {
      if (model.parent(item) < 0 && short(item) === model.data.name) continue;
      parts.push(crumb(short(item), () => actions.go(item), item === path[path.length - 1]));
    }
    element.replaceChildren(...parts);
  }

  // Not updated while the picture moves.
  stage.watch(() => {
    clearTimeout(timer);
    timer = setTimeout(update, SOON);
  });
  state.watch(update);
  return { update };
};
