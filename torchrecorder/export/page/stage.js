// Stage: the picture on the screen: lays out what is open, moves between states and views.

"use strict";

const createStage = (host, model, state, told) => {
  const SOON = 200, MANY = 1500;
  const layout = createLayout(model.data), bundles = createBundles(model);
  const place = now => bundles.of(layout.place(now.open, arrangement.how(model, now)), now.open, now.direction);
  const scene = createScene(host, model);
  const direction = () => state.get().direction;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");
  const watchers = [];
  let picture = place(state.get());
  let view = { x: 0, y: 0, k: 1 };
  let room = { width: 1, height: 1 }, covered = { right: 0, bottom: 0 };
  let moving = null, waiting = 0, fresh = true, zooming = false;

  const measured = () => ({ width: host.clientWidth || 1, height: host.clientHeight || 1 });
  // The part of the stage that no panel covers.
  const free = () => ({
    width: Math.max(room.width - covered.right, 120),
    height: Math.max(room.height - covered.bottom, 120),
  });
  const whole = (of = picture) => ({ x: 0, y: 0, w: of.width, h: of.height });
  const frame = item => motion.index(picture).get(item) ?? null;

  // The box at the beginning of the picture.
  function first() {
    const [at, sign] = { TB: ["y", 1], BT: ["y", -1], LR: ["x", 1], RL: ["x", -1] }[direction()];
    const far = box => sign * (box[at] + (sign < 0 ? box[at === "y" ? "h" : "w"] : 0));
    return picture.boxes.filter(box => !box.open).reduce((one, other) =>
      (one && far(one) <= far(other) ? one : other), null) ?? whole();
  }

  function draw(shown = picture, brief = false) {
    scene.draw(shown, view, room, told(), brief);
    fresh = zooming = false;
    for (const watcher of watchers) watcher(view, picture);
  }

  // Draw in the next frame, once for any number of requests.
  function later() {
    fresh = true;
    if (waiting || moving) return;
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      if (fresh) draw(picture, zooming);
    });
  }

  function look(next) {
    stop();
    zooming ||= next.k !== view.k;
    view = camera.kept(next, picture, room);
    if (!fresh && scene.pan(view)) {
      for (const watcher of watchers) watcher(view, picture);
    } else later();
  }

  function stop() {
    if (!moving) return;
    cancelAnimationFrame(moving.request);
    moving = null;
    fresh = true;
  }

  // Animates from the current view to `next` picture and `target` view.
  function travel(next, target, duration = SOON) {
    const before = picture, from = view;
    stop();
    picture = next;
    const goal = camera.kept(target, next, room);
    const seen = [from, goal].map(each => camera.area(each, room, 40));
    const shown = thing => seen.some(area => camera.meets(boxOf(thing), area));
    const many = next !== before && next.boxes.filter(shown).length > MANY;
    if (still.matches || many || document.hidden || !duration) {
      view = goal;
      draw();
      return;
    }
    const between = next === before ? () => next
      : motion.between(before, next, model.parent, shown);
    const start = performance.now();
    const step = now => {
      const share = Math.min(1, Math.max(0, (now - start) / duration));
      view = share < 1 ? camera.between(from, goal, motion.ease(share), room) : goal;
      if (share < 1) {
        moving = { request: requestAnimationFrame(step) };
        draw(between(share), true);
      } else {
        moving = null;
        draw();
      }
    };
    moving = { request: requestAnimationFrame(step) };
  }

  const boxOf = thing => ("x0" in thing
    ? { x: thing.x0 - 1, y: thing.y0 - 1, w: thing.x1 - thing.x0 + 2, h: thing.y1 - thing.y0 + 2 }
    : thing);

  // The open state changed: the box that was opened stays under the pointer.
  function reopened(now, how) {
    const next = place(now);
    if (how.show !== undefined && how.show >= 0) {
      const box = motion.index(next).get(how.show);
      travel(next, box ? near(box, how.zoom) : view, 280);
    } else if (how.view) travel(next, how.view, 280);
    else if (how.anchor >= 0) travel(next, anchored(next, how.anchor, how.at));
    else if (how.keep) travel(next, anchored(next, ...inMiddle()));
    else travel(next, camera.overview(whole(next), free(), direction()), 280);
  }

  // The box in the middle of the window, and that middle.
  function inMiddle() {
    const at = [free().width / 2, free().height / 2];
    return [boxAt(...at)?.item ?? -1, at];
  }

  function anchored(next, item, at) {
    const before = frame(item), after = motion.index(next).get(item);
    if (!before || !after) return view;
    const [px, py] = at ?? camera.toScreen(view, before.x + before.w / 2, before.y);
    const goal = motion.anchored(view, before, after, px, py, sideways(direction()));
    return at ? goal : camera.showing(goal, after, free());
  }

  // A view in which `box` can be read.
  function near(box, zoom) {
    const readable = Math.min(1.6, Math.max(view.k, 1.15));
    const k = zoom ? Math.max(Math.min(readable, camera.fitted(box, free(), 1.3).k), 0.6) : view.k;
    const seen = { width: free().width / k, height: free().height / k };
    const x = box.w < seen.width ? box.x + box.w / 2 - seen.width / 2 : box.x - 20 / k;
    const y = box.h < seen.height ? box.y + box.h / 2 - seen.height / 2 : box.y - 20 / k;
    return zoom ? { x, y, k } : camera.showing(view, box, free());
  }

  function show(item, zoom = false) {
    const box = frame(item);
    if (box) travel(picture, near(box, zoom), 240);
  }

  function zoom(factor, px = free().width / 2, py = room.height / 2) {
    const least = Math.min(0.2, camera.overview(whole(), free(), direction()).k * 0.6);
    look(camera.zoomed(view, px, py, factor, least));
  }

  // The innermost box at a pixel.
  function boxAt(px, py) {
    const [x, y] = camera.toWorld(view, px, py);
    let found = null;
    for (const part of camera.parts(picture, { x, y, w: 0, h: 0 })) {
      for (const box of part.boxes) {
        if (x < box.x || y < box.y || x > box.x + box.w || y > box.y + box.h) continue;
        if (!found || model.level[box.item] >= model.level[found.item]) found = box;
      }
    }
    return found;
  }

  // Whether the choice of siblings in the corner of an open fold is at a pixel.
  function isOnSiblings(box, px, py) {
    const size = shapes.sizeOf(2, model.data.fontsize), [x, y] = camera.toWorld(view, px, py);
    const row = paint.siblingsRow(model, told().palette, box);
    if (!row || box.cut || size * view.k < 5) return false;
    return Math.abs(y - box.y - row.y + size / 2) < size && x - box.x < paint.PAD + row.wide + size;
  }

  // The line nearest to a pixel, if it is no more than `pixels` away.
  function lineAt(px, py, pixels = 5) {
    const [x, y] = camera.toWorld(view, px, py), reach = pixels / view.k;
    const around = { x: x - reach, y: y - reach, w: 2 * reach, h: 2 * reach };
    let found = null, least = Math.min(reach, 12);
    for (const part of camera.parts(picture, around)) {
      for (const line of part.lines) {
        if (x < line.x0 - reach || x > line.x1 + reach || y < line.y0 - reach ||
          y > line.y1 + reach) continue;
        const far = shapes.distance(line.points, x, y);
        if (far < least) [found, least] = [line, far];
      }
    }
    return found;
  }

  function resize() {
    const before = room;
    room = measured();
    if (before.width <= 1) view = camera.beginning(whole(), free(), direction(), first());
    else view = camera.moved(view, (room.width - before.width) / 2, (room.height - before.height) / 2);
    later();
  }

  state.watch((now, before, how) => {
    if (arrangement.changed(now, before)) reopened(now, how);
    else if (how.view) travel(picture, how.view, 280);
    else if (how.show >= 0) show(how.show, how.zoom);
    else later();
  });
  new ResizeObserver(resize).observe(host);
  resize();

  return {
    scene, look, zoom, show, boxAt, lineAt, isOnSiblings, frame, later, layout,
    fit: () => travel(picture, camera.overview(whole(), free(), direction()), 240),
    begin: () => travel(picture, camera.beginning(whole(), free(), direction(), first()), 0),
    pan: (dx, dy) => look(camera.moved(view, dx, dy)),
    focus: () => host.focus({ preventScroll: true }),
    cover: sides => { covered = sides; },
    watch: watcher => { watchers.push(watcher); },
    view: () => view, room: () => room, free, picture: () => picture,
    isMoving: () => moving !== null,
  };
};
