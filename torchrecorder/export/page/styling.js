// Styling: the theme, the colors of boxes, and what is highlighted, in the current state.

"use strict";

const DARK = "(prefers-color-scheme: dark)";
// Created once: browsers report changes only to existing media queries.
const systemTheme = window.matchMedia(DARK);
const isDark = ({ theme, isSystemDark }) => (theme === "auto" ? isSystemDark : theme === "dark");

const createStyling = (model, types, state) => {
  const STORAGE_KEY = "torchrecorder-theme";
  let palette = null, paletteKey = [], highlightState = null, highlights = null;

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

  function currentHighlights(now) {
    const keys = ["selected", "tensor", "open", "siblings"];
    if (!highlightState || keys.some(key => highlightState[key] !== now[key])) {
      highlightState = now;
      highlights = relations.of(model, now);
    }
    return highlights;
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

  // All that a drawing needs besides positions.
  function current() {
    const now = state.get(), { selected, type } = now, highlighted = currentHighlights(now);
    return {
      palette: currentPalette(now), accessibleName, selected,
      relation: highlighted?.line ?? null, neighbors: highlighted?.boxes ?? null,
      isOfType: type === null ? null : item => model.typeOf(item) === type,
      isEqual: selected >= 0 && model.typeOf(selected)
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
