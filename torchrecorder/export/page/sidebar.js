// Sidebar: the tree of modules and the table of costs beside the picture; one is shown, or none.

"use strict";

const createSidebar = page => {
  const { byId, model, state } = page;
  // Where the sidebar covers the picture.
  const isDrawer = window.matchMedia("(max-width: 820px)");
  const parts = {}, tabs = { tree: byId("tab-tree"), costs: byId("tab-costs") };

  // Parts are created when they are first shown, to save time for all other readers.
  const CREATE = { tree: createModuleTree, costs: createCostTable };

  function update(now, isNew) {
    const { side } = now, hasFocus = byId("side").contains(document.activeElement);
    byId("side").hidden = !side;
    if (!side && hasFocus) byId("stage").focus({ preventScroll: true });
    byId("side").className = `side ${side ?? ""}`;
    byId("outline").setAttribute("aria-expanded", Boolean(side));
    for (const [name, tab] of Object.entries(tabs)) {
      tab.setAttribute("aria-selected", name === side);
      tab.tabIndex = name === side ? 0 : -1;
      byId(`${name}-part`).hidden = name !== side;
    }
    if (!side) return;
    parts[side] ??= CREATE[side](page);
    parts[side].update(now, isNew);
  }

  const show = side => state.set({ side });
  function toggle() {
    show(state.get().side ? null : "tree");
    if (state.get().side) byId("tree").focus({ preventScroll: true });
  }

  for (const [name, tab] of Object.entries(tabs)) {
    tab.addEventListener("click", () => show(name));
    tab.addEventListener("keydown", event => {
      if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
      event.preventDefault();
      const other = name === "tree" ? "costs" : "tree";
      show(other);
      tabs[other].focus();
    });
  }
  byId("side").addEventListener("click", event => {
    if (isDrawer.matches && event.target.closest(".row")) show(null);
  });
  byId("side-close").addEventListener("click", () => show(null));
  byId("outline").addEventListener("click", toggle);
  byId("outline").hidden = !model.openable.length;
  state.onChange((now, before) => {
    const keys = ["side", "selected", "type", "theme", "isSystemDark"];
    if (keys.some(key => now[key] !== before[key])) update(now, now.side !== before.side);
  });
  update(state.get(), true);
  return { toggle };
};
