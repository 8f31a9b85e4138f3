// Menu: a list of actions, at a button or at a pixel.

"use strict";

const menu = (() => {
  let open = null;  // the list that is shown, its button, and where the focus goes after it

  function close(withFocus = false) {
    if (!open) return;
    const { list, button, restoreFocus } = open;
    open = null;
    list.remove();
    button?.setAttribute("aria-expanded", "false");
    if (withFocus) restoreFocus();
  }

  function elementOf({ text, note, chosen, act, title }) {
    if (title) return createElement("div", "menu-title", title);
    const button = createButton("", null, () => {
      close(true);
      act();
    }, createElement("span", "", text), ...(note ? [createElement("kbd", "", note)] : []));
    button.setAttribute("role", chosen === undefined ? "menuitem" : "menuitemradio");
    if (chosen !== undefined) button.setAttribute("aria-checked", chosen);
    return button;
  }

  function onKey(event, list) {
    const all = [...list.querySelectorAll("button")], at = all.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) all[(at + step + all.length) % all.length].focus();
    else if (event.key === "Home") all[0].focus();
    else if (event.key === "End") all.at(-1).focus();
    else if (event.key === "Escape") close(true);
    else if (event.key === "Tab") return close();
    else return undefined;
    event.preventDefault();
    event.stopPropagation();
    return undefined;
  }

  function createList(label, entries) {
    const list = createElement("div", "menu", null, ...entries.map(elementOf));
    list.setAttribute("role", "menu");
    list.setAttribute("aria-label", label);
    list.addEventListener("keydown", event => onKey(event, list));
    document.body.append(list);
    return list;
  }

  const focusFirst = list =>
    (list.querySelector("[aria-checked=true]") ?? list.querySelector("button"))?.focus();

  function showBelow(button, entries) {
    const list = createList(button.textContent.trim(), entries);
    const { bottom, right } = button.getBoundingClientRect();
    const most = window.innerWidth - list.getBoundingClientRect().width - 8;
    list.style.top = `${bottom + 6}px`;
    list.style.right = `${Math.max(8, Math.min(window.innerWidth - right, most))}px`;
    button.setAttribute("aria-expanded", "true");
    open = { list, button, restoreFocus: () => button.focus() };
    focusFirst(list);
  }

  // Shows a menu with its corner at a pixel of the window, moved to be in the window.
  function showAt([x, y], label, entries, restoreFocus) {
    close();
    const list = createList(label, entries), { width, height } = list.getBoundingClientRect();
    list.style.left = `${Math.max(8, Math.min(x, window.innerWidth - width - 8))}px`;
    list.style.top = `${Math.max(8, Math.min(y, window.innerHeight - height - 8))}px`;
    open = { list, button: null, restoreFocus };
    focusFirst(list);
  }

  // Makes a button open a menu. `entries` returns it each time: {text, act, note?, chosen?} or
  // {title} each.
  function attach(button, entries) {
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const isOwn = open?.button === button;
      close();
      if (!isOwn) showBelow(button, entries());
    });
  }

  document.addEventListener("pointerdown", event => {
    if (open && !open.list.contains(event.target) && !open.button?.contains(event.target)) close();
  }, true);

  // The state for which the menu was shown is left.
  window.addEventListener("popstate", () => close(true));

  return { attach, showAt };
})();
