// Breadcrumbs: the path to the selected box, or to the part of the picture in the window.

"use strict";

const createBreadcrumbs = ({ byId, stage, model, names, state, actions }) => {
  const DELAY = 80;  // milliseconds
  // Pixels around a text, the width of the button for those left out, and that of bold letters.
  const PADDING = 20, REST = 32, BOLD = 1.2;
  const element = byId("breadcrumbs"), pen = document.createElement("canvas").getContext("2d");
  let shown = null, timer = 0, space = Infinity;
  pen.font = getComputedStyle(element).font;

  // The selected box and all around it; otherwise, once the picture was moved, the open boxes in the
  // middle of the window, down to the last one whose title is out of sight.
  function path() {
    const { selected } = state.get();
    if (selected >= 0) return [...model.ancestors(selected), selected];
    const items = stage.isInitial() ? [] : stage.openInMiddle();
    return items.slice(0, items.findLastIndex(isTitleHidden) + 1);
  }

  const isTitleHidden = item => camera.toScreen(stage.view(), stage.frame(item).x,
    stage.frame(item).y).some(at => at < 0);

  function button({ text, act }, isLast) {
    const element = createButton("", text, act);
    element.title = text;
    if (isLast) element.setAttribute("aria-current", "location");
    return element;
  }

  // A button for those that are left out.
  function buttonOfRest(crumbs) {
    const element = button({ text: "…", act: () => {} }, false);
    element.className = "rest";
    element.title = crumbs.map(each => each.text).join(" › ");
    menu.attach(element, () => crumbs);
    return element;
  }

  // The name of the model, and the items of the path without its root if it has the same name.
  function crumbsOf(items) {
    const name = model.data.name || "model";
    const rest = items.filter(item => model.parent(item) >= 0 || names.short(item) !== name);
    return [{ text: name, act: actions.showAbout },
      ...rest.map(item => ({ text: names.short(item), act: () => actions.goTo(item) }))];
  }

  // The range of crumbs that are left out so that the last one can be read: as few as possible after
  // the first, and that too if there is no space for both.
  function rangeLeftOut(crumbs) {
    const widths = crumbs.map(({ text }, index) =>
      pen.measureText(text).width * (index ? 1 : BOLD) + PADDING);
    const last = crumbs.length - 1;
    let width = widths.reduce((sum, each) => sum + each), end = 1;
    if (width <= space) return [0, 0];
    for (width += REST; width > space && end < last; end++) width -= widths[end];
    return width > space ? [0, last] : [1, end];
  }

  function update() {
    const items = path(), crumbs = crumbsOf(items), [begin, end] = rangeLeftOut(crumbs);
    const key = [begin, end, ...items].join();
    if (key === shown) return;
    shown = key;
    const buttons = crumbs.map((crumb, index) => button(crumb, index === crumbs.length - 1));
    if (begin < end) buttons.splice(begin, end - begin, buttonOfRest(crumbs.slice(begin, end)));
    replaceFocused(element, ...buttons);
  }

  // Not updated while the picture moves.
  stage.onDraw(() => {
    clearTimeout(timer);
    timer = setTimeout(update, DELAY);
  });
  state.onChange(update);
  new ResizeObserver(([{ contentRect }]) => {
    space = contentRect.width;
    update();
  }).observe(element);
};
