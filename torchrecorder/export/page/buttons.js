// Buttons: the toolbar and the zoom buttons.

"use strict";

const attachButtons = (by, model, types, state, stage, looks, actions) => {
  const { data } = model;

  function levels() {
    const deepest = opening.deepest(model), found = [];
    for (let level = 1; level <= Math.min(deepest, 9); level++) {
      found.push({ text: level === 1 ? "1 level" : `${level} levels`, note: String(level),
        act: () => actions.toLevel(level) });
    }
    const folds = opening.folds(model).length ? [
      { text: "Expand all ×N", act: actions.unfold }, { text: "Collapse all ×N", act: actions.fold },
    ] : [];
    return [{ text: "Reset", act: actions.reset },
      { text: "Collapse all", note: "x", act: actions.closeAll }, ...found,
      { text: "Expand all", act: actions.everything }, ...folds];
  }

  const DIRECTIONS = { TB: "Top to bottom", LR: "Left to right", BT: "Bottom to top", RL: "Right to left" };
  const directions = () => Object.entries(DIRECTIONS).map(([direction, text]) => ({
    text, chosen: direction === state.get().direction, act: () => actions.direct(direction) }));

  // What is left out or highlighted, as buttons that end it.
  function said({ hidden, root, type }) {
    const left = [...(root >= 0 ? [`Isolated: ${model.title(root)}`] : []),
      ...(hidden.size ? [`${hidden.size} hidden`] : [])].join(", ");
    const alike = type === null ? "" : `${type} ×${types.all().get(type)?.length ?? 0}`;
    for (const [id, text, end] of [["left-out", left, "Show all"], ["type", alike, "Clear"]]) {
      by(id).hidden = !text;
      by(id).title = text;
      by(id).replaceChildren(make("span", "", text), ` · ${end}`);
    }
  }

  function colours() {
    const { colour: now } = state.get();
    return [
      { text: "Kind", chosen: now === null, act: () => actions.colour(null) },
      ...data.annotations.filter(each => each.format !== "text").map(each => ({
        text: each.title, chosen: now === each.key, act: () => actions.colour(each.key) })),
    ];
  }

  function pictureOf(area) {
    const { palette, relation } = looks.told();
    return saving.svgOf(model, palette, stage.picture(), area, relation);
  }

  const seen = () => saving.trimmed(camera.area(stage.view(), stage.free()), stage.picture());
  const all = () => saving.whole(stage.picture());

  function saveSvg(area) {
    const blob = new Blob([saving.text(pictureOf(area))], { type: "image/svg+xml" });
    saving.download(blob, saving.fileName(data.name, "svg"));
  }

  async function savePng(area) {
    try {
      saving.download(await saving.pngOf(pictureOf(area), area), saving.fileName(data.name, "png"));
    } catch (error) {
      by("live").textContent = `The PNG could not be made: ${error.message}. SVG has no limit of size.`;
      by("live").classList.add("shown");
      setTimeout(() => by("live").classList.remove("shown"), 6000);
    }
  }

  const saves = () => [
    { title: "What is in the window" },
    { text: "SVG", act: () => saveSvg(seen()) }, { text: "PNG", act: () => savePng(seen()) },
    { title: "All that is open" },
    { text: "SVG", act: () => saveSvg(all()) }, { text: "PNG", act: () => savePng(all()) },
  ];

  // Where the run ended, if it failed: the innermost box that did.
  function failure() {
    let found = -1;
    for (let item = 0; item < model.count; item++) {
      if (model.failed(item) && (found < 0 || model.within(item, found))) found = item;
    }
    by("failure").hidden = found < 0;
    if (found < 0) return;
    by("failure").textContent = `Failed in ${model.title(found)}`;
    by("failure").title = "Go to where the run failed";
    by("failure").addEventListener("click", () => actions.go(found));
  }

  failure();
  said(state.get());
  state.watch(said);
  by("left-out").addEventListener("click", actions.showAll);
  by("type").addEventListener("click", actions.allTypes);
  menu.attach(by("direction"), directions);
  menu.attach(by("levels"), levels);
  menu.attach(by("colours"), colours);
  menu.attach(by("save"), saves);
  by("colours").hidden = !data.annotations.some(each => each.format !== "text");
  by("levels").hidden = !model.openable.length;
  by("find").addEventListener("click", () => actions.find());
  by("help").addEventListener("click", () => actions.help());
  by("theme").addEventListener("click", actions.theme);
  by("zoom-in").addEventListener("click", () => stage.zoom(1.25));
  by("zoom-out").addEventListener("click", () => stage.zoom(0.8));
  by("zoom-fit").addEventListener("click", () => stage.fit());
};
