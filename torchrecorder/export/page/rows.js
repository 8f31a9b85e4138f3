// Rows: a long list of which only the rows in sight are in the document.

"use strict";

const createRows = (element, draw) => {
  const HIGH = 26, MORE = 8;
  const space = document.createElement("div"), made = new Map();
  let count = 0;
  space.className = "rows";
  element.append(space);

  function update() {
    const first = Math.max(0, Math.floor(element.scrollTop / HIGH) - MORE);
    const last = Math.min(count, Math.ceil((element.scrollTop + element.clientHeight) / HIGH) + MORE);
    for (const [at, row] of made) {
      if (at >= first && at < last) continue;
      row.remove();
      made.delete(at);
    }
    for (let at = first; at < last; at++) {
      if (made.has(at)) continue;
      const row = draw(at);
      row.style.top = `${at * HIGH}px`;
      made.set(at, row);
      space.append(row);
    }
  }

  // Draws all rows in sight again; there are `next` of them.
  function set(next) {
    count = next;
    space.style.height = `${count * HIGH}px`;
    for (const row of made.values()) row.remove();
    made.clear();
    update();
  }

  // Scrolls as little as needed, below what covers the first `covered` pixels.
  function show(at, covered = 0) {
    const top = at * HIGH, { scrollTop, clientHeight } = element;
    if (top < scrollTop) element.scrollTop = Math.max(0, top - HIGH);
    else if (top + HIGH > scrollTop + clientHeight - covered) {
      element.scrollTop = top + 2 * HIGH - clientHeight + covered;
    }
    update();
  }

  element.addEventListener("scroll", update);
  new ResizeObserver(update).observe(element);
  return { set, show };
};
