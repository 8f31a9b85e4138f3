// Module tree: the nested modules as rows that can be expanded and collapsed.

"use strict";

const createModuleTree = ({ byId, stage, model, types, names, actions }) => {
  const INDENT = 14, MOST_INDENTED = 140;  // pixels
  const element = byId("tree"), expanded = new Set(model.children[0]);
  const inner = new Map();
  let rows = [], current = -1;  // the row of the selected box
  const list = createVirtualList(element, createRow);

  const isNode = item => types.isCall(item) || model.isFold(item);
  // The indent of a level: a smaller one in deep models, so that names stay visible.
  const deepest = model.all.reduce((most, item) =>
    (isNode(item) ? Math.max(most, model.level[item]) : most), 1);
  const indent = Math.min(INDENT, MOST_INDENTED / deepest);

  function childrenOf(item) {
    if (!inner.has(item)) inner.set(item, model.children[item + 1].filter(isNode));
    return inner.get(item);
  }

  function createRow(index) {
    const item = rows[index], hasChildren = childrenOf(item).length > 0;
    const [name, type] = model.title(item).split(/: (.*)/s);
    const expander = createElement("i", hasChildren
      ? `expander ${expanded.has(item) ? "open" : ""}` : "expander none");
    const dot = createElement("i", "dot");
    dot.style.background = actions.swatch(item);
    const row = createElement("div", "row", null,
      expander, dot, createElement("b", "", name),
      createElement("small", "", names.joined(type, names.number(item))));
    row.id = `tree-${item}`;
    row.title = model.title(item);
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", model.level[item] + 1);
    row.setAttribute("aria-selected", item === current);
    if (hasChildren) row.setAttribute("aria-expanded", expanded.has(item));
    row.style.paddingLeft = `${6 + indent * model.level[item]}px`;
    row.classList.toggle("equal", current >= 0 && types.areEqual(item, current));
    expander.addEventListener("click", event => {
      event.stopPropagation();
      toggle(item);
    });
    row.addEventListener("click", () => actions.goTo(item));
    return row;
  }

  function updateRows() {
    rows = [];
    const waiting = childrenOf(-1).toReversed();  // no recursion: models may nest deeply
    while (waiting.length) {
      const item = waiting.pop();
      rows.push(item);
      if (expanded.has(item)) waiting.push(...childrenOf(item).toReversed());
    }
    list.set(rows.length);
    if (rows.includes(current)) element.setAttribute("aria-activedescendant", `tree-${current}`);
    else element.removeAttribute("aria-activedescendant");
  }

  function toggle(item) {
    if (!expanded.delete(item)) expanded.add(item);
    updateRows();
  }

  // Selects the row of the selected box, or of the module around it. Without a selection, a tree that
  // is `isNew` shows what is open in the middle of the window.
  function update({ selected }, isNew) {
    const path = selected < 0 ? [] : [...model.ancestors(selected), selected].filter(isNode);
    const seen = selected < 0 && isNew ? stage.openInMiddle().filter(isNode) : [];
    current = path.at(-1) ?? -1;
    for (const item of [...path.slice(0, -1), ...seen]) expanded.add(item);
    updateRows();
    const row = rows.indexOf(path.at(-1) ?? seen.at(-1));
    if (row >= 0) list.show(row);
  }

  function step(by) {
    const index = rows.indexOf(current) + by;
    if (index >= 0 && index < rows.length) actions.goTo(rows[index]);
  }

  const KEYS = {
    ArrowDown: () => step(1), ArrowUp: () => step(-1),
    Home: () => actions.goTo(rows[0]), End: () => actions.goTo(rows.at(-1)),
  };
  const KEYS_ON_ROW = {
    ArrowRight: () => (expanded.has(current) ? step(1) : toggle(current)),
    ArrowLeft: () => (expanded.has(current) && childrenOf(current).length
      ? toggle(current) : actions.selectParent()),
    Enter: () => actions.toggle(current), " ": () => actions.toggle(current),
  };
  element.addEventListener("keydown", event => {
    const act = KEYS[event.key] ?? KEYS_ON_ROW[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    event.preventDefault();
    if (current >= 0 || KEYS[event.key]) act();
  });

  return { update };
};
