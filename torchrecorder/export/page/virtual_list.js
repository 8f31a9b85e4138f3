// Virtual list: a long list of which only the visible rows are in the document.

"use strict";

const createVirtualList = (element, createRow) => {
  const HEIGHT = 26, MARGIN = 8;  // of a row in pixels; around the window in rows
  const space = createElement("div", "rows"), drawn = new Map();
  let count = 0;
  element.append(space);

  function update() {
    const first = Math.max(0, Math.floor(element.scrollTop / HEIGHT) - MARGIN);
    const bottom = element.scrollTop + element.clientHeight;
    const end = Math.min(count, Math.ceil(bottom / HEIGHT) + MARGIN);
    for (const [index, row] of drawn) {
      if (index >= first && index < end) continue;
      row.remove();
      drawn.delete(index);
    }
    for (let index = first; index < end; index++) {
      if (drawn.has(index)) continue;
      const row = createRow(index);
      row.style.top = `${index * HEIGHT}px`;
      drawn.set(index, row);
      space.append(row);
    }
  }

  // Draws all visible rows again; there are `next` rows now.
  function set(next) {
    count = next;
    space.style.height = `${count * HEIGHT}px`;
    for (const row of drawn.values()) row.remove();
    drawn.clear();
    update();
  }

  // Scrolls as little as possible to a row, below a header of `covered` pixels.
  function show(index, covered = 0) {
    const top = index * HEIGHT, { scrollTop, clientHeight } = element;
    if (top < scrollTop) element.scrollTop = Math.max(0, top - HEIGHT);
    else if (top + HEIGHT > scrollTop + clientHeight - covered) {
      element.scrollTop = top + 2 * HEIGHT - clientHeight + covered;
    }
    update();
  }

  element.addEventListener("scroll", update);
  new ResizeObserver(update).observe(element);
  return { set, show };
};
