// Actions: everything a reader can do, by mouse, keys or menus.

"use strict";

const createActions = (model, types, state, stage, swatch) => {
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
    if (state.get().hidden.has(item)) return unhide(item);
    if (!model.canOpen(item)) {
      if (!at) stage.show(item, true);
      return undefined;
    }
    return state.set({ open: opening.toggledBox(model, state.get(), item), selected: item, value: -1 },
      { anchor: item, at, by: at ? "pointer" : "keys" });
  }

  // Select a box wherever it is: what is around it is opened.
  function go(item) {
    const now = state.get(), next = { ...now, ...opening.shown(model, now, item) };
    state.set({ ...next, selected: item, value: -1 }, { show: item, zoom: true });
    if (!arrangement.changed(next, now)) stage.show(item, true);
  }

  // Other boxes are open; the selection is kept if it can still be seen.
  function reopen(open, change = {}) {
    const now = state.get();
    const next = { ...now, ...change, open: opening.same(open, now.open) ? now.open : open };
    const seen = now.selected >= 0 && opening.isShown(model, next, now.selected);
    state.set({ ...next, selected: seen ? now.selected : -1 }, seen ? { anchor: now.selected } : {});
  }

  // Shows another sibling of a fold, or all of them.
  function sibling(fold, member) {
    const now = state.get(), next = { ...now, ...opening.exchanged(model, now, fold, member) };
    next.open = new Set([...next.open, fold]);
    state.set(next, { anchor: fold });
  }

  // Shows the sibling after or before that which is shown, in the innermost fold at the selection.
  function nextSibling(step) {
    const { selected, siblings } = state.get();
    const fold = [selected, ...model.ancestors(selected).reverse()].find(item => model.isFold(item));
    if (selected < 0 || fold === undefined) return;
    const all = model.children[fold + 1], [shown, ...more] = model.inside(fold, siblings);
    const at = more.length ? (step > 0 ? -1 : all.length) : all.indexOf(shown);
    sibling(fold, all[(at + step + all.length) % all.length]);
  }

  // Lines pass through the dot that is left of a hidden box.
  function hide(item) {
    const next = new Set(state.get().hidden).add(item);
    state.set({ hidden: next, selected: -1, value: -1 }, { anchor: item });
  }

  function unhide(item) {
    const next = new Set(state.get().hidden);
    next.delete(item);
    state.set({ hidden: next }, { anchor: item });
  }

  // Opens what is around the boxes of a type, and highlights them; of folds, those in the siblings
  // that are shown.
  function ofType(type) {
    const now = state.get(), open = new Set(now.open);
    for (const item of types.all().get(type) ?? []) {
      const around = [...model.ancestors(item), item];
      if (around.some(each => model.isAside(each, now.siblings))) continue;
      for (const each of around.slice(0, -1)) open.add(each);
    }
    const next = opening.same(open, now.open) ? now.open : open;
    state.set({ type, open: next, selected: -1, value: -1 }, {});
  }

  // Shows nothing but a box and what is in it.
  function isolate(item) {
    if (!model.canOpen(item)) return;
    const { open, siblings, hidden } = state.get();
    const next = open.has(item) ? open : opening.toggledBox(model, { open, siblings }, item);
    state.set({ root: item, open: next, selected: -1, value: -1,
      hidden: hidden.has(item) ? new Set() : hidden }, {});
  }

  function showAll() {
    const { root } = state.get();
    state.set({ root: -1, hidden: new Set() }, root >= 0 ? { show: root, zoom: true } : { keep: true });
  }

  const reset = () => state.set({ type: null, ...arrangement.first(model), open: new Set(model.data.open),
    selected: -1, value: -1 }, {});

  function up() {
    const around = model.parent(state.get().selected);
    if (state.get().selected >= 0 && around >= 0 && model.within(around, state.get().root)) select(around, { show: around });
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
    sibling, nextSibling, hide, unhide, isolate, showAll, reset, ofType,
    allTypes: () => state.set({ type: null }),
    direct: direction => state.set({ direction }, {}),
    frame: item => stage.show(item, true),
    colour: key => state.set({ colour: key }, { keep: true }),
    closeAll: () => reopen(new Set()),
    toLevel: count => reopen(opening.toLevel(model, state.get().open, count)),
    everything: () => reopen(opening.everything(model), { siblings: opening.everySibling(model) }),
    unfold: () => reopen(opening.unfolded(model, state.get().open),
      { siblings: opening.everySibling(model) }),
    fold: () => reopen(opening.folded(model, state.get().open), { siblings: new Map() }),
    leaving: () => left,
    stay: () => { left = false; },
  };
  return actions;
};
