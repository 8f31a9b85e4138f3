// Panel: all facts about the selected box or tensor: what it is, then its neighbors and numbers.

"use strict";

const createPanel = ({ byId, stage, model, types, names, state, actions }) => {
  const DELAY = 320, MANY_LINKS = 12, MANY_FACTS = 16, MANY_NUMBERS = 6;
  const ENDS = { failed: "Failed", running: "Still running" };
  const element = byId("panel");
  // The sizes of the panel from the style, because measuring would lay out the whole page.
  const styles = getComputedStyle(document.documentElement);
  const [panelWidth, sheetShare] = ["--panel", "--sheet"].map(name =>
    parseFloat(styles.getPropertyValue(name)));
  const isNarrow = window.matchMedia("(max-width: 560px)");
  let timer = 0, isAbout = false, isAllNumbers = false;

  // Text with possible line breaks after the separators in long names.
  const breakable = (tag, className, text) => createElement(tag, className, null,
    ...text.split(/(?<=[._/:,(=])/).flatMap(part => [part, createElement("wbr")]));

  const section = (title, ...children) =>
    createElement("section", "part", null, createElement("h3", "", title), ...children);

  // What `create` makes of each in a list; of a long one the first, and a button for the rest.
  function shortened(all, create, most, onMore) {
    if (all.length <= most + 1) return all.flatMap(create);
    const more = createButton("more", `${all.length - most} more`, () => {
      const rest = all.flatMap(create).slice(more.parentElement.children.length - 1);
      more.replaceWith(...rest);
      (rest.find(each => each.matches("button")) ?? element.querySelector("h2")).focus();
      onMore?.();
    });
    return [...all.slice(0, most).flatMap(create), more];
  }

  // Rows of titles and texts; a title of several rows is shown once.
  function factTable(rows) {
    const cells = ([title, text], index) => [
      ...(title === rows[index - 1]?.[0] ? [] : [breakable("dt", "", title)]),
      breakable("dd", "", text)];
    return createElement("dl", "facts", null, ...shortened(rows, cells, MANY_FACTS));
  }

  function header(kind, title, subtitle = []) {
    const close = createButton("close", "", actions.clearSelection);
    close.setAttribute("aria-label", "Close");
    return createElement("header", "panel-head", null, createElement("div", "kind", kind),
      breakable("h2", "", title), ...subtitle, close);
  }

  // The path of an item; of a fold, it is no path of the model that could be copied.
  function pathOf(item) {
    const path = model.path(item);
    if (!path) return [];
    const line = breakable("p", "path", path);
    if (!model.isFold(item)) line.append(copyButton(path, "Copy the path"));
    return [line];
  }

  function copyButton(text, label) {
    const button = createButton("copy", "Copy", () => actions.copy(text, button));
    button.setAttribute("aria-label", label);
    return button;
  }

  // A link to a box with the tensor between, or with the number of tensors.
  function neighborLink({ item, tensors, slot, former }) {
    const text = (tensors.length > 1 ? `${tensors.length} tensors` : model.tensorText(tensors[0]))
      + (former ? ", removed" : "");
    const dot = createElement("i", "dot"), place = item >= 0 && names.place(item, state.get().selected);
    if (item >= 0) dot.style.background = actions.swatch(item);
    const link = createButton("link", "", () => actions.goTo(item), dot,
      createElement("b", "", item >= 0 ? model.title(item) : "outside"),
      createElement("small", "", [slot, text].filter(Boolean).join("  ")),
      ...(place ? [createElement("span", "", place)] : []));
    link.disabled = item < 0;
    return link;
  }

  function neighborSection(title, list) {
    if (!list.length) return [];
    return [section(title, linkList(list, neighborLink))];
  }

  const linkList = (list, create) =>
    createElement("div", "links", null, ...shortened(list, create, MANY_LINKS));

  // The notes on an item, such as its changes in a comparison, and links to the outermost items in it
  // that have notes.
  function noteSection(item) {
    const own = model.notes(item), inner = [];
    for (let each = item + 1; each < model.end[item]; each++) {
      if (model.notes(each).length && !model.within(each, inner.at(-1) ?? item + model.count)) {
        inner.push(each);
      }
    }
    if (!own.length && !inner.length) return [];
    return [section("Notes", ...own.map(text => breakable("p", "note", text)),
      linkList(inner, noteLink))];
  }

  function noteLink(item) {
    const place = names.place(item, state.get().selected), dot = createElement("i", "dot");
    dot.style.background = actions.swatch(item);
    return createButton("link", "", () => actions.goTo(item), dot,
      createElement("b", "", model.title(item)),
      createElement("small", "", model.notes(item).join("\n")),
      ...(place ? [createElement("span", "", place)] : []));
  }

  // The numbers of an item, with its share of the total if they add up.
  function numberRow(annotation, item) {
    const text = numbers.textOf(annotation, item, model), share = model.shareOf(annotation, item);
    const row = createButton("amount", "", () => actions.colorBy(annotation.key),
      createElement("span", "", annotation.title), createElement("b", "", text));
    row.setAttribute("aria-label", `Color by ${annotation.title}`);
    if (share !== null) {
      const bar = createElement("i", "bar");
      bar.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
      row.append(bar);
      row.title = `${numbers.percent(share)} of the total`;
    }
    return row;
  }

  function numberSection(item) {
    const { color } = state.get(), all = numbers.ranked(model.data.annotations)
      .filter(annotation => numbers.textOf(annotation, item, model));
    if (!all.length) return [];
    isAllNumbers ||= all.findIndex(({ key }) => key === color) >= MANY_NUMBERS;
    return [section("Numbers", createElement("div", "amounts", null,
      ...shortened(all, annotation => numberRow(annotation, item),
        isAllNumbers ? all.length : MANY_NUMBERS, () => { isAllNumbers = true; })))];
  }

  function sourceSection(item) {
    const text = model.source(item);
    if (!text) return [];
    const line = createElement("div", "source", null, breakable("code", "", text),
      copyButton(text, "Copy the source line"));
    return [section("Source", line)];
  }

  // A list of the siblings of a fold, to choose the one that is shown.
  function siblingSection(fold) {
    const all = model.children[fold + 1];
    const [shown, ...more] = model.shownChildren(fold, state.get().siblings);
    const list = createElement("select", "siblings", null,
      new Option(`All ${all.length}`, ALL_SIBLINGS),
      ...all.map(item => new Option(names.sibling(item), item)));
    list.setAttribute("aria-label", "Sibling that is shown");
    list.value = more.length ? ALL_SIBLINGS : shown;
    list.addEventListener("change", () => {
      actions.showSibling(fold, Number(list.value));
      element.querySelector(".siblings")?.focus();
    });
    return section("Shown", list);
  }

  // A link to all boxes of the same type, with the number of equal ones.
  function typeSection(item) {
    const type = model.typeOf(item), own = types.itemsByType().get(type);
    if (!own?.includes(item) || own.length < 2) return [];
    const equal = types.equalTo(item).length - 1;
    const text = `${equal} of them ${equal === 1 ? "equals" : "equal"} this one`;
    const link = createButton("link plain", "", () => actions.highlightType(type),
      createElement("b", "", `Show all ${type} ×${own.length}`),
      ...(equal ? [createElement("small", "", text)] : []));
    return [section("Same type", createElement("div", "links", null, link))];
  }

  function actionButtons(item) {
    const { open, root } = state.get();
    const others = [
      [open.has(item) ? "Collapse" : "Expand", actions.toggle],
      ["Isolate", actions.isolate], ["Hide", actions.hide],
    ];
    return createElement("div", "actions", null,
      ...[...(item === root ? [] : others), ["Zoom to it", actions.zoomTo]].map(([text, act]) =>
        createButton("action", text, () => act(item))));
  }

  const factSection = rows => (rows.length ? [section("Recorded", factTable(rows))] : []);

  function ofItem(item) {
    const now = state.get(), isFold = model.isFold(item), facts = model.factsOf(item);
    const kind = isFold ? `fold ×${model.folded(item)}` : model.kind(item);
    return [
      header(kind, model.title(item), pathOf(item)),
      ...(model.canOpen(item) ? [actionButtons(item)] : []),
      ...(isFold ? [siblingSection(item)] : []),
      ...facts.filter(([title]) => title in ENDS)
        .map(([title, text]) => section(ENDS[title], breakable("p", "error", text))),
      ...noteSection(item),
      ...factSection(facts.filter(([title]) => !(title in ENDS || title === "note"))),
      ...sourceSection(item),
      ...neighborSection("Reads", relations.merged(model, now, model.inputs(item))),
      ...neighborSection("Read by", relations.merged(model, now, model.outputs(item), true)),
      ...numberSection(item), ...typeSection(item),
    ];
  }

  function ofTensor(tensor) {
    const { producer, consumers } = model.data.tensors, now = state.get();
    const from = [{ item: producer[tensor], tensor, slot: "" }];
    const to = consumers[tensor].map((item, index) =>
      ({ item, tensor, slot: model.slot(tensor, index), former: model.isFormer(tensor, index) }));
    return [
      header("tensor", model.tensorText(tensor) || "tensor"),
      ...neighborSection("Made by", relations.merged(model, now, from)),
      ...neighborSection("Read by", relations.merged(model, now, to, true, producer[tensor])),
      ...factSection(model.tensorFacts(tensor)),
    ];
  }

  function ofRun() {
    const rows = model.data.about.map(row => row.map(model.text));
    return [header("recording", model.data.name || "model"), section("Recorded", factTable(rows))];
  }

  function content() {
    const { selected, tensor } = state.get();
    if (selected >= 0) return ofItem(selected);
    if (tensor >= 0) return ofTensor(tensor);
    return isAbout ? ofRun() : null;
  }

  function update() {
    const parts = content(), hasFocus = element.contains(document.activeElement);
    const wasHidden = element.hidden;
    element.hidden = !parts;
    document.body.classList.toggle("with-panel", Boolean(parts));
    element.replaceChildren(...(parts ?? []));
    if (!wasHidden) element.scrollTop = 0;
    stage.cover({ right: parts && !isNarrow.matches ? panelWidth : 0,
      bottom: parts && isNarrow.matches ? sheetShare * stage.size().height / 100 : 0 });
    if (hasFocus) (parts ? focus : stage.focus)();
  }

  // Moves the focus to the title, from where Tab goes on to the links.
  function focus() {
    if (element.hidden) return;
    const title = element.querySelector("h2");
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }

  function showAbout(value) {
    isAbout = value;
    update();
  }

  element.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    stage.focus();
  });

  // Delayed after a click, because the panel would catch the second click of a double-click.
  function updateSoon({ by, at }) {
    clearTimeout(timer);
    const place = at && camera.toWorld(stage.view(), ...at);
    if (element.hidden && by === "pointer") timer = setTimeout(() => appear(place), DELAY);
    else update();
  }

  // Shows the panel, and moves what was clicked out from below it: a box, or the `place` on a line.
  function appear(place) {
    update();
    if (element.hidden) return;
    const { selected } = state.get(), box = stage.frame(selected);
    if (selected < 0 && place) stage.reveal(place);
    if (!box) return;
    const { width, height } = stage.freeSize(), view = stage.view();
    const [right, bottom] = camera.toScreen(view,
      box.x + Math.min(box.w, 200), box.y + Math.min(box.h, 60));
    if (right > width || bottom > height) stage.show(box.item);
  }

  // Before the stage moves, so that it knows how much of it is covered.
  state.onChangeFirst((now, before, details) => {
    isAbout = isAbout && now.selected < 0 && now.tensor < 0;
    if (now.selected !== before.selected || now.tensor !== before.tensor) {
      updateSoon(details);
    } else if (layoutInputs.changed(now, before) && !element.hidden) {
      const top = element.scrollTop;
      update();
      element.scrollTop = top;
    }
  });

  update();
  return {
    focus, isOpen: () => !element.hidden,
    showAbout: () => showAbout(true), hide: () => showAbout(false),
  };
};
