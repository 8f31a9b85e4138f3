// Help: how to read the picture, and its keys.

"use strict";

const createHelp = ({ byId, model, styling }) => {
  const dialog = byId("helping");
  const SHAPES = [
    ["input", "An input of the run"],
    ["output", "An output of the run"],
    ["module", "A module; double-click to expand it"],
    ["parameter", "A parameter"],
    ["buffer", "A buffer"],
    ["constant", "A constant"],
    ["failed", "Where the run failed"],
  ];
  const KEYS = [
    ["double-click, Enter", "expand or collapse a box"],
    ["click", "show all facts about a box or line; inputs become blue, outputs orange"],
    ["Shift + click", "show all paths of data between the selected box and this one"],
    ["drag, wheel", "move the picture"],
    ["Ctrl + wheel, + and −", "zoom"],
    ["f or 0", "fit the picture to the window"],
    ["Tab, Shift + Tab", "select the next or previous box"],
    ["arrows", "select the next box in that direction; move the picture if none is selected"],
    ["u", "select the enclosing module"],
    ["right-click, m", "menu of the box"],
    ["h, i", "hide or isolate the box"],
    ["[ and ], s", "show another sibling of ×N; list all of them"],
    ["o", "tree of modules and table of costs"],
    ["p", "go to the panel; Esc returns"],
    ["1 … 9", "expand that many levels"],
    ["x", "collapse all"],
    ["/ or Ctrl + K", "find a box"],
    ["t", "light or dark theme"],
    ["Esc", "clear the selection and the paths"],
  ];
  const TOUCH = [
    ["tap", "like a click"],
    ["double tap", "expand or collapse a box"],
    ["touch and hold", "menu of the box"],
    ["drag, pinch", "move, zoom"],
  ];
  const INTRODUCTION = "Each box is a module or an operation, in the order in which they ran; " +
    "each line is a tensor, from what produced it to what reads it. A box in a box is a call in " +
    "a call. A double outline with ×N stands for N equal boxes, one after another or side by " +
    "side: it expands to the first one, and “1 of N” in its corner lists the others. A dashed " +
    "line beside it is a value that a loop passes to its next iteration. A dot is a hidden box.";
  const touch = window.matchMedia("(any-pointer: coarse)");

  // A small box with this look, if there is one.
  function sample(looks) {
    const look = looks?.[styling.current().palette.theme];
    return look ? paint.swatch(look, 40, 20, 2) : null;
  }

  // The look of the boxes of a kind in this recording, if there are any.
  function lookOf(kind) {
    const item = model.all.find(each =>
      (kind === "failed" ? model.failed(each) : model.kind(each) === kind));
    return item === undefined ? null : model.look(item);
  }

  // The looks of operations with their most frequent names: [look, names] each.
  function operationLooks() {
    const ops = model.all.filter(item => model.kind(item) === "op" && !model.failed(item));
    const nameOf = item => model.op(item) || model.title(item);
    const namesOf = items => {
      const names = [...Map.groupBy(items, nameOf)].sort((a, b) => b[1].length - a[1].length)
        .map(([name]) => name);
      return names.slice(0, 4).join(", ") + (names.length > 4 ? " …" : "");
    };
    return [...Map.groupBy(ops, item => model.look(item))].slice(0, 8)
      .map(([look, items]) => [look, namesOf(items)]);
  }

  // Terms, texts or elements, with their descriptions.
  const listOf = pairs => createElement("dl", "", null, ...pairs.flatMap(([term, text]) =>
    [createElement("dt", "", null, term), createElement("dd", "", text)]));

  function content() {
    const close = createButton("close", null, () => dialog.close());
    close.setAttribute("aria-label", "Close");
    const title = createElement("h2", "", "How to read this");
    title.id = "help-title";
    const looks = [...SHAPES.map(([kind, text]) => [lookOf(kind), text]), ...operationLooks()]
      .map(([look, text]) => [sample(look), text]).filter(([svg]) => svg);
    return [title, close,
      createElement("p", "", INTRODUCTION),
      listOf(looks), ...(touch.matches ? [createElement("h3", "", "Touch"), listOf(TOUCH)] : []),
      createElement("h3", "", "Mouse and keys"), listOf(KEYS)];
  }

  function show() {
    if (dialog.open) return;
    dialog.replaceChildren(...content());
    dialog.showModal();
  }

  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return { show };
};
