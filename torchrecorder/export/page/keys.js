// Keys: the action of each key.

"use strict";

const attachKeys = ({ byId, stage, state, actions, boxMenu, sidebar }) => {
  const STEP = 90, host = byId("stage");
  const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  const zoomIn = () => stage.zoom(1.25), zoomOut = () => stage.zoom(0.8);

  const ANYWHERE = {
    "/": actions.openFinder, "?": actions.openHelp, "+": zoomIn, "=": zoomIn, "-": zoomOut,
    "_": zoomOut, "0": stage.fit, "f": stage.fit, "t": actions.toggleTheme,
    "x": actions.collapseAll, "u": actions.selectParent, "p": actions.focusPanel,
    "o": sidebar.toggle, "Escape": actions.escape,
  };

  const ON_BOX = {
    "h": actions.hide, "i": actions.isolate, "s": boxMenu.showSiblingsOfSelected,
    "[": () => actions.nextSibling(-1), "]": () => actions.nextSibling(1),
    "Enter": item => actions.toggle(item), " ": item => actions.toggle(item),
  };

  const isTyping = target => target.closest?.("input, textarea, select, dialog, [role=menu]");

  function anywhere(event) {
    if (isTyping(event.target) || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() === "k") run(event, actions.openFinder);
      return;
    }
    if (/^[1-9]$/.test(event.key)) run(event, () => actions.expandLevels(Number(event.key)));
    else if (ANYWHERE[event.key]) run(event, ANYWHERE[event.key]);
  }

  function run(event, act) {
    event.preventDefault();
    act();
  }

  function onStage(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selected } = state.get(), arrow = ARROWS[event.key];
    if (arrow) run(event, () => move(arrow, selected, event.shiftKey));
    else if (event.key === "Tab") tab(event, selected);
    else if (ON_BOX[event.key] && selected >= 0) run(event, () => ON_BOX[event.key](selected));
    else if (event.key === "m") run(event, boxMenu.show);
    else if (event.key === "Home") run(event, () => step(-1, 1));
    else if (event.key === "End") run(event, () => step(-1, -1));
  }

  // Selects the next box in a direction, or moves the picture.
  function move([dx, dy], selected, withShift) {
    if (withShift || selected < 0) return stage.pan(-dx * STEP, -dy * STEP);
    const next = keyNavigation.toward(stage.picture().boxes, selected, dx, dy);
    return next === null ? undefined : actions.select(next, { show: next });
  }

  function step(from, by, boxes = stage.picture().boxes) {
    const next = keyNavigation.next(boxes, from, by);
    if (next !== null) actions.select(next, { show: next });
    return next !== null;
  }

  // The boxes that begin in the window; all of them if there are none.
  function boxesInSight() {
    const { boxes } = stage.picture(), area = camera.visibleArea(stage.view(), stage.freeSize());
    const found = boxes.filter(({ x, y }) => camera.overlaps({ x, y, w: 0, h: 0 }, area));
    return found.length ? found : boxes;
  }

  // Tab goes from box to box, from the first one in sight if none is selected, and after the last
  // one to the rest of the page; after Escape, it leaves at once.
  function tab(event, selected) {
    if (selected < 0 && actions.tabLeaves()) return;
    const boxes = selected < 0 ? boxesInSight() : undefined;
    if (step(selected, event.shiftKey ? -1 : 1, boxes)) event.preventDefault();
  }

  host.addEventListener("keydown", onStage);
  host.addEventListener("blur", actions.keepTab);
  document.addEventListener("keydown", anywhere);
};
