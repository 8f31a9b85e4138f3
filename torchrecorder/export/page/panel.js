// Panel: all facts about the selected box, with links to its neighbours.

"use strict";

const createPanel = (element, stage, model, types, state, actions) => {
  const LATER = 320, MANY = 12;
  // The sizes from the style, because measuring would cause a layout of the whole page.
  const styles = getComputedStyle(document.documentElement);
  const [width, share] = ["--panel", "--sheet"].map(name => parseFloat(styles.getPropertyValue(name)));
  const below = window.matchMedia("(max-width: 560px)");
  let timer = 0, about = false;

  // Text that may be broken after the joints of a long name.
  function jointed(tag, name, said) {
    const made = make(tag, name);
    for (const piece of said.split(/(?<=[._/:,(=])/)) made.append(piece, make("wbr"));
    return made;
  }

  function button(name, said, label, act) {
    const made = make("button", name, said);
    made.type = "button";
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  }

  const section = (title, ...inside) =>
    make("section", "part", null, make("h3", "", title), ...inside);

  // Rows of a table; a title shared by several rows is shown once.
  function table(rows) {
    const list = make("dl", "facts", null);
    let last = null;
    for (const [title, said] of rows) {
      if (title !== last) list.append(jointed("dt", "", title));
      list.append(jointed("dd", "", said));
      last = title;
    }
    return list;
  }

  function head(kind, title, sub) {
    return make("header", "panel-head", null,
      make("div", "kind", kind), jointed("h2", "", title), ...(sub ? [jointed("p", "path", sub)] : []),
      button("close", "", "Close", actions.nothing));
  }

  // A link to a box and the tensor on the way, or the number of them.
  function neighbour({ item, values, slot }) {
    const said = values.length > 1 ? `${values.length} tensors` : model.tensorText(values[0]);
    const made = button("link", "", null, () => (item >= 0 ? actions.go(item) : null));
    const dot = make("i", "dot");
    if (item >= 0) dot.style.background = actions.swatch(item);
    made.append(dot, make("b", "", item >= 0 ? model.title(item) : "outside"),
      make("small", "", [slot, said].filter(Boolean).join("  ")),
      ...(item >= 0 && model.path(item) ? [make("span", "", model.path(item))] : []));
    made.disabled = item < 0;
    return made;
  }

  function neighbours(title, list) {
    if (!list.length) return [];
    const first = list.slice(0, MANY).map(neighbour), rest = list.slice(MANY);
    const inside = make("div", "links", null, ...first);
    if (rest.length) {
      const more = button("more", `${rest.length} more`, null, () =>
        more.replaceWith(...rest.map(neighbour)));
      inside.append(more);
    }
    return [section(title, inside)];
  }

  // The numbers of an item, with its share of the total if they add up.
  function amounts(item) {
    const rows = [];
    for (const annotation of model.data.annotations) {
      const said = numbers.of(annotation, item, model);
      if (!said) continue;
      const row = button("amount", "", `Colour by ${annotation.title}`,
        () => actions.colour(annotation.key));
      row.append(make("span", "", annotation.title), make("b", "", said));
      const share = model.shareOf(annotation, item);
      if (share !== null) {
        const bar = make("i", "bar");
        bar.style.setProperty("--share", `${(100 * share).toFixed(1)}%`);
        row.append(bar);
        row.title = `${numbers.percent(share)} of the whole`;
      }
      rows.push(row);
    }
    return rows.length ? [section("Numbers", ...rows)] : [];
  }

  function source(item) {
    const said = model.source(item);
    if (!said) return [];
    const copy = button("copy", "Copy", "Copy the source line", () => actions.copy(said, copy));
    return [section("Source", make("div", "source", null, jointed("code", "", said), copy))];
  }

  // A list of the siblings of a fold, of which one is shown.
  function siblings(fold) {
    const list = make("select", "siblings"), all = model.children[fold + 1];
    const [shown, ...more] = model.inside(fold, state.get().siblings);
    list.setAttribute("aria-label", "Sibling that is shown");
    list.append(new Option(`All ${all.length}`, ALL), ...all.map(each => new Option(model.title(each), each)));
    list.value = more.length ? ALL : shown;
    list.addEventListener("change", () => actions.sibling(fold, Number(list.value)));
    return section("Shown", list);
  }

  // What is of the same type, and what is equal.
  function alike(item) {
    const type = types.of(item), own = types.all().get(type);
    if (!own?.includes(item) || own.length < 2) return [];
    const equal = types.equal(item).length - 1;
    const made = button("link plain", "", null, () => actions.ofType(type));
    made.append(make("b", "", `Show all ${type} ×${own.length}`),
      ...(equal ? [make("small", "", `${equal} of them ${equal === 1 ? "equals" : "equal"} this one`)] : []));
    return [section("Same type", make("div", "links", null, made))];
  }

  function ofItem(item) {
    const open = state.get().open.has(item), path = model.path(item);
    const parts = [head(model.isFold(item) ? `fold ×${model.folded(item)}` : model.kind(item),
      model.title(item), path)];
    if (model.canOpen(item)) {
      parts.push(make("div", "doing", null,
        button("do", open ? "Collapse" : "Expand", null, () => actions.toggle(item)),
        button("do", "Isolate", null, () => actions.isolate(item)),
        button("do", "Hide", null, () => actions.hide(item)),
        button("do", "Zoom to it", null, () => actions.frame(item))));
    }
    if (model.isFold(item)) parts.push(siblings(item));
    const now = state.get(), failed = [], rows = [];
    for (const row of model.factsOf(item)) (row[0] === "failed" ? failed : rows).push(row);
    for (const [, said] of failed) parts.push(section("Failed", jointed("p", "error", said)));
    parts.push(...amounts(item), ...neighbours("Reads", relations.asSeen(model, now, model.inputs(item))),
      ...neighbours("Read by", relations.asSeen(model, now, model.outputs(item), true)));
    if (rows.length) parts.push(section("Recorded", table(rows)));
    parts.push(...alike(item), ...source(item));
    return parts;
  }

  function ofValue(value) {
    const { producer, consumers } = model.data.tensors;
    const rows = model.tensorFacts(value), now = state.get();
    const to = consumers[value].map((item, number) =>
      ({ item, value, slot: model.slot(value, number) }));
    return [
      head("tensor", model.tensorText(value) || "tensor", ""),
      ...neighbours("Made by", relations.asSeen(model, now, [{ item: producer[value], value, slot: "" }])),
      ...neighbours("Read by", relations.asSeen(model, now, to, true)),
      ...(rows.length ? [section("Recorded", table(rows))] : []),
    ];
  }

  function ofRun() {
    const rows = (model.data.about ?? []).map(row => row.map(model.text));
    return [head("recording", model.data.name || "model", ""), section("Recorded", table(rows))];
  }

  function content() {
    const { selected, value } = state.get();
    if (selected >= 0) return ofItem(selected);
    if (value >= 0) return ofValue(value);
    return about ? ofRun() : null;
  }

  function update() {
    const parts = content(), inside = element.contains(document.activeElement);
    const fresh = element.hidden;
    element.hidden = !parts;
    document.body.classList.toggle("with-panel", Boolean(parts));
    element.replaceChildren(...(parts ?? []));
    if (!fresh) element.scrollTop = 0;
    stage.cover({ right: parts && !below.matches ? width : 0,
      bottom: parts && below.matches ? share * stage.room().height / 100 : 0 });
    if (inside) (parts ? focus : stage.focus)();
  }

  // To its title, from where Tab goes on to its links.
  function focus() {
    if (element.hidden) return;
    const title = element.querySelector("h2");
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
  }

  element.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    stage.focus();
  });

  // Delayed, because the panel would catch the second click of a double-click.
  function soon(byPointer) {
    clearTimeout(timer);
    if (element.hidden && byPointer) timer = setTimeout(appear, LATER);
    else update();
  }

  // Once it is there, what was clicked must not be under it.
  function appear() {
    update();
    const box = stage.frame(state.get().selected);
    if (!box || element.hidden) return;
    const { width, height } = stage.free(), view = stage.view();
    const [right, bottom] = camera.toScreen(view, box.x + Math.min(box.w, 200), box.y + Math.min(box.h, 60));
    if (right > width || bottom > height) stage.show(box.item);
  }

  // Before the stage moves, so that it knows which part of it will be covered.
  state.watchFirst((now, before, how) => {
    about = about && now.selected < 0 && now.value < 0;
    if (now.selected !== before.selected || now.value !== before.value) soon(how.by === "pointer");
    else if (arrangement.changed(now, before) && !element.hidden) {
      const at = element.scrollTop;
      update();
      element.scrollTop = at;
    }
  });

  return {
    update,
    about: () => {
      about = true;
      update();
    },
    hide: () => {
      about = false;
      update();
    },
    isOpen: () => !element.hidden, focus,
  };
};
