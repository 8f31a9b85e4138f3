// Toolbar: the buttons above the picture, and the zoom buttons.

"use strict";

const attachToolbar = ({ byId, model, types, paths, state, stage, styling, actions }) => {
  const { data } = model;
  const DIRECTIONS = {
    TB: "Top to bottom", LR: "Left to right", BT: "Bottom to top", RL: "Right to left",
  };

  function levelEntries() {
    const count = Math.min(openItems.deepest(model), 9);
    const levels = Array.from({ length: count }, (_, index) => ({
      text: index ? `${index + 1} levels` : "1 level", note: String(index + 1),
      act: () => actions.expandLevels(index + 1) }));
    const folds = openItems.folds(model).length ? [
      { text: "Expand all ×N", act: actions.expandFolds },
      { text: "Collapse all ×N", act: actions.collapseFolds },
    ] : [];
    return [{ text: "Reset", act: actions.reset },
      { text: "Collapse all", note: "x", act: actions.collapseAll }, ...levels,
      { text: "Expand all", act: actions.expandAll }, ...folds];
  }

  const directionEntries = () => Object.entries(DIRECTIONS).map(([direction, text]) => ({
    text, chosen: direction === state.get().direction,
    act: () => actions.setDirection(direction) }));

  const numeric = data.annotations.filter(annotation => annotation.format !== "text");
  function colorEntries() {
    const entry = (text, key) =>
      ({ text, chosen: state.get().color === key, act: () => actions.colorBy(key) });
    return [entry("Kind", null), ...numeric.map(({ title, key }) => entry(title, key))];
  }

  // Buttons that name what is left out or highlighted, and end it.
  function updateChips(now) {
    const { hidden, root, type } = now;
    const leftOut = [...(root >= 0 ? [`Isolated: ${model.title(root)}`] : []),
      ...(hidden.size ? [`${hidden.size} hidden`] : [])].join(", ");
    const ofType = type === null ? "" : `${type} ×${types.itemsByType().get(type)?.length ?? 0}`;
    for (const [id, text, end] of [["left-out", leftOut, "Show all"], ["type", ofType, "Clear"],
      ["paths", paths.text(now), "Clear"]]) {
      byId(id).hidden = !text;
      byId(id).title = text;
      byId(id).replaceChildren(createElement("span", "", text), ` · ${end}`);
    }
  }

  const svgOf = area => saving.withLegend(model, styling.current(), stage.picture(), area);

  function saveSvg(area) {
    const blob = new Blob([saving.svgText(svgOf(area))], { type: "image/svg+xml" });
    saving.download(blob, saving.fileName(data.name, "svg"));
  }

  async function savePng(area) {
    try {
      saving.download(await saving.pngOf(svgOf(area)), saving.fileName(data.name, "png"));
    } catch (error) {
      byId("live").textContent =
        `The PNG could not be made: ${error.message}. SVG has no limit of size.`;
      byId("live").classList.add("shown");
      setTimeout(() => byId("live").classList.remove("shown"), 6000);
    }
  }

  const windowArea = () =>
    saving.croppedTo(camera.visibleArea(stage.view(), stage.freeSize()), stage.picture());
  const wholeArea = () => saving.wholeArea(stage.picture());
  const saveEntries = () => [
    { title: "Visible part" },
    { text: "SVG", act: () => saveSvg(windowArea()) },
    { text: "PNG", act: () => savePng(windowArea()) },
    { title: "Whole picture" },
    { text: "SVG", act: () => saveSvg(wholeArea()) },
    { text: "PNG", act: () => savePng(wholeArea()) },
  ];

  // The button to the innermost box in which the run ended, or else in which an error was caught.
  function attachFailure() {
    const innermost = items =>
      items.reduce((outer, item) => (model.within(item, outer) ? item : outer), -1);
    const ended = innermost(model.all.filter(model.endedIn));
    const failed = ended < 0 ? innermost(model.all.filter(model.failed)) : ended;
    byId("failure").hidden = failed < 0;
    if (failed < 0) return;
    const running = model.running(failed), title = model.title(failed);
    byId("failure").textContent = running ? `Still running: ${title}` : `Failed in ${title}`;
    byId("failure").title = ended < 0 ? "Go to an error that the program caught" :
      `Go to where the run ${running ? "waits" : "failed"}`;
    byId("failure").addEventListener("click", () => actions.goTo(failed));
  }

  attachFailure();
  updateChips(state.get());
  state.onChange(updateChips);
  menu.attach(byId("direction"), directionEntries);
  menu.attach(byId("levels"), levelEntries);
  menu.attach(byId("colors"), colorEntries);
  menu.attach(byId("save"), saveEntries);
  byId("colors").hidden = !numeric.length;
  byId("levels").hidden = !model.openable.length;
  const CLICKS = {
    "left-out": actions.showAll, type: actions.clearType, paths: actions.clearPaths,
    find: actions.openFinder, help: actions.openHelp, theme: actions.toggleTheme,
    "zoom-fit": stage.fit, "zoom-in": () => stage.zoom(1.25), "zoom-out": () => stage.zoom(0.8),
  };
  for (const [id, act] of Object.entries(CLICKS)) {
    byId(id).addEventListener("click", () => {
      act();
      if (byId(id).hidden) stage.focus();
    });
  }
};
