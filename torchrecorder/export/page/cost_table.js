// Cost table: the numbers of all modules, operations or types, sorted by any of them.

"use strict";

const createCostTable = ({ byId, model, types, names, state, actions }) => {
  const [table, head, kinds] = ["costs", "costs-head", "costs-kind"].map(byId);
  const KINDS = { Modules: types.isCall, Operations: types.isLeaf, Types: null };
  const DIGIT = 8, PADDING = 16;  // pixels
  const columns = numbers.ranked(model.data.annotations, state.get().color)
    .filter(each => each.format !== "text");
  const sums = new Map(), widths = new Map(columns.map(each => [each, widthOf(each)]));
  let kind = "Modules", sortedBy = columns[0] ?? null, isDescending = true;
  let rows = null;
  const list = createVirtualList(table, createRow);

  // The width of a column, so that its largest number is not cut.
  function widthOf({ values, format }) {
    const most = values.reduce((one, other) => Math.max(one, other ?? 0), 0);
    return `${DIGIT * numbers.format(most, format).length + PADDING}px`;
  }

  // Rows are items, or the names of types.
  const isType = row => typeof row === "string";
  const nameOf = row => (isType(row) ? row : names.ownPath(row) || model.title(row));
  // Long paths are cut at the beginning, because their ends are what differs.
  const cutInFront = (tag, text) => createElement(tag, "", null, createElement("bdi", "", text));

  // What the name does not say: the type of a module, where another item is, and which of equals.
  function noteOf(row) {
    if (!names.ownPath(row)) return cutInFront("em", names.module(row));
    return createElement("small", "", names.joined(model.typeOf(row), names.numbers(row)));
  }

  // The number of a row; of a type the sum, or null if numbers do not add up.
  function valueOf(annotation, row) {
    if (!isType(row)) return annotation.values[row];
    const key = `${annotation.key} ${row}`;
    if (!sums.has(key)) sums.set(key, annotation.sum ? sumOf(annotation, row) : null);
    return sums.get(key);
  }

  // Boxes in a box of the same type are part of its number; weights count once for all calls.
  function sumOf(annotation, type) {
    const known = annotation.classes.find(([cls]) => model.text(cls) === type);
    if (known) return known[1];
    let sum = null, end = 0;
    for (const item of types.itemsByType().get(type)) {
      if (item < end || annotation.values[item] === null) continue;
      sum += annotation.values[item];
      end = model.end[item];
    }
    return sum;
  }

  function rowsOfKind() {
    if (kind === "Types") return [...types.itemsByType().keys()];
    return model.all.filter(KINDS[kind]);
  }

  // Rows without a number come last in both orders; equal rows stay in the order of the run.
  function sorted(unsorted) {
    const sign = isDescending ? -1 : 1;
    if (!sortedBy) {
      return unsorted.sort((one, other) => -sign * nameOf(one).localeCompare(nameOf(other)));
    }
    const values = new Map(unsorted.map(row => [row, valueOf(sortedBy, row)]));
    return unsorted.sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      if (a === null || b === null) return Number(a === null) - Number(b === null);
      return sign * (a - b);
    });
  }

  function cell(annotation, row) {
    const value = valueOf(annotation, row);
    const share = isType(row) ? null : model.shareOf(annotation, row);
    const element = createElement("span", "number", isType(row)
      ? numbers.format(value, annotation.format) : numbers.textOf(annotation, row, model));
    element.setAttribute("role", "cell");
    element.style.minWidth = widths.get(annotation);
    if (share !== null) element.title = `${numbers.percent(share)} of the total`;
    return element;
  }

  function createRow(index) {
    const row = rows[index], { selected, type } = state.get();
    const name = createElement("b", "name", null, cutInFront("span", nameOf(row)));
    name.setAttribute("role", "rowheader");
    if (isType(row)) {
      name.append(createElement("small", "", `×${types.itemsByType().get(row).length}`));
    } else {
      name.title = [model.title(row), names.place(row)].filter(Boolean).join("\n");
      name.append(noteOf(row));
    }
    const cells = columns.map(annotation => cell(annotation, row));
    const element = createElement("div", "row", null, name, ...cells);
    element.id = isType(row) ? "" : `cost-${row}`;
    element.setAttribute("role", "row");
    element.setAttribute("aria-rowindex", index + 2);
    element.setAttribute("aria-selected", row === (isType(row) ? type : selected));
    element.classList.toggle("equal",
      !isType(row) && selected >= 0 && types.areEqual(row, selected));
    element.addEventListener("click", () => choose(row));
    return element;
  }

  const choose = row => (isType(row) ? actions.highlightType(row) : actions.goTo(row));

  function columnHeader(annotation) {
    const isSorted = annotation === sortedBy;
    const button = createButton(annotation ? "number" : "name", annotation?.title ?? "Name", () => {
      isDescending = isSorted ? !isDescending : true;
      sortedBy = annotation;
      updateRows();
    });
    button.setAttribute("role", "columnheader");
    if (annotation) button.style.minWidth = widths.get(annotation);
    const direction = (annotation ? isDescending : !isDescending) ? "descending" : "ascending";
    button.setAttribute("aria-sort", isSorted ? direction : "none");
    return button;
  }

  function updateRows() {
    rows = sorted(rowsOfKind());
    replaceFocused(head, columnHeader(null), ...columns.map(columnHeader));
    table.setAttribute("aria-rowcount", rows.length + 1);
    list.set(rows.length);
  }

  function update({ selected }) {
    if (!rows) updateRows();
    list.set(rows.length);
    const index = rows.indexOf(selected);
    if (index >= 0) list.show(index, 40);
  }

  function step(by) {
    const { selected, type } = state.get();
    const row = rows[rows.indexOf(kind === "Types" ? type : selected) + by];
    if (row !== undefined) choose(row);
  }

  table.addEventListener("keydown", event => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!by || !rows) return;
    event.preventDefault();
    step(by);
  });
  kinds.append(...Object.keys(KINDS).map(name => new Option(name, name)));
  kinds.addEventListener("change", () => {
    kind = kinds.value;
    updateRows();
  });
  return { update };
};
