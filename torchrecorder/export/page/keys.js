// Keys: what each key does.

"use strict";

const attachKeys = (host, stage, model, state, actions, boxMenu, side) => {
  const STEP = 90;
  const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

  const ANYWHERE = {
    "/": () => actions.find(), "?": () => actions.help(), "+": () => stage.zoom(1.25), "=": () => stage.zoom(1.25),
    "-": () => stage.zoom(0.8), "_": () => stage.zoom(0.8), "0": stage.fit, "f": stage.fit,
    "t": actions.theme, "x": actions.closeAll, "u": actions.up, "p": () => actions.toPanel(), "o": side.toggle, "Escape": actions.escape,
  };

  const ON_BOX = {
    "h": actions.hide, "i": actions.isolate, "s": boxMenu.siblingsHere,
    "[": () => actions.nextSibling(-1), "]": () => actions.nextSibling(1),
  };

  const typing = target => target.closest?.("input, textarea, select, dialog, [role=menu]");

  function anywhere(event) {
    if (typing(event.target) || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() === "k") run(event, actions.find);
      return;
    }
    if (/^[1-9]$/.test(event.key)) run(event, () => actions.toLevel(Number(event.key)));
    else if (ANYWHERE[event.key]) run(event, ANYWHERE[event.key]);
  }

  function run(event, act) {
    event.preventDefault();
    act();
  }

  function onStage(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selected } = state.get(), way = ARROWS[event.key];
    if (way) run(event, () => arrow(way, selected, event.shiftKey));
    else if (event.key === "Tab") tab(event, selected);
    else if (ON_BOX[event.key] && selected >= 0) run(event, () => ON_BOX[event.key](selected));
    else if (event.key === "m") run(event, boxMenu.show);
    else if ((event.key === "Enter" || event.key === " ") && selected >= 0) {
      run(event, () => actions.toggle(selected));
    } else if (event.key === "Home") run(event, () => step(-1, 1));
    else if (event.key === "End") run(event, () => step(-1, -1));
  }

  function arrow([dx, dy], selected, shift) {
    if (shift || selected < 0) return stage.pan(-dx * STEP, -dy * STEP);
    const next = walk.toward(stage.picture().boxes, selected, dx, dy);
    return next === null ? undefined : actions.select(next, { show: next });
  }

  function step(from, by) {
    const next = walk.next(stage.picture().boxes, from, by);
    if (next !== null) actions.select(next, { show: next });
    return next !== null;
  }

  // Tab goes from box to box, and past the last one on to the rest of the page. After
  // Escape it leaves at once.
  function tab(event, selected) {
    if (selected < 0 && actions.leaving()) return;
    if (step(selected, event.shiftKey ? -1 : 1)) event.preventDefault();
  }

  host.addEventListener("keydown", onStage);
  host.addEventListener("blur", actions.stay);
  document.addEventListener("keydown", anywhere);
};
