// Help: how to read the picture, and the keys.

"use strict";

const createHelp = (dialog, model, told) => {
  const SHAPES = [
    ["input", "An input of the run"], ["output", "An output of the run"],
    ["module", "A module; double-click to open it"],
    ["parameter", "A parameter"], ["buffer", "A buffer"], ["constant", "A constant"],
    ["failed", "Where the run failed"],
  ];
  const KEYS = [
    ["double-click, Enter", "expand or collapse a box"],
    ["click", "show what was recorded about it and highlight its lines: inputs blue, outputs orange"],
    ["drag, wheel", "move"], ["Ctrl + wheel, + and −", "zoom"], ["f or 0", "fit the whole graph"],
    ["Tab, Shift + Tab", "next box, previous box"], ["arrows", "the next box in that direction; move if none is selected"],
    ["u", "the module around it"], ["right-click, m", "what can be done with a box"],
    ["h, i", "hide or isolate the box"], ["[ and ], s", "another sibling of ×N; a list of them"],
    ["o", "modules and costs beside the picture"], ["p", "to the panel; Esc returns"], ["1 … 9", "expand that many levels"], ["x", "collapse all"],
    ["/ or Ctrl + K", "find"], ["t", "light or dark"], ["Esc", "clear selection"],
  ];

  const TOUCH = [
    ["tap", "what a click does"], ["double tap", "expand or collapse a box"],
    ["touch and hold", "what can be done with a box"], ["drag, pinch", "move, zoom"],
  ];
  const fingers = window.matchMedia("(any-pointer: coarse)");

  const make = (tag, said, ...inside) => {
    const made = document.createElement(tag);
    if (said) made.textContent = said;
    made.append(...inside);
    return made;
  };

  // A small box with this look.
  function sample(found) {
    const look = found?.[told().palette.theme];
    if (!look) return null;
    const svg = paint.element(document, "svg", { viewBox: "-2 -2 44 24", width: 44, height: 24 });
    svg.append(paint.element(document, "path", {
      d: shapes.outline(look.outline, 40, 20), fill: look.fill, ...paint.stroked(look) }));
    return svg;
  }

  // The look of this recording's boxes of a kind, if any.
  function lookOf(kind) {
    for (let item = 0; item < model.count; item++) {
      if (kind === "failed" ? model.failed(item) : model.kind(item) === kind) return model.look(item);
    }
    return null;
  }

  // Operations by look, with their most frequent names: [look, names].
  function sorts() {
    const byLook = new Map();
    for (let item = 0; item < model.count; item++) {
      if (model.kind(item) !== "op" || model.failed(item)) continue;
      const look = model.look(item), name = model.op(item) || model.title(item);
      if (!byLook.has(look)) byLook.set(look, new Map());
      byLook.get(look).set(name, (byLook.get(look).get(name) ?? 0) + 1);
    }
    const most = counts => [...counts].sort((a, b) => b[1] - a[1]).slice(0, 4).map(each => each[0]);
    return [...byLook].slice(0, 8).map(([look, counts]) => [look, most(counts).join(", ") +
      (counts.size > 4 ? " …" : "")]);
  }

  function rows(pairs) {
    const list = make("dl");
    for (const [one, other] of pairs) {
      list.append(make("dt", typeof one === "string" ? one : "", ...(typeof one === "string" ? [] : [one])),
        make("dd", other));
    }
    return list;
  }

  function content() {
    const close = make("button");
    close.type = "button";
    close.className = "close";
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => dialog.close());
    const title = make("h2", "How to read this");
    title.id = "help-title";
    const known = [...SHAPES.map(([kind, said]) => [lookOf(kind), said]), ...sorts()]
      .map(([look, said]) => [sample(look), said]).filter(([svg]) => svg);
    return [title, close,
      make("p", "Each box is something that ran, in the order in which it ran; each line is a " +
        "tensor on its way from what made it to what read it. A box within a box is a call " +
        "within a call. A double outline with ×N stands for N equal boxes, one after another or " +
        "side by side: it expands to the first, and “1 of N” in its corner leads to the others. A dashed " +
        "line back beside it is a value that a loop passes to its next round. A dot is a hidden box."),
      rows(known), ...(fingers.matches ? [make("h3", "Touch"), rows(TOUCH)] : []),
      make("h3", "Mouse and keys"), rows(KEYS)];
  }

  function show() {
    if (dialog.open) return;
    dialog.replaceChildren(...content());
    dialog.showModal();
  }

  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return { show };
};
