// Tree: the modules in each other, as rows that open and close.

"use strict";

const createTree = (element, model, types, state, actions) => {
  const INDENT = 14;
  const open = new Set(model.children[0]);
  const inner = new Map();
  let rows = [], chosen = -1;
  const list = createRows(element, draw);

  const isNode = item => types.isCall(item) || model.isFold(item);
  function childrenOf(item) {
    if (!inner.has(item)) inner.set(item, model.children[item + 1].filter(isNode));
    return inner.get(item);
  }

  function draw(at) {
    const item = rows[at], row = make("div", "row"), more = childrenOf(item).length > 0;
    const twist = make("i", more ? `twist ${open.has(item) ? "open" : ""}` : "twist none");
    const [name, type] = model.title(item).split(/: (.*)/s), dot = make("i", "dot");
    dot.style.background = actions.swatch(item);
    row.id = `tree-${item}`;
    row.setAttribute("role", "treeitem");
    row.setAttribute("aria-level", model.level[item] + 1);
    row.setAttribute("aria-selected", item === chosen);
    if (more) row.setAttribute("aria-expanded", open.has(item));
    row.style.paddingLeft = `${6 + INDENT * model.level[item]}px`;
    row.classList.toggle("equal", isEqual(item));
    row.append(twist, dot, make("b", "", name), make("small", "", type ?? ""));
    row.title = model.title(item);
    twist.addEventListener("click", event => {
      event.stopPropagation();
      toggle(item);
    });
    row.addEventListener("click", () => actions.go(item));
    return row;
  }

  const isEqual = item => chosen >= 0 && item !== chosen && !model.isFold(item) &&
    !model.isFold(chosen) && types.areEqual(item, chosen);

  // The rows, without recursion: models may nest deeply.
  function update() {
    rows = [];
    const waiting = childrenOf(-1).slice().reverse();
    while (waiting.length) {
      const item = waiting.pop();
      rows.push(item);
      if (open.has(item)) waiting.push(...childrenOf(item).slice().reverse());
    }
    list.set(rows.length);
    if (rows.includes(chosen)) element.setAttribute("aria-activedescendant", `tree-${chosen}`);
    else element.removeAttribute("aria-activedescendant");
  }

  function toggle(item, wanted = !open.has(item)) {
    if (wanted) open.add(item);
    else open.delete(item);
    update();
  }

  // Selects the row of the selected box, or of the module around it.
  function follow({ selected }) {
    const around = selected < 0 ? [] : [...model.ancestors(selected), selected].filter(isNode);
    chosen = around.length ? around[around.length - 1] : -1;
    for (const item of around.slice(0, -1)) open.add(item);
    update();
    if (chosen >= 0) list.show(rows.indexOf(chosen));
  }

  function step(by) {
    const at = rows.indexOf(chosen) + by;
    if (at >= 0 && at < rows.length) actions.go(rows[at]);
  }

  const KEYS = {
    ArrowDown: () => step(1), ArrowUp: () => step(-1),
    Home: () => actions.go(rows[0]), End: () => actions.go(rows[rows.length - 1]),
    ArrowRight: () => (open.has(chosen) ? step(1) : toggle(chosen, true)),
    ArrowLeft: () => (open.has(chosen) && childrenOf(chosen).length ? toggle(chosen, false) : actions.up()),
    Enter: () => actions.toggle(chosen), " ": () => actions.toggle(chosen),
  };
  element.addEventListener("keydown", event => {
    if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey || !rows.length) return;
    event.preventDefault();
    if (chosen >= 0 || !["ArrowLeft", "ArrowRight", "Enter", " "].includes(event.key)) KEYS[event.key]();
  });

  return { follow };
};
