// Key navigation: the box to which a key moves the selection.

"use strict";

const keyNavigation = (() => {
  const HEADER = 20;

  // The area that stands for a box: of an open one its header, because its contents are boxes too.
  const areaOf = box => (box.open ? { ...box, h: Math.min(box.h, HEADER) } : box);

  // The box `step` after `item` in the order of the run; null past the end.
  function next(boxes, item, step) {
    const order = boxes.map(box => box.item).sort((a, b) => a - b);
    if (!order.length) return null;
    if (item < 0) return step > 0 ? order[0] : order.at(-1);
    const at = order.indexOf(item);
    return order[at + step] ?? null;
  }

  // The nearest box from `item` toward dx, dy (one of them 0); null if there is none.
  function toward(boxes, item, dx, dy) {
    const start = boxes.find(box => box.item === item);
    if (!start) return null;
    const from = areaOf(start);
    let best = null, least = Infinity;
    for (const box of boxes) {
      if (box.item === item) continue;
      const cost = costOf(from, areaOf(box), dx, dy);
      if (cost < least) [best, least] = [box.item, cost];
    }
    return best;
  }

  const middle = box => [box.x + box.w / 2, box.y + box.h / 2];

  // The distance from `from` to `to` in a direction, with a penalty for offsets to the side.
  function costOf(from, to, dx, dy) {
    const [ax, ay] = middle(from), [bx, by] = middle(to);
    const along = dx ? (bx - ax) * dx : (by - ay) * dy;
    if (along <= 1) return Infinity;
    const gap = dx ? Math.max(to.y - from.y - from.h, from.y - to.y - to.h, 0)
      : Math.max(to.x - from.x - from.w, from.x - to.x - to.w, 0);
    const aside = dx ? Math.abs(by - ay) : Math.abs(bx - ax);
    return along + 4 * gap + 0.2 * aside;
  }

  return { next, toward };
})();
