// Costs: the numbers of all modules, operations or types as a table that can be sorted.

"use strict";

const createCosts = ({ table, head, sort: sorts }, model, types, state, actions) => {
  const KINDS = { Modules: types.isCall, Operations: types.isLeaf, Types: null };
  const FIRST = [state.get().colour, "time", "flops", "parameters"];
  const seat = ({ key }) => (FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length);
  const columns = model.data.annotations.filter(each => each.format !== "text")
    .sort((one, other) => seat(one) - seat(other));
  const totals = new Map();
  let kind = "Modules", by = columns[0] ?? null, down = true, rows = null, chosen = -1;
  const list = createRows(table, draw);

  // Rows are items, or names of types.
  const nameOf = row => (typeof row === "string" ? row : ownPath(row) || model.title(row));
  // Its path, unless that is the path of the module around it.
  const ownPath = item => model.text(model.data.items.path[item]) !== pathAround(item) &&
    model.text(model.data.items.path[item]);
  const pathAround = item => (model.parent(item) < 0 ? "" : model.path(model.parent(item)));

  // The number of a row; of a type the sum, of numbers that add up.
  function valueOf(annotation, row) {
    if (typeof row !== "string") return annotation.values[row];
    const key = `${annotation.key} ${row}`;
    if (!totals.has(key)) totals.set(key, annotation.sum ? sumOf(annotation, row) : null);
    return totals.get(key);
  }

  // A box in another of the same type counts once.
  function sumOf(annotation, type) {
    let sum = null, end = 0;
    for (const item of types.all().get(type)) {
      if (item < end || annotation.values[item] === null) continue;
      sum += annotation.values[item];
      end = model.end[item];
    }
    return sum;
  }

  function found() {
    if (kind === "Types") return [...types.all().keys()];
    const wanted = KINDS[kind], items = [];
    for (let item = 0; item < model.count; item++) if (wanted(item)) items.push(item);
    return items;
  }

  // Rows without a number come last, whichever way the others are sorted.
  function sorted(list) {
    const values = new Map(list.map(row => [row, by ? valueOf(by, row) : null]));
    const far = value => (value === null || Number.isNaN(value) ? null : value);
    const order = new Map(list.map((row, at) => [row, at]));
    return list.sort((one, other) => {
      if (!by) return (down ? 1 : -1) * nameOf(one).localeCompare(nameOf(other));
      const [a, b] = [far(values.get(one)), far(values.get(other))];
      if (a === b) return order.get(one) - order.get(other);
      if (a === null || b === null) return a === null ? 1 : -1;
      return down ? b - a : a - b;
    });
  }

  function cell(annotation, row) {
    const made = make("span", "number"), value = valueOf(annotation, row);
    made.setAttribute("role", "cell");
    made.textContent = typeof row === "string" ? numbers.said(value, annotation.format)
      : numbers.of(annotation, row, model);
    const share = typeof row === "string" ? null : model.shareOf(annotation, row);
    if (share !== null) made.title = `${numbers.percent(share)} of the whole`;
    return made;
  }

  function draw(at) {
    const row = rows[at], made = make("div", "row");
    // Cut in front if it is long: the ends of paths differ.
    const name = make("b", "name", null, make("span", "", null, make("bdi", "", nameOf(row))));
    const isType = typeof row === "string";
    name.setAttribute("role", "rowheader");
    made.setAttribute("role", "row");
    made.setAttribute("aria-rowindex", at + 2);
    const { selected, type } = state.get();
    made.setAttribute("aria-selected", isType ? row === type : row === selected);
    made.classList.toggle("equal", !isType && chosen >= 0 && row !== selected &&
      !model.isFold(chosen) && types.areEqual(row, chosen));
    made.id = isType ? "" : `cost-${row}`;
    if (isType) name.append(make("small", "", `×${types.all().get(row).length}`));
    else {
      name.title = [model.title(row), model.path(row)].filter(Boolean).join("\n");
      if (ownPath(row)) name.append(make("small", "", types.of(row)));
    }
    made.append(name, ...columns.map(each => cell(each, row)));
    made.addEventListener("click", () => (isType ? actions.ofType(row) : actions.go(row)));
    return made;
  }

  function header(annotation) {
    const made = make("button", annotation ? "number" : "name", annotation?.title ?? "Name");
    made.type = "button";
    made.setAttribute("role", "columnheader");
    const isSorted = (annotation ?? null) === by;
    made.setAttribute("aria-sort", isSorted ? (by ? down : !down) ? "descending" : "ascending" : "none");
    made.addEventListener("click", () => {
      down = isSorted ? !down : true;
      by = annotation ?? null;
      update();
    });
    return made;
  }

  function update() {
    rows = sorted(found());
    head.replaceChildren(header(null), ...columns.map(header));
    table.setAttribute("aria-rowcount", rows.length + 1);
    list.set(rows.length);
  }

  function follow({ selected }) {
    if (!rows) update();
    chosen = selected;
    list.set(rows.length);
    const at = rows.indexOf(selected);
    if (at >= 0) list.show(at, 40);
  }

  function step(by) {
    const { selected, type } = state.get();
    const at = rows.indexOf(kind === "Types" ? type : selected) + by;
    if (at < 0 || at >= rows.length) return;
    if (kind === "Types") actions.ofType(rows[at]);
    else actions.go(rows[at]);
  }

  table.addEventListener("keydown", event => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !rows) return;
    event.preventDefault();
    step(by);
  });
  for (const name of Object.keys(KINDS)) sorts.append(new Option(name, name));
  sorts.addEventListener("change", () => {
    kind = sorts.value;
    update();
  });
  return { follow };
};
