// Finder: the dialog for finding a box.

"use strict";

const createFinder = (dialog, { input, list, status }, stage, model, actions) => {
  let entries = null, hits = [], chosen = 0;

  function option({ item, title, path }, number) {
    const made = document.createElement("li");
    made.id = `hit-${number}`;
    made.setAttribute("role", "option");
    const dot = document.createElement("i");
    dot.style.background = actions.swatch(item);
    const name = document.createElement("b"), where = document.createElement("span");
    const more = document.createElement("small"), way = document.createElement("bdi");
    name.textContent = title;
    way.textContent = path === title ? "" : path;
    where.append(way);
    more.textContent = model.details(item)[0] ?? "";
    made.append(dot, name, more, where);
    made.addEventListener("pointerdown", event => event.preventDefault());
    made.addEventListener("click", () => go(number));
    return made;
  }

  function choose(number) {
    if (!hits.length) return;
    chosen = (number + hits.length) % hits.length;
    [...list.children].forEach((each, at) => each.setAttribute("aria-selected", at === chosen));
    list.children[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `hit-${chosen}`);
  }

  function update() {
    entries ??= search.index(model);
    const found = search.find(entries, input.value);
    hits = found.hits;
    list.replaceChildren(...hits.map(option));
    input.removeAttribute("aria-activedescendant");
    status.textContent = said(found);
    choose(0);
  }

  function said({ count }) {
    if (!input.value.trim()) return "Try a name (layers.3), a class (Conv2d), an op (add) or a shape (64x56)";
    if (!count) return "Nothing is called that";
    if (count > hits.length) return `The first ${hits.length} of ${count}`;
    return count === 1 ? "1 box" : `${count} boxes`;
  }

  function go(number) {
    const hit = hits[number];
    if (!hit) return;
    dialog.close();
    stage.focus();
    actions.go(hit.item);
  }

  function keys(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) choose(Math.abs(step) === 1 ? chosen + step
      : Math.max(0, Math.min(hits.length - 1, chosen + step)));
    else if (event.key === "Enter") go(chosen);
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
  input.addEventListener("keydown", keys);
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return { show };
};
