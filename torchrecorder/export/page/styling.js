// Styling: the theme, the colors of boxes, and what is highlighted, in the current state.

"use strict";

const DARK = "(prefers-color-scheme: dark)";
// Created once: browsers report changes only to existing media queries.
const systemTheme = window.matchMedia(DARK);
const isDark = ({ theme, isSystemDark }) => (theme === "auto" ? isSystemDark : theme === "dark");

const createStyling = ({ model, types, paths, state }) => {
  const STORAGE_KEY = "torchrecorder-theme";
  let palette = null, paletteKey = [], relatedState = null, related = null;

  // Frames in a sandbox have no storage.
  function storedTheme() {
    try {
      return localStorage.getItem(STORAGE_KEY);
    } catch {
      return null;
    }
  }

  function storeTheme(theme) {
    try {
      localStorage.setItem(STORAGE_KEY, theme);
    } catch {
      // The choice is lost when the page is closed.
    }
  }

  function currentPalette(now) {
    const { color: by, open, siblings, hidden, root } = now;
    const name = isDark(now) ? "dark" : "light";
    const key = [name, by, siblings, ...(by ? [open, hidden, root] : [])];
    if (key.some((each, index) => each !== paletteKey[index])) {
      paletteKey = key;
      const annotation = layoutInputs.annotation(model, now);
      palette = paint.palette(model, name, annotation, annotation ? colored(annotation, now) : []);
      palette.extraLabel = (item, isOpen) => layoutInputs.extraLabel(model, now, item, isOpen);
    }
    return palette;
  }

  const colored = (annotation, now) => openItems.visible(model, now.open, now).filter(item =>
    !now.open.has(item) || paint.isColoredOpen(model, annotation, item));

  function currentRelations(now) {
    const keys = ["selected", "tensor", "open", "siblings"];
    if (!relatedState || keys.some(key => relatedState[key] !== now[key])) {
      relatedState = now;
      related = relations.of(model, now);
    }
    return related;
  }

  // The accessible name of a box.
  function accessibleName(item, open, hidden = false) {
    if (hidden) return `${model.title(item)}, hidden`;
    const parts = [model.title(item), ...model.details(item)];
    if (model.failed(item)) parts.push("failed");
    if (model.canOpen(item)) {
      const count = model.children[item + 1].length;
      parts.push(`${open ? "open" : "closed"}, ${count} ${count === 1 ? "box" : "boxes"} in it`);
    }
    return parts.join(", ");
  }

  // Whether a box stands out among all others, which are pale then; null if none does.
  function emphasis({ type }, onPaths) {
    if (onPaths) return ({ item, open }) => !open && onPaths.has(item);
    return type === null ? null : ({ item }) => model.typeOf(item) === type;
  }

  // All that a drawing needs besides positions, in the state with some changes. Paths are shown
  // instead of what is related to the selection.
  function current(changes = {}) {
    const now = { ...state.get(), ...changes }, { selected, from, to } = now;
    const onPaths = paths.of(now), near = onPaths ? null : currentRelations(now);
    return {
      palette: currentPalette(now), accessibleName,
      chosen: [...new Set([from, to, selected])].filter(item => item >= 0),
      relation: (onPaths ?? near)?.line ?? null, neighbors: near?.boxes ?? null,
      isEmphasized: emphasis(now, onPaths),
      isEqual: !onPaths && selected >= 0 && model.typeOf(selected)
        ? item => types.areEqual(item, selected) : null,
    };
  }

  function applyTheme() {
    document.documentElement.dataset.theme = isDark(state.get()) ? "dark" : "light";
  }

  if (state.get().theme === "auto" && ["light", "dark"].includes(storedTheme())) {
    state.set({ theme: storedTheme() });
  }
  applyTheme();
  state.onChange((now, before) => {
    if (isDark(now) !== isDark(before)) applyTheme();
    if (now.theme !== before.theme) storeTheme(now.theme);
  });

  const followSystem = ({ matches }) => state.set({ isSystemDark: matches });
  systemTheme.addEventListener("change", followSystem);
  // A frame may not know the theme of the page around it when it starts.
  requestAnimationFrame(() => followSystem(window.matchMedia(DARK)));
  return { current, accessibleName };
};
