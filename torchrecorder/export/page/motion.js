// Motion: transitions between pictures, and the view that keeps a box in place.

"use strict";

const motion = (() => {
  const ease = share => 1 - (1 - share) ** 3;
  const lerp = (one, other, share) => one + (other - one) * share;
  const frame = (one, other, share) => ({
    x: lerp(one.x, other.x, share), y: lerp(one.y, other.y, share),
    w: lerp(one.w, other.w, share), h: lerp(one.h, other.h, share),
  });

  // Where `box`, which lies in the frame `from`, would be if that frame were `into`.
  function carried(box, from, into) {
    const sx = into.w / Math.max(from.w, 1), sy = into.h / Math.max(from.h, 1);
    return {
      x: into.x + (box.x - from.x) * sx, y: into.y + (box.y - from.y) * sy,
      w: box.w * sx, h: box.h * sy,
    };
  }

  // `box` on its way to being `small`, drawn at its own size and scaled.
  const scaled = (box, small, share) => ({
    ...box, x: lerp(box.x, small.x, share), y: lerp(box.y, small.y, share),
    sx: lerp(1, small.w / box.w, share), sy: lerp(1, small.h / box.h, share), alpha: 1 - share,
  });

  // The nearest box around `item` that is in both pictures: where it grows out of.
  function origin(item, parent, one, other) {
    let at = parent(item);
    while (at >= 0 && !(one.has(at) && other.has(at))) at = parent(at);
    return at;
  }

  const index = picture => {
    picture.byItem ??= new Map(picture.boxes.map(box => [box.item, box]));
    return picture.byItem;
  };

  // One number for each line, the same in every picture.
  const lineKey = line => (line.scope + 1) * 1e10 + line.trunk * 1e5 + line.branch;
  const straight = points => "M" + points.map(([x, y]) =>
    `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`).join("L");

  // Boxes of `there` that `here` has not, each beside its place in `here`.
  function lone(there, here, parent, shown) {
    const own = index(there), other = index(here), found = [];
    for (const box of there.boxes) {
      if (other.has(box.item) || !shown(box)) continue;
      const around = origin(box.item, parent, own, other);
      const small = around < 0 ? box : carried(box, own.get(around), other.get(around));
      found.push([box, small]);
    }
    return found;
  }

  // A function of 0..1 that gives the picture between `before` and `after`. `shown` says
  // whether a box or line is worth drawing.
  function between(before, after, parent, shown) {
    const old = index(before);
    const staying = after.boxes.filter(box => old.has(box.item))
      .filter(box => shown(box) || shown(old.get(box.item)));
    const coming = lone(after, before, parent, shown);
    const going = lone(before, after, parent, shown);
    const lines = lineChanges(before, after, shown);
    return share => {
      const eased = ease(share);
      const boxes = staying.map(box => {
        const was = old.get(box.item);
        const open = share < 0.7 ? was.open || box.open : box.open;
        return { item: box.item, open, ...frame(was, box, eased) };
      });
      for (const [box, small] of coming) boxes.push(scaled(box, small, 1 - eased));
      for (const [box, small] of going) boxes.push(scaled(box, small, eased));
      return { width: after.width, height: after.height, boxes, lines: lines(eased) };
    };
  }

  function lineChanges(before, after, shown) {
    const old = new Map(before.lines.map(line => [lineKey(line), line]));
    const staying = [], coming = [];
    for (const line of after.lines) {
      const was = old.get(lineKey(line));
      old.delete(lineKey(line));
      if (!shown(line) && !(was && shown(was))) continue;
      if (was && was.points.length === line.points.length) staying.push([was, line]);
      else coming.push(line);
    }
    const going = [...old.values()].filter(shown);
    return share => [
      ...staying.map(([was, line]) => betweenLines(was, line, share)),
      ...coming.map(line => ({ ...line.toJSON(), alpha: Math.max(0, 2 * share - 1) })),
      ...going.map(line => ({ ...line.toJSON(), alpha: Math.max(0, 1 - 2 * share) })),
    ];
  }

  function betweenLines(was, line, share) {
    const points = line.points.map(([x, y], number) =>
      [lerp(was.points[number][0], x, share), lerp(was.points[number][1], y, share)]);
    const end = points[points.length - 1];
    const tip = line.tip && [end[0], end[1], line.tip[2], line.tip[3]];
    return { ...line, points, tip, d: straight(points) };
  }

  // The view of the picture after that shows the box `after` where `before` was under the
  // pixel px, py: its beginning stays, or the pixel would not be on it any more.
  function anchored(view, before, after, px, py, turned) {
    const [wx, wy] = camera.toWorld(view, px, py);
    const across = (at, begin, size, next, nextSize) =>
      next + Math.min(1, Math.max(0, (at - begin) / Math.max(size, 1))) * nextSize - at;
    const along = (at, begin, size, next, nextSize) => {
      const inside = Math.min(Math.max(at - begin, 0), size);
      return next + Math.min(inside, nextSize < size ? nextSize / 2 : nextSize) - at;
    };
    const [forX, forY] = turned ? [along, across] : [across, along];
    return {
      x: view.x + forX(wx, before.x, before.w, after.x, after.w),
      y: view.y + forY(wy, before.y, before.h, after.y, after.h),
      k: view.k,
    };
  }

  return { between, anchored, index, ease, carried, lineKey };
})();
