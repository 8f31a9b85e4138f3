// Menu: a button that opens a short list of things to do.

"use strict";

const menu = (() => {
  let open = null;

  function close(back = false) {
    if (!open) return;
    const { list, button, leave } = open;
    open = null;
    list.remove();
    button?.setAttribute("aria-expanded", "false");
    if (back) leave();
  }

  function entry({ text, note, chosen, act, title }) {
    if (title) {
      const made = document.createElement("div");
      made.className = "menu-title";
      made.textContent = title;
      return made;
    }
    const made = document.createElement("button");
    made.type = "button";
    made.setAttribute("role", chosen === undefined ? "menuitem" : "menuitemradio");
    if (chosen !== undefined) made.setAttribute("aria-checked", chosen);
    const said = document.createElement("span");
    said.textContent = text;
    made.append(said);
    if (note) {
      const more = document.createElement("kbd");
      more.textContent = note;
      made.append(more);
    }
    made.addEventListener("click", () => {
      close(true);
      act();
    });
    return made;
  }

  function keys(event, list) {
    const all = [...list.querySelectorAll("button")], at = all.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) all[(at + step + all.length) % all.length].focus();
    else if (event.key === "Home") all[0].focus();
    else if (event.key === "End") all[all.length - 1].focus();
    else if (event.key === "Escape") close(true);
    else if (event.key === "Tab") return close();
    else return undefined;
    event.preventDefault();
    event.stopPropagation();
    return undefined;
  }

  function listOf(label, entries) {
    const list = document.createElement("div");
    list.className = "menu";
    list.setAttribute("role", "menu");
    list.setAttribute("aria-label", label);
    list.append(...entries.map(entry));
    list.addEventListener("keydown", event => keys(event, list));
    document.body.append(list);
    return list;
  }

  const start = list =>
    (list.querySelector("[aria-checked=true]") ?? list.querySelector("button"))?.focus();

  function show(button, entries) {
    const list = listOf(button.textContent.trim(), entries);
    const at = button.getBoundingClientRect();
    list.style.top = `${at.bottom + 6}px`;
    list.style.right = `${Math.max(8, window.innerWidth - at.right)}px`;
    button.setAttribute("aria-expanded", "true");
    open = { list, button, leave: () => button.focus() };
    start(list);
  }

  // With its corner at x, y in pixels of the window, moved to be in it; `leave` takes the focus.
  function at([x, y], label, entries, leave) {
    close();
    const list = listOf(label, entries), { width, height } = list.getBoundingClientRect();
    list.style.left = `${Math.max(8, Math.min(x, window.innerWidth - width - 8))}px`;
    list.style.top = `${Math.max(8, Math.min(y, window.innerHeight - height - 8))}px`;
    open = { list, button: null, leave };
    start(list);
  }

  // `entries()` is asked each time: [{text, act, note?, chosen?}, {title}].
  function attach(button, entries) {
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const own = open?.button === button;
      close();
      if (!own) show(button, entries());
    });
  }

  document.addEventListener("pointerdown", event => {
    if (open && !open.list.contains(event.target) && !open.button?.contains(event.target)) close();
  }, true);

  return { attach, at, close };
})();
