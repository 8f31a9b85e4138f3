// Camera: the visible part of the picture. A view is {x, y, k}: its corner in points, and the
// number of pixels per point.

"use strict";

const camera = (() => {
  const MOST = 6, MARGIN = 28, NARROWEST = 110;

  const toWorld = (view, px, py) => [view.x + px / view.k, view.y + py / view.k];
  const toScreen = (view, x, y) => [(x - view.x) * view.k, (y - view.y) * view.k];

  const moved = (view, dx, dy) => ({ ...view, x: view.x - dx / view.k, y: view.y - dy / view.k });

  // Zoomed by `factor`; the point at the pixel px, py stays there.
  function zoomed(view, px, py, factor, least = 0.005) {
    const k = Math.min(MOST, Math.max(least, view.k * factor));
    const [x, y] = toWorld(view, px, py);
    return { x: x - px / k, y: y - py / k, k };
  }

  // All of `area` ({x, y, w, h}) in the middle of a window of `size` ({width, height} in pixels).
  function fitted(area, size, most = 1.6) {
    const [width, height] = [size.width, size.height].map(side => Math.max(side - 2 * MARGIN, 40));
    const k = Math.min(most, width / Math.max(area.w, 1), height / Math.max(area.h, 1));
    return centered(area.x + area.w / 2, area.y + area.h / 2, k, size);
  }

  const centered = (x, y, k, size) => ({ x: x - size.width / k / 2, y: y - size.height / k / 2, k });

  // All of `area`, or its beginning if it would be too narrow.
  function overview(area, size, direction) {
    const all = fitted(area, size), across = Math.min(area.w, area.h);
    const k = Math.max(all.k, Math.min(NARROWEST / Math.max(across, 1), 0.5, 1.6));
    return k === all.k ? all : start(area, size, direction, k);
  }

  // The initial view: all if it can be read, that is, at the scale `readable` or a larger one;
  // otherwise the beginning, with the box `first` in the middle if the picture is wider than the
  // window.
  function initial(area, size, direction, first = area, readable = 1) {
    const all = fitted(area, size);
    if (all.k >= readable) return all;
    const [axis, side, extent] = isHorizontal(direction)
      ? ["y", "h", size.height] : ["x", "w", size.width];
    const across = (extent - 2 * MARGIN) / area[side];
    const k = Math.max(readable, Math.min(1.25, across));
    const view = start(area, size, direction, k);
    const seen = extent / view.k, edge = MARGIN / view.k;
    const last = area[axis] + area[side] + edge - seen;
    if (seen >= area[side]) return view;
    const middle = first[axis] + first[side] / 2 - seen / 2;
    return { ...view, [axis]: Math.min(last, Math.max(area[axis] - edge, middle)) };
  }

  // A view of the beginning of `area`.
  function start(area, size, direction, k) {
    const view = centered(area.x + area.w / 2, area.y + area.h / 2, k, size);
    if (direction === "RL") view.x = area.x + area.w - (size.width - MARGIN) / k;
    else if (direction === "LR") view.x = area.x - MARGIN / k;
    else if (direction === "BT") view.y = area.y + area.h - (size.height - MARGIN) / k;
    else view.y = area.y - MARGIN / k;
    return view;
  }

  // Moved as little as possible so that `area` is visible, or its beginning if it is too large.
  function showing(view, area, size) {
    const shifted = (begin, extent, seen, at) => {
      const edge = Math.min(MARGIN / view.k, seen / 8);
      if (extent > seen - 2 * edge || begin < at + edge) {
        const visible = begin >= at && begin < at + seen * 0.7;
        return extent > seen - 2 * edge && visible ? at : begin - edge;
      }
      return begin + extent > at + seen - edge ? begin + extent + edge - seen : at;
    };
    return {
      x: shifted(area.x, area.w, size.width / view.k, view.x),
      y: shifted(area.y, area.h, size.height / view.k, view.y),
      k: view.k,
    };
  }

  // Moved as little as possible so that all of `area` is visible; of one that is too large, its
  // beginning in the direction of the flow.
  function revealing(view, area, size, direction) {
    const begin = ["BT", "RL"].includes(direction) ? start(area, size, direction, view.k) : null;
    const shown = showing(view, area, size), [w, h] = [size.width / view.k, size.height / view.k];
    const horizontal = isHorizontal(direction), edges = 2 * MARGIN / view.k;
    const along = axis => (begin ?? shown)[axis];
    return {
      x: area.w + edges <= w ? shown.x : horizontal ? along("x") : view.x,
      y: area.h + edges <= h ? shown.y : horizontal ? view.y : along("y"),
      k: view.k,
    };
  }

  // Moved so that the middle of the window is on the picture.
  function clamped(view, picture, size) {
    const clamp = (at, extent, seen) => Math.min(extent - seen / 2, Math.max(-seen / 2, at));
    return {
      x: clamp(view.x, picture.width, size.width / view.k),
      y: clamp(view.y, picture.height, size.height / view.k),
      k: view.k,
    };
  }

  // A view between two others: the scale is interpolated exponentially, the center accordingly.
  function interpolated(one, other, share, size) {
    if (share >= 1) return other;
    const k = one.k * (other.k / one.k) ** share;
    const even = Math.abs(other.k / one.k - 1) < 1e-6;
    const part = even ? share : (1 / one.k - 1 / k) / (1 / one.k - 1 / other.k);
    const middle = (view, axis, extent) => view[axis] + extent / view.k / 2;
    const [x, y] = [["x", size.width], ["y", size.height]].map(([axis, extent]) =>
      middle(one, axis, extent) + part * (middle(other, axis, extent) - middle(one, axis, extent)));
    return centered(x, y, k, size);
  }

  // The area of the picture in the window, with a margin in pixels.
  const visibleArea = (view, size, margin = 0) => ({
    x: view.x - margin / view.k, y: view.y - margin / view.k,
    w: (size.width + 2 * margin) / view.k, h: (size.height + 2 * margin) / view.k,
  });

  const overlaps = (one, other) => one.x < other.x + other.w && one.x + one.w > other.x &&
    one.y < other.y + other.h && one.y + one.h > other.y;

  const contains = (one, other) => one.x <= other.x && one.x + one.w >= other.x + other.w &&
    one.y <= other.y && one.y + one.h >= other.y + other.h;

  // The parts of a picture in `area`; a picture in a transition is one part.
  const visibleParts = (picture, area) =>
    picture.parts?.filter(part => overlaps(part.area, area)) ?? [picture];

  return {
    toWorld, toScreen, moved, zoomed, fitted, overview, centered, initial, showing,
    revealing, clamped, interpolated, visibleArea, overlaps, contains, visibleParts,
  };
})();
