// Stage: the picture on the screen: its layout, and the transitions between states and views.

"use strict";

const createStage = ({ byId, model, state, styling }) => {
  const DURATION = 200, MOVE_DURATION = 240, LONG_DURATION = 280;  // milliseconds
  const MANY = 1500;  // boxes, too many to animate
  const READABLE = 8;  // the least font size of the details in the initial view, in pixels
  const host = byId("stage");
  const layout = createLayout(model.data, model.children), bundles = createBundles(model);
  const pictureOf = now =>
    bundles.of(layout.place(now.open, layoutInputs.of(model, now)), now.open, now.direction);
  const scene = createScene(host, model);
  const direction = () => state.get().direction;
  const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)");
  const listeners = [];
  let picture = pictureOf(state.get());
  let view = { x: 0, y: 0, k: 1 };
  let size = { width: 1, height: 1 }, covered = { right: 0, bottom: 0 };
  let animation = null, request = 0, isStale = true, isZooming = false;
  let isInitial = true;  // the view is the initial one

  // The size of the part of the stage that no panel covers.
  const freeSize = () => ({
    width: Math.max(size.width - covered.right, 120),
    height: Math.max(size.height - covered.bottom, 120),
  });
  const areaOf = ({ width, height }) => ({ x: 0, y: 0, w: width, h: height });
  const frame = item => motion.index(picture).get(item) ?? null;
  const overview = (of = picture) => camera.overview(areaOf(of), freeSize(), direction());
  const fitted = () => camera.fitted(areaOf(picture), freeSize());
  const readable = Math.min(1.6, READABLE / shapes.fontSize(2, model.data.fontsize));
  const initialView = (of = picture) =>
    camera.initial(areaOf(of), freeSize(), direction(), firstBox(of), readable);

  // The box at the beginning of a picture.
  function firstBox(of) {
    const [axis, sign] = { TB: ["y", 1], BT: ["y", -1], LR: ["x", 1], RL: ["x", -1] }[direction()];
    const position = box => sign * (box[axis] + (sign < 0 ? box[axis === "y" ? "h" : "w"] : 0));
    return of.boxes.filter(box => !box.open).reduce((one, other) =>
      (one && position(one) <= position(other) ? one : other), null) ?? areaOf(of);
  }

  function draw(shown, isMoving) {
    scene.draw(shown, view, size, freeSize(), styling.current(), isMoving);
    isStale = isZooming = false;
    notify();
  }

  function notify() {
    for (const listener of listeners) listener(view, picture);
  }

  // Draws in the next frame, once for any number of requests.
  function requestDraw() {
    isStale = true;
    if (request || animation) return;
    request = requestAnimationFrame(() => {
      request = 0;
      if (isStale) draw(picture, isZooming);
    });
  }

  function setView(next) {
    stop();
    isInitial = false;
    isZooming ||= next.k !== view.k;
    view = camera.clamped(next, picture, size);
    if (!isStale && scene.pan(view)) notify();
    else requestDraw();
  }

  function stop() {
    if (!animation) return;
    cancelAnimationFrame(animation);
    animation = null;
    isStale = true;
  }

  // Shows the picture `next` in the view `target`, with an animation from what is shown now.
  function animateTo(next, target, duration = DURATION) {
    const before = picture, from = view;
    stop();
    isInitial = false;
    picture = next;
    const goal = camera.clamped(target, next, size);
    const areas = [from, goal].map(each => camera.visibleArea(each, size, 40));
    const isVisible = thing => areas.some(area => camera.overlaps(boundsOf(thing), area));
    const isTooMuch = next !== before &&
      [before, next].some(({ boxes }) => boxes.filter(isVisible).length > MANY);
    if (reducedMotion.matches || isTooMuch || document.hidden || !duration) {
      view = goal;
      draw(next, false);
      return;
    }
    const between = next === before ? () => next
      : motion.between(before, next, model.parent, isVisible);
    const start = performance.now();
    const step = now => {
      const share = Math.min(1, Math.max(0, (now - start) / duration)), isDone = share === 1;
      view = isDone ? goal : camera.interpolated(from, goal, motion.ease(share), size);
      animation = isDone ? null : requestAnimationFrame(step);
      draw(isDone ? next : between(share), !isDone);
    };
    animation = requestAnimationFrame(step);
  }

  // The bounds of a line or a box.
  const boundsOf = thing => ("x0" in thing
    ? { x: thing.x0 - 1, y: thing.y0 - 1, w: thing.x1 - thing.x0 + 2, h: thing.y1 - thing.y0 + 2 }
    : thing);

  // Shows a new state; the details of the change say where the view moves.
  function showState(now, details) {
    const next = pictureOf(now);
    if (details.show >= 0) {
      const box = motion.index(next).get(details.show);
      animateTo(next, box ? readableView(box, details.zoom) : view, LONG_DURATION);
    } else if (details.view) animateTo(next, details.view, LONG_DURATION);
    else if (details.anchor >= 0) {
      const { anchor, at, corner } = details;
      animateTo(next, anchoredView(next, anchor, at, corner));
    } else if (details.keep) animateTo(next, keptView(next));
    else if (details.turn) animateTo(next, turnedView(next), LONG_DURATION);
    else animateTo(next, overview(next), LONG_DURATION);
  }

  // The box in the middle of the window, and this pixel.
  function boxInMiddle() {
    const middle = [freeSize().width / 2, freeSize().height / 2];
    return [boxAt(...middle)?.item ?? -1, middle];
  }

  // The view of the picture `next` in which that box stays; all of it, if all was visible before; the
  // initial view instead of an initial view.
  function keptView(next) {
    if (isInitial) return initialView(next);
    const kept = anchoredView(next, ...boxInMiddle());
    const isWhole = (of, at) => camera.contains(camera.visibleArea(at, freeSize()), areaOf(of));
    return isWhole(picture, view) && !isWhole(next, kept)
      ? camera.fitted(areaOf(next), freeSize(), view.k) : kept;
  }

  // The closed box nearest to the middle of the window.
  function nearestBox() {
    const [x, y] = camera.toWorld(view, freeSize().width / 2, freeSize().height / 2);
    const distance = box => Math.hypot(box.x + box.w / 2 - x, box.y + box.h / 2 - y);
    return picture.boxes.filter(box => !box.open).reduce((one, other) =>
      (one && distance(one) <= distance(other) ? one : other), null)?.item ?? -1;
  }

  // The view of the picture `next` at the same scale, with the selected box, or the one in the middle
  // of the window, in the middle; the initial view instead of an initial view.
  function turnedView(next) {
    const { selected } = state.get(), item = selected >= 0 ? selected : nearestBox();
    const box = motion.index(next).get(item);
    if (!box || (isInitial && selected < 0)) return initialView(next);
    const middle = camera.centered(box.x + box.w / 2, box.y + box.h / 2, view.k, freeSize());
    return camera.revealing(middle, box, freeSize(), direction());
  }

  // The view of the picture `next` in which a box stays at the pixel `at`, or the middle of its edge
  // or its corner in its place; what an opened box has in it is made visible.
  function anchoredView(next, item, at, corner = false) {
    const before = frame(item), after = motion.index(next).get(item);
    if (!before || !after) return view;
    const [px, py] = at ?? camera.toScreen(view, before.x + (corner ? 0 : before.w / 2), before.y);
    const goal = motion.anchored(view, before, after, px, py, isHorizontal(direction()));
    if (after.open) return camera.revealing(goal, after, freeSize(), direction());
    return at ? goal : camera.showing(goal, after, freeSize());
  }

  // A view of `box`; if `zoom`, at a readable size, with its beginning or its middle.
  function readableView(box, zoom) {
    if (!zoom) return camera.showing(view, box, freeSize());
    const most = Math.min(1.6, Math.max(view.k, 1.15));
    const k = Math.max(Math.min(most, camera.fitted(box, freeSize(), 1.3).k), 0.6);
    const width = freeSize().width / k, height = freeSize().height / k;
    return {
      x: box.w < width ? box.x + box.w / 2 - width / 2 : box.x - 20 / k,
      y: box.h < height ? box.y + box.h / 2 - height / 2 : box.y - 20 / k,
      k,
    };
  }

  function show(item, zoom = false) {
    const box = frame(item);
    if (box) animateTo(picture, readableView(box, zoom), MOVE_DURATION);
  }

  // Moves as little as possible so that the point `at` of the picture is visible.
  function reveal([x, y]) {
    const next = camera.showing(view, { x, y, w: 0, h: 0 }, freeSize());
    if (next.x !== view.x || next.y !== view.y) animateTo(picture, next, MOVE_DURATION);
  }

  function zoom(factor, px = freeSize().width / 2, py = size.height / 2) {
    setView(camera.zoomed(view, px, py, factor, Math.min(0.2, fitted().k * 0.6)));
  }

  // The innermost box at a pixel.
  function boxAt(px, py) {
    const [x, y] = camera.toWorld(view, px, py);
    let result = null;
    for (const part of camera.visibleParts(picture, { x, y, w: 0, h: 0 })) {
      for (const box of part.boxes) {
        if (x < box.x || y < box.y || x > box.x + box.w || y > box.y + box.h) continue;
        if (!result || model.level[box.item] >= model.level[result.item]) result = box;
      }
    }
    return result;
  }

  // The open boxes around the one in the middle of the window, the outermost first.
  const openInMiddle = () => model.ancestors(nearestBox()).filter(each => frame(each));

  // Whether the choice of siblings in the corner of an open fold is at a pixel.
  function isOnSiblings(box, px, py) {
    const fontsize = shapes.fontSize(2, model.data.fontsize);
    const [x, y] = camera.toWorld(view, px, py);
    const row = paint.siblingsRow(model, styling.current().palette, box);
    if (!row || box.cut || fontsize * view.k < 5) return false;
    return Math.abs(y - box.y - row.y + fontsize / 2) < fontsize &&
      x - box.x < paint.PAD + row.width + fontsize;
  }

  // The line nearest to a pixel, at a distance of at most `pixels`.
  function lineAt(px, py, pixels = 5) {
    const [x, y] = camera.toWorld(view, px, py), reach = pixels / view.k;
    const area = { x: x - reach, y: y - reach, w: 2 * reach, h: 2 * reach };
    let result = null, least = Math.min(reach, 12);
    for (const part of camera.visibleParts(picture, area)) {
      for (const line of part.lines) {
        if (x < line.x0 - reach || x > line.x1 + reach || y < line.y0 - reach ||
          y > line.y1 + reach) continue;
        const distance = shapes.distance(line.points, x, y);
        if (distance < least) [result, least] = [line, distance];
      }
    }
    return result;
  }

  function resize() {
    const before = size;
    size = { width: host.clientWidth || 1, height: host.clientHeight || 1 };
    const dx = (size.width - before.width) / 2, dy = (size.height - before.height) / 2;
    view = before.width <= 1 ? initialView() : camera.moved(view, dx, dy);
    requestDraw();
  }

  state.onChange((now, before, details) => {
    if (layoutInputs.changed(now, before)) showState(now, details);
    else if (details.view) animateTo(picture, details.view, LONG_DURATION);
    else if (details.show >= 0) show(details.show, details.zoom);
    else requestDraw();
  });
  new ResizeObserver(resize).observe(host);
  resize();

  return {
    scene, layout, setView, zoom, show, reveal, boxAt, lineAt, isOnSiblings, openInMiddle, frame,
    requestDraw, freeSize,
    fit: () => animateTo(picture, fitted(), MOVE_DURATION),
    showBeginning: () => animateTo(picture, initialView(), 0),
    pan: (dx, dy) => setView(camera.moved(view, dx, dy)),
    focus: () => host.focus({ preventScroll: true }),
    cover: sides => {
      covered = sides;
      requestDraw();
    },
    onDraw: listener => { listeners.push(listener); },
    view: () => view, size: () => size, picture: () => picture, isInitial: () => isInitial,
    isMoving: () => animation !== null,
  };
};
