// Motion: transitions between pictures, and views in which a box keeps its place.

"use strict";

const motion = (() => {
  const ease = share => 1 - (1 - share) ** 3;
  const lerp = (one, other, share) => one + (other - one) * share;
  const frame = (one, other, share) => ({
    x: lerp(one.x, other.x, share), y: lerp(one.y, other.y, share),
    w: lerp(one.w, other.w, share), h: lerp(one.h, other.h, share),
  });

  // `box`, which is in the frame `from`, scaled with it to the frame `to`.
  function scaledWith(box, from, to) {
    const sx = to.w / Math.max(from.w, 1), sy = to.h / Math.max(from.h, 1);
    return {
      x: to.x + (box.x - from.x) * sx, y: to.y + (box.y - from.y) * sy,
      w: box.w * sx, h: box.h * sy,
    };
  }

  // `box` between its own frame and `small`, drawn at its own size with a scale.
  const shrunk = (box, small, share) => ({
    ...box, x: lerp(box.x, small.x, share), y: lerp(box.y, small.y, share),
    sx: lerp(1, small.w / box.w, share), sy: lerp(1, small.h / box.h, share), alpha: 1 - share,
  });

  // The innermost box around `item` that is in both pictures, out of which it grows.
  function origin(item, parent, one, other) {
    let at = parent(item);
    while (at >= 0 && !(one.has(at) && other.has(at))) at = parent(at);
    return at;
  }

  // The boxes of a picture by item; computed once.
  const index = picture => {
    picture.byItem ??= new Map(picture.boxes.map(box => [box.item, box]));
    return picture.byItem;
  };

  // A number for each line that is the same in all pictures.
  const lineKey = line => (line.scope + 1) * 1e10 + line.trunk * 1e5 + line.branch;
  const straight = points => "M" + points.map(([x, y]) =>
    `${Math.round(x * 10) / 10} ${Math.round(y * 10) / 10}`).join("L");

  // The boxes of `picture` that `other` does not have, each with the frame in `other` in which it
  // appears or disappears.
  function missing(picture, other, parent, isVisible) {
    const own = index(picture), others = index(other), result = [];
    for (const box of picture.boxes) {
      if (others.has(box.item) || !isVisible(box)) continue;
      const outer = origin(box.item, parent, own, others);
      const small = outer < 0 ? box : scaledWith(box, own.get(outer), others.get(outer));
      result.push([box, small]);
    }
    return result;
  }

  // A function from 0..1 to the picture between `before` and `after`, with the boxes and lines for
  // which `isVisible` is true.
  function between(before, after, parent, isVisible) {
    const old = index(before);
    const staying = after.boxes.filter(box => old.has(box.item))
      .filter(box => isVisible(box) || isVisible(old.get(box.item)));
    const appearing = missing(after, before, parent, isVisible);
    const disappearing = missing(before, after, parent, isVisible);
    const lines = lineChanges(before, after, isVisible);
    return share => {
      const eased = ease(share);
      const boxes = staying.map(box => {
        const previous = old.get(box.item);
        const open = share < 0.7 ? previous.open || box.open : box.open;
        return { item: box.item, open, ...frame(previous, box, eased) };
      });
      for (const [box, small] of appearing) boxes.push(shrunk(box, small, 1 - eased));
      for (const [box, small] of disappearing) boxes.push(shrunk(box, small, eased));
      return { width: after.width, height: after.height, boxes, lines: lines(eased) };
    };
  }

  // A function from 0..1 to the lines between two pictures.
  function lineChanges(before, after, isVisible) {
    const old = new Map(before.lines.map(line => [lineKey(line), line]));
    const staying = [], appearing = [];
    for (const line of after.lines) {
      const previous = old.get(lineKey(line));
      old.delete(lineKey(line));
      if (!isVisible(line) && !(previous && isVisible(previous))) continue;
      if (previous && previous.points.length === line.points.length) staying.push([previous, line]);
      else appearing.push(line);
    }
    const disappearing = [...old.values()].filter(isVisible);
    return share => [
      ...staying.map(([previous, line]) => betweenLines(previous, line, share)),
      ...appearing.map(line => ({ ...line.toJSON(), alpha: Math.max(0, 2 * share - 1) })),
      ...disappearing.map(line => ({ ...line.toJSON(), alpha: Math.max(0, 1 - 2 * share) })),
    ];
  }

  function betweenLines(previous, line, share) {
    const points = line.points.map(([x, y], number) =>
      [lerp(previous.points[number][0], x, share), lerp(previous.points[number][1], y, share)]);
    const arrowhead = line.arrowhead && [...points.at(-1), ...line.arrowhead.slice(2)];
    return { ...line, points, arrowhead, d: straight(points) };
  }

  // The view that shows the box `after` in the place of `before`: its beginning stays in place,
  // unless the box would not be at the pixel px, py any more.
  function anchored(view, before, after, px, py, horizontal) {
    const [wx, wy] = camera.toWorld(view, px, py);
    const across = (at, begin, size, next, nextSize) =>
      next + Math.min(1, Math.max(0, (at - begin) / Math.max(size, 1))) * nextSize - at;
    const along = (at, begin, size, next, nextSize) => {
      const inside = Math.min(Math.max(at - begin, 0), size);
      return next + Math.min(inside, nextSize < size ? nextSize / 2 : nextSize) - at;
    };
    const [forX, forY] = horizontal ? [along, across] : [across, along];
    return {
      x: view.x + forX(wx, before.x, before.w, after.x, after.w),
      y: view.y + forY(wy, before.y, before.h, after.y, after.h),
      k: view.k,
    };
  }

  return { between, anchored, index, ease };
})();
