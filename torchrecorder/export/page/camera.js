// Camera: which part of the picture is seen, {x, y, k}: corner in points, pixels per point.

"use strict";

const camera = (() => {
  const NEAREST = 6, MARGIN = 28, THREAD = 110;

  const toWorld = (view, px, py) => [view.x + px / view.k, view.y + py / view.k];
  const toScreen = (view, x, y) => [(x - view.x) * view.k, (y - view.y) * view.k];

  const moved = (view, dx, dy) => ({ ...view, x: view.x - dx / view.k, y: view.y - dy / view.k });

  // Zoomed by `factor`; what is under the pixel px, py stays there.
  function zoomed(view, px, py, factor, least = 0.005) {
    const k = Math.min(NEAREST, Math.max(least, view.k * factor));
    const [x, y] = toWorld(view, px, py);
    return { x: x - px / k, y: y - py / k, k };
  }

  // All of `area` ({x, y, w, h}) in the middle of `room` ({width, height} in pixels).
  function fitted(area, room, most = 1.6) {
    const wide = Math.max(room.width - 2 * MARGIN, 40), high = Math.max(room.height - 2 * MARGIN, 40);
    const k = Math.min(most, wide / Math.max(area.w, 1), high / Math.max(area.h, 1));
    return centred(area.x + area.w / 2, area.y + area.h / 2, k, room);
  }

  const centred = (x, y, k, room) => ({ x: x - room.width / k / 2, y: y - room.height / k / 2, k });

  // All of it, or the beginning if it would be too thin.
  function overview(area, room, direction) {
    const all = fitted(area, room), across = Math.min(area.w, area.h);
    const k = Math.max(all.k, Math.min(THREAD / Math.max(across, 1), 0.5, 1.6));
    return k === all.k ? all : start(area, room, direction, k);
  }

  // The initial view: everything if readable, otherwise the beginning at a readable size, with the
  // box `first` in the middle if not all is seen beside it.
  function beginning(area, room, direction, first = area) {
    const all = fitted(area, room);
    if (all.k >= 0.78) return all;
    const flat = sideways(direction);
    const across = flat ? (room.height - 2 * MARGIN) / area.h : (room.width - 2 * MARGIN) / area.w;
    const view = start(area, room, direction, Math.min(1.25, Math.max(0.85, across)));
    const [axis, side, size] = flat ? ["y", "h", room.height] : ["x", "w", room.width];
    const seen = size / view.k, edge = MARGIN / view.k, last = area[axis] + area[side] + edge - seen;
    if (seen >= area[side]) return view;
    const middle = first[axis] + first[side] / 2 - seen / 2;
    return { ...view, [axis]: Math.min(last, Math.max(area[axis] - edge, middle)) };
  }

  function start(area, room, direction, k) {
    const flat = sideways(direction);
    const view = centred(area.x + area.w / 2, area.y + area.h / 2, k, room);
    if (direction === "RL") view.x = area.x + area.w - (room.width - MARGIN) / k;
    else if (flat) view.x = area.x - MARGIN / k;
    else if (direction === "BT") view.y = area.y + area.h - (room.height - MARGIN) / k;
    else view.y = area.y - MARGIN / k;
    return view;
  }

  // Moved as little as needed for `area` to be seen; its beginning if it is too large.
  function showing(view, area, room) {
    const reach = (begin, size, seen, at) => {
      const edge = Math.min(MARGIN / view.k, seen / 8);
      if (size > seen - 2 * edge || begin < at + edge) {
        const visible = begin >= at && begin < at + seen * 0.7;
        return size > seen - 2 * edge && visible ? at : begin - edge;
      }
      return begin + size > at + seen - edge ? begin + size + edge - seen : at;
    };
    return {
      x: reach(area.x, area.w, room.width / view.k, view.x),
      y: reach(area.y, area.h, room.height / view.k, view.y),
      k: view.k,
    };
  }

  // The middle of the window stays on the picture.
  function kept(view, picture, room) {
    const wide = room.width / view.k, high = room.height / view.k;
    const hold = (at, size, seen) => Math.min(size - seen / 2, Math.max(-seen / 2, at));
    return { x: hold(view.x, picture.width, wide), y: hold(view.y, picture.height, high), k: view.k };
  }

  // Interpolates between two views: the scale exponentially, the centre accordingly.
  function between(one, other, share, room) {
    if (share >= 1) return other;
    const k = one.k * (other.k / one.k) ** share;
    const even = Math.abs(other.k / one.k - 1) < 1e-6;
    const part = even ? share : (1 / one.k - 1 / k) / (1 / one.k - 1 / other.k);
    const middle = (view, axis, size) => view[axis] + size / view.k / 2;
    const [x, y] = [["x", room.width], ["y", room.height]].map(([axis, size]) =>
      middle(one, axis, size) + part * (middle(other, axis, size) - middle(one, axis, size)));
    return centred(x, y, k, room);
  }

  const area = (view, room, margin = 0) => ({
    x: view.x - margin / view.k, y: view.y - margin / view.k,
    w: (room.width + 2 * margin) / view.k, h: (room.height + 2 * margin) / view.k,
  });

  const meets = (box, seen) => box.x < seen.x + seen.w && box.x + box.w > seen.x &&
    box.y < seen.y + seen.h && box.y + box.h > seen.y;

  // The visible parts of a picture; a moving picture is a single part.
  function parts(picture, seen) {
    if (!picture.parts) return [picture];
    const right = seen.x + seen.w, bottom = seen.y + seen.h;
    return picture.parts.filter(({ area: { x, y, w, h } }) =>
      x < right && x + w > seen.x && y < bottom && y + h > seen.y);
  }

  return {
    toWorld, toScreen, moved, zoomed, fitted, overview, centred, beginning, showing, kept, between, area,
    meets, parts,
  };
})();
