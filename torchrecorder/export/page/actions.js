// Actions: everything a reader can do, by mouse, keys or menus.

"use strict";

const createActions = (model, state, stage, swatch) => {
  let left = false;  // Escape was the last thing done: Tab leaves the picture

  function select(item, how = {}) {
    left = false;
    const { selected } = state.get();
    const again = how.by === "pointer" && item === selected && state.get().open.has(item);
    if (item < 0 || again) return nothing();
    return state.set({ selected: item, value: -1 }, how);
  }

  const selectValue = value => state.set({ value, selected: -1 }, { by: "pointer" });

  function nothing() {
    state.set({ selected: -1, value: -1 });
    actions.hidePanel?.();
  }

  function toggle(item, at = null) {
    if (!model.canOpen(item)) {
      if (!at) stage.show(item, true);
      return;
    }
    state.set({ open: opening.toggled(state.get().open, item), selected: item, value: -1 },
      { anchor: item, at, by: at ? "pointer" : "keys" });
  }

  // Select a box wherever it is: what is around it is opened.
  function go(item) {
    const { open } = state.get();
    const next = opening.isRevealed(model, open, item) ? open
      : opening.revealed(model, open, item);
    state.set({ open: next, selected: item, value: -1 }, { show: item, zoom: true });
    if (next === open) stage.show(item, true);
  }

  function reopen(open) {
    const { selected } = state.get();
    const next = opening.same(open, state.get().open) ? state.get().open : open;
    const seen = selected >= 0 && opening.isRevealed(model, next, selected);
    state.set({ open: next, selected: seen ? selected : -1 }, seen ? { anchor: selected } : {});
  }

  function up() {
    const around = model.parent(state.get().selected);
    if (state.get().selected >= 0 && around >= 0) select(around, { show: around });
  }

  function escape() {
    const { selected, value } = state.get();
    if (selected < 0 && value < 0 && !actions.panelOpen?.()) left = true;
    nothing();
    if (selected >= 0) left = true;
  }

  function theme() {
    const dark = looksDark(state.get().theme);
    state.set({ theme: dark ? "light" : "dark" });
  }

  async function copy(said, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(said);
    } catch {
      done = copyBySelection(said);
    }
    button.textContent = done ? "Copied" : "Cannot copy here";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // Fallback if scripts have no access to the clipboard, as in files and frames.
  function copyBySelection(said) {
    const field = document.createElement("textarea");
    field.value = said;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }

  const actions = {
    select, selectValue, nothing, toggle, go, up, escape, theme, copy, swatch,
    frame: item => stage.show(item, true),
    colour: key => state.set({ colour: key }),
    closeAll: () => reopen(new Set()),
    toLevel: count => reopen(opening.toLevel(model, state.get().open, count)),
    everything: () => reopen(opening.everything(model)),
    unfold: () => reopen(opening.unfolded(model, state.get().open)),
    fold: () => reopen(opening.folded(model, state.get().open)),
    first: () => reopen(new Set(model.data.open)),
    leaving: () => left,
    stay: () => { left = false; },
  };
  return actions;
};
