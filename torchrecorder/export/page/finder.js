// Finder: the dialog for finding a box.

"use strict";

const createFinder = ({ byId, stage, model, names, actions }) => {
  const [dialog, input, list, status] = ["finder", "query", "hits", "found"].map(byId);
  let entries = null, hits = [], current = 0;

  function option(hit, index) {
    const { item, title } = hit, dot = createElement("i"), place = names.place(item);
    dot.style.background = actions.swatch(item);
    const note = search.reason(model, hit, input.value) || (model.details(item)[0] ?? "");
    const element = createElement("li", "", null, dot, createElement("b", "", title),
      createElement("small", "", note),
      createElement("span", "", null, createElement("bdi", "", place === title ? "" : place)));
    element.id = `hit-${index}`;
    element.setAttribute("role", "option");
    element.addEventListener("pointerdown", event => event.preventDefault());
    element.addEventListener("click", event => goTo(index, event));
    return element;
  }

  function choose(index) {
    if (!hits.length) return;
    current = (index + hits.length) % hits.length;
    [...list.children].forEach((each, at) => each.setAttribute("aria-selected", at === current));
    list.children[current].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `hit-${current}`);
  }

  function update() {
    entries ??= search.index(model);
    const found = search.find(entries, input.value);
    hits = found.hits;
    list.replaceChildren(...hits.map(option));
    input.removeAttribute("aria-activedescendant");
    status.textContent = statusText(found.count);
    choose(0);
  }

  function statusText(count) {
    if (!input.value.trim()) {
      return "Try a name (layers.3), a class (Conv2d), an op (add), a shape (64x56) or a file";
    }
    if (!count) return "No box found";
    if (count > hits.length) return `The best ${hits.length} of ${count}`;
    return count === 1 ? "1 box" : `${count} boxes`;
  }

  // Selects a box, or with Shift shows the paths from the selection to it.
  function goTo(index, { shiftKey }) {
    if (!hits[index]) return;
    dialog.close();
    stage.focus();
    (shiftKey ? actions.showPathsTo : actions.goTo)(hits[index].item);
  }

  function onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) choose(Math.abs(step) === 1 ? current + step
      : Math.max(0, Math.min(hits.length - 1, current + step)));
    else if (event.key === "Enter") goTo(current, event);
    else return;
    event.preventDefault();
  }

  function show() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    update();
  }

  input.addEventListener("input", update);
  input.addEventListener("keydown", onKey);
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return { show };
};
