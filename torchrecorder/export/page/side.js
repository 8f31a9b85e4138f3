// Side: the tree of modules and the table of costs beside the picture; one is shown, or none.

"use strict";

const createSide = (by, model, types, state, actions) => {
  const made = {}, tabs = { tree: by("tab-tree"), costs: by("tab-costs") };

  // Made when it is first shown: a page that nobody looks at so costs nothing.
  function part(name) {
    if (name === "tree") return createTree(by("tree"), model, types, state, actions);
    return createCosts({ table: by("costs"), head: by("costs-head"), sort: by("costs-kind") },
      model, types, state, actions);
  }

  function update(now) {
    const { side } = now;
    by("side").hidden = !side;
    by("side").className = `side ${side ?? ""}`;
    by("outline").setAttribute("aria-expanded", Boolean(side));
    for (const [name, tab] of Object.entries(tabs)) {
      tab.setAttribute("aria-selected", name === side);
      tab.tabIndex = name === side ? 0 : -1;
      by(`${name}-part`).hidden = name !== side;
    }
    if (!side) return;
    made[side] ??= part(side);
    made[side].follow(now);
  }

  const show = side => state.set({ side });
  function toggle() {
    show(state.get().side ? null : "tree");
    if (state.get().side) by("tree").focus({ preventScroll: true });
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
  by("side-close").addEventListener("click", () => show(null));
  by("outline").addEventListener("click", toggle);
  by("outline").hidden = !model.openable.length;
  state.watch((now, before) => {
    if (["side", "selected", "type", "theme", "system"].some(name => now[name] !== before[name])) update(now);
  });
  update(state.get());
  return { toggle };
};
