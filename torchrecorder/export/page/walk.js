// Walk: the next box for keyboard navigation.

"use strict";

const walk = (() => {
  const STRIP = 20;

  // An open box is where its title is; what is in it are boxes of their own.
  const spot = box => (box.open ? { ...box, h: Math.min(box.h, STRIP) } : box);

  // The box after (or before) `item` in the order of the run; null past the end.
  function next(boxes, item, step) {
    const order = boxes.map(box => box.item).sort((a, b) => a - b);
    if (!order.length) return null;
    if (item < 0) return step > 0 ? order[0] : order[order.length - 1];
    const at = order.indexOf(item);
    return order[at + step] ?? null;
  }

  // The nearest box from `item` toward dx, dy (one of them 0); null if there is none.
  function toward(boxes, item, dx, dy) {
    const start = boxes.find(box => box.item === item);
    if (!start) return null;
    const from = spot(start);
    let best = null, least = Infinity;
    for (const box of boxes) {
      if (box.item === item) continue;
      const cost = far(from, spot(box), dx, dy);
      if (cost < least) [best, least] = [box.item, cost];
    }
    return best;
  }

  const middle = box => [box.x + box.w / 2, box.y + box.h / 2];

  // How far `to` is that way; sideways steps cost more, overlapping ones nothing.
  function far(from, to, dx, dy) {
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
