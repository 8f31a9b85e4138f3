// Looks: light or dark, which colours boxes have now, and what is highlighted.

"use strict";

const DARK = "(prefers-color-scheme: dark)", system = window.matchMedia(DARK);
// Created once: browsers report changes only to existing media queries.
let systemDark = system.matches;
const looksDark = theme => (theme === "auto" ? systemDark : theme === "dark");

const createLooks = (model, types, state) => {
  const KEPT = "torchrecorder-theme";
  let palette = null, key = [], marked = null, marks = null;

  // Storage is closed to sandboxed frames.
  function remembered() {
    try {
      return localStorage.getItem(KEPT);
    } catch {
      return null;
    }
  }

  function remember(theme) {
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      // The choice lasts as long as the page.
    }
  }

  function currentPalette(now) {
    const { theme, colour: by, open, siblings, hidden, root } = now;
    const name = looksDark(theme) ? "dark" : "light";
    const wanted = [name, by, siblings, ...(by ? [open, hidden, root] : [])];
    if (wanted.some((each, number) => each !== key[number])) {
      key = wanted;
      const annotation = model.data.annotations.find(each => each.key === by) ?? null;
      palette = paint.palette(model, name, annotation, annotation ? shown(annotation, now) : []);
      palette.below = (item, isOpen) => arrangement.below(model, now, item, isOpen);
    }
    return palette;
  }

  const shown = (annotation, now) => opening.seen(model, now.open, now).filter(item =>
    !now.open.has(item) || paint.carries(model, annotation, item));

  function currentMarks(now) {
    const same = marked && ["selected", "value", "open", "siblings"].every(name => marked[name] === now[name]);
    if (!same) {
      marked = now;
      marks = relations.of(model, now);
    }
    return marks;
  }

  // The accessible name of a box.
  function label(item, open, hidden = false) {
    if (hidden) return `${model.title(item)}, hidden`;
    const parts = [model.title(item), ...model.details(item)];
    if (model.failed(item)) parts.push("failed");
    if (model.canOpen(item)) {
      const count = model.children[item + 1].length;
      parts.push(`${open ? "open" : "closed"}, ${count} ${count === 1 ? "box" : "boxes"} in it`);
    }
    return parts.join(", ");
  }

  // Everything a drawing needs besides positions.
  function told() {
    const now = state.get(), found = currentMarks(now);
    return {
      palette: currentPalette(now), label, selected: now.selected,
      relation: found?.line ?? null, neighbours: found?.boxes ?? null,
      isOfType: now.type === null ? null : item => types.of(item) === now.type,
      isEqual: now.selected >= 0 && types.of(now.selected) && !model.isFold(now.selected)
        ? item => item !== now.selected && !model.isFold(item) && types.areEqual(item, now.selected)
        : null,
    };
  }

  function apply() {
    document.documentElement.dataset.theme = looksDark(state.get().theme) ? "dark" : "light";
  }

  if (state.get().theme === "auto" && ["light", "dark"].includes(remembered())) {
    state.set({ theme: remembered() });
  }
  apply();
  state.watch((now, before) => {
    if (now.theme === before.theme) return;
    apply();
    remember(now.theme);
  });
  // Reset, so that all watchers draw again.
  function follow({ matches }) {
    if (matches === systemDark) return;
    systemDark = matches;
    if (state.get().theme !== "auto") return;
    apply();
    state.set({ theme: "auto", system: systemDark });
  }

  system.addEventListener("change", follow);
  // A frame may not know its surroundings yet when it starts.
  requestAnimationFrame(() => follow(window.matchMedia(DARK)));
  return { told, label };
};
