// Actions: everything that a reader can do, by mouse, keys or menus.

"use strict";

const createActions = ({ model, types, state, stage, styling }) => {
  let tabLeaves = false;  // after Escape, Tab leaves the picture
  const NOTHING = { selected: -1, tensor: -1 };

  function select(item, details = {}) {
    tabLeaves = false;
    const { selected, open } = state.get();
    const isAgain = details.by === "pointer" && item === selected && open.has(item);
    if (item < 0 || isAgain) clearSelection();
    else state.set({ selected: item, tensor: -1 }, details);
  }

  const selectTensor = (tensor, at) =>
    state.set({ tensor, selected: -1 }, { by: "pointer", at });

  function clearSelection() {
    state.set(NOTHING);
    actions.hidePanel?.();
  }

  // Opens or closes a box; `at`, if given, is the pixel that was clicked. The isolated box is always
  // open.
  function toggle(item, at = null) {
    if (state.get().hidden.has(item)) unhide(item);
    else if (model.canOpen(item) && item !== state.get().root) {
      state.set({ open: openItems.toggled(model, state.get(), item), selected: item, tensor: -1 },
        { anchor: item, at, by: at ? "pointer" : "keys" });
    } else if (!at) stage.show(item, true);
  }

  // Selects a box and opens all boxes around it.
  function goTo(item) {
    const now = state.get(), next = { ...now, ...openItems.showing(model, now, item) };
    state.set({ ...next, selected: item, tensor: -1 }, { show: item, zoom: true });
    if (!layoutInputs.changed(next, now)) stage.show(item, true);
  }

  // Opens these boxes, and the isolated one, and closes all others; the selection is kept if it is
  // still visible.
  function setOpen(items, changes = {}) {
    const now = state.get(), open = now.root < 0 ? items : new Set([...items, now.root]);
    const next = { ...now, ...changes };
    next.open = openItems.areEqualSets(open, now.open) ? now.open : open;
    const isKept = now.selected >= 0 && openItems.isVisible(model, next, now.selected);
    if (isKept) state.set(next, { anchor: now.selected });
    else state.set({ ...next, selected: -1 });
  }

  // Shows another sibling of a fold, or all of them.
  function showSibling(fold, member) {
    const now = state.get(), next = { ...now, ...openItems.exchanged(model, now, fold, member) };
    next.open = new Set([...next.open, fold]);
    state.set(next, { anchor: fold, corner: true });
  }

  // The innermost fold that is or contains `item`; -1 if there is none.
  const foldAround = item => (item < 0 ? -1
    : [...model.ancestors(item), item].findLast(each => model.isFold(each)) ?? -1);

  // Shows the sibling after or before the shown one, in the innermost fold around the selection.
  function nextSibling(step) {
    const { selected, siblings } = state.get(), fold = foldAround(selected);
    if (fold < 0) return;
    const all = model.children[fold + 1], [shown, ...more] = model.shownChildren(fold, siblings);
    const at = more.length ? (step > 0 ? -1 : all.length) : all.indexOf(shown);
    showSibling(fold, all[(at + step + all.length) % all.length]);
  }

  // Replaces a box by a dot on its lines.
  function hide(item) {
    if (item === state.get().root) return;
    const hidden = new Set(state.get().hidden).add(item);
    state.set({ hidden, ...NOTHING }, { anchor: item });
  }

  function unhide(item) {
    const hidden = new Set(state.get().hidden);
    hidden.delete(item);
    state.set({ hidden }, { anchor: item });
  }

  // Highlights the boxes of a type and opens all boxes around them; in folds, only in the siblings
  // that are shown.
  function highlightType(type) {
    const now = state.get(), open = new Set(now.open);
    for (const item of types.itemsByType().get(type) ?? []) {
      const ancestors = model.ancestors(item);
      if ([...ancestors, item].some(each => model.isOtherSibling(each, now.siblings))) continue;
      for (const each of ancestors) open.add(each);
    }
    const next = openItems.areEqualSets(open, now.open) ? now.open : open;
    state.set({ type, open: next, ...NOTHING, ...NO_PATHS });
  }

  // Shows all paths between two boxes, wherever they are.
  function showPaths(from, to, details = { show: to }) {
    if (from === to) return;
    const shown = openItems.showing(model, state.get(), from, to);
    state.set({ ...shown, from, to, type: null }, details);
  }

  // Shows all paths between the selected box and another one, which is selected if no other is.
  function showPathsTo(item, details) {
    const { selected } = state.get();
    if (selected < 0) select(item, details);
    else showPaths(selected, item, details);
  }

  // Shows only one box and its contents.
  function isolate(item) {
    if (!model.canOpen(item)) return;
    const { open, siblings, hidden } = state.get();
    const next = open.has(item) ? open : openItems.toggled(model, { open, siblings }, item);
    state.set({
      root: item, open: next, ...NOTHING, hidden: hidden.has(item) ? new Set() : hidden,
    });
  }

  function showAll() {
    const { root } = state.get();
    state.set({ root: -1, hidden: new Set() },
      root >= 0 ? { show: root, zoom: true } : { keep: true });
  }

  const reset = () => state.set({ type: null, ...layoutInputs.initial(model),
    open: new Set(model.data.open), ...NOTHING, ...NO_PATHS });

  function selectParent() {
    const { selected, root } = state.get(), parent = selected < 0 ? -1 : model.parent(selected);
    if (parent >= 0 && model.within(parent, root)) select(parent, { show: parent });
  }

  function escape() {
    const { selected, tensor } = state.get();
    if (selected >= 0 || (tensor < 0 && !actions.isPanelOpen?.())) tabLeaves = true;
    state.set({ ...NOTHING, ...NO_PATHS });
    actions.hidePanel?.();
  }

  // The color of the outline of a box in the current theme.
  const swatch = item => model.look(item, false)[styling.current().palette.theme].stroke;

  const toggleTheme = () => state.set({ theme: isDark(state.get()) ? "light" : "dark" });

  async function copy(text, button) {
    const done = copyBySelection(text) || await copyByClipboard(text);
    button.textContent = done ? "Copied" : "Cannot copy here";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  // Copies without the clipboard API: browsers log an error if a script uses it in a frame.
  function copyBySelection(text) {
    const field = createElement("textarea"), focused = document.activeElement;
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    focused?.focus({ preventScroll: true });
    return done;
  }

  const copyByClipboard = text =>
    navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;

  const actions = {
    select, selectTensor, clearSelection, toggle, goTo, selectParent, escape, toggleTheme, copy,
    swatch, showSibling, nextSibling, foldAround, hide, unhide, isolate, showAll, reset,
    highlightType, showPaths, showPathsTo,
    clearType: () => state.set({ type: null }),
    clearPaths: () => state.set(NO_PATHS),
    setDirection: direction => state.set({ direction }, { turn: true }),
    zoomTo: item => stage.show(item, true),
    colorBy: key => state.set({ color: key }, { keep: true }),
    collapseAll: () => setOpen(new Set()),
    expandLevels: count => setOpen(openItems.toLevel(model, state.get().open, count)),
    expandAll: () => setOpen(openItems.all(model), { siblings: openItems.allSiblings(model) }),
    expandFolds: () => setOpen(openItems.withFolds(model, state.get().open),
      { siblings: openItems.allSiblings(model) }),
    collapseFolds: () => setOpen(openItems.withoutFolds(model, state.get().open),
      { siblings: new Map() }),
    tabLeaves: () => tabLeaves,
    keepTab: () => { tabLeaves = false; },
  };
  return actions;
};
