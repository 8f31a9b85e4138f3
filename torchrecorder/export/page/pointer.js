// Pointer: mouse, trackpad and fingers on the stage.

"use strict";

const attachPointer = ({ byId, stage, tooltip, actions, boxMenu }) => {
  const DRAG_DISTANCE = 4;  // pixels
  const DOUBLE_CLICK = 350, SCROLL_PAUSE = 200, LONG_TOUCH = 500;  // milliseconds
  // The distance of a second click from the first, and of a click from a line, in pixels.
  const MOUSE = { near: 8, reach: 5 }, TOUCH = { near: 32, reach: 12 };
  const host = byId("stage"), down = new Map();  // pointers that touch: id -> [x, y]
  const isFramed = window.parent !== window;
  let press = null, lastClick = null, pinch = null, scrolled = null, longTouch = 0;
  let isMenuTouch = false;  // the finger that touches has shown a menu

  // The position of an event on the stage.
  const place = event => {
    const { left, top } = host.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };

  const distance = ([ax, ay], [bx, by]) => Math.hypot(ax - bx, ay - by);

  // The middle and the distance of two fingers.
  const pinchOf = () => {
    const [one, other] = down.values();
    const x = (one[0] + other[0]) / 2, y = (one[1] + other[1]) / 2;
    return { x, y, distance: distance(one, other) || 1 };
  };

  function begin(event) {
    if (event.button > 0 && event.pointerType === "mouse") return;
    host.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    tooltip.hide();
    clearTimeout(longTouch);
    isMenuTouch = false;
    if (down.size === 2) {
      pinch = pinchOf();
      press = null;
    } else press = { at: place(event), moved: false };
    if (press && event.pointerType === "touch") {
      longTouch = setTimeout(() => touchedLong(press.at), LONG_TOUCH);
    }
  }

  function move(event) {
    const at = place(event), before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse") hover(at);
      return;
    }
    down.set(event.pointerId, at);
    if (down.size === 2 && pinch) return pinched();
    if (!press) return;
    if (!press.moved && distance(at, press.at) < DRAG_DISTANCE) return;
    clearTimeout(longTouch);
    const from = press.moved ? before : press.at;
    stage.pan(at[0] - from[0], at[1] - from[1]);
    press.moved = true;
    host.classList.add("dragging");
  }

  // Shows the menu of a box after a long touch.
  function touchedLong(at) {
    press = null;
    isMenuTouch = true;
    boxMenu.showAt(at);
  }

  function pinched() {
    const now = pinchOf();
    stage.pan(now.x - pinch.x, now.y - pinch.y);
    stage.zoom(now.distance / pinch.distance, now.x, now.y);
    pinch = now;
  }

  function hover(at) {
    const box = stage.boxAt(...at);
    host.classList.toggle("over", Boolean(box && !box.open));
    host.classList.toggle("choice", Boolean(box && stage.isOnSiblings(box, ...at)));
    tooltip.showLater(...at);
  }

  function finish(event) {
    const at = place(event);
    down.delete(event.pointerId);
    pinch = null;
    clearTimeout(longTouch);
    host.classList.remove("dragging");
    if (press && !press.moved && event.type === "pointerup") clicked(at, event);
    press = null;
  }

  // Selects what was clicked, or with Shift shows the paths from the selection to it; a double click
  // opens or closes a box.
  function clicked(at, { timeStamp: time, pointerType, shiftKey }) {
    const { near, reach } = pointerType === "mouse" ? MOUSE : TOUCH;
    const isDouble = lastClick && time - lastClick.time < DOUBLE_CLICK &&
      distance(at, lastClick.at) < near;
    const box = stage.boxAt(...at);
    if (box && stage.isOnSiblings(box, ...at)) {
      const { left, top } = host.getBoundingClientRect();
      return boxMenu.showSiblings(box.item, [at[0] + left, at[1] + top + 8]);
    }
    if (isDouble) {
      if (box) actions.toggle(box.item, at);
      lastClick = null;
      return undefined;
    }
    lastClick = { at, time };
    if (shiftKey && box) return actions.showPathsTo(box.item, { by: "pointer", at });
    const line = stage.lineAt(...at, reach);
    if (line && (!box || box.open)) return actions.selectTensor(line.tensor, at);
    return actions.select(box ? box.item : -1, { by: "pointer", at });
  }

  // Whether the wheel is for the page around this frame: until a click in the frame, unless that
  // page does not scroll.
  function isForPageAround({ clientX, clientY, screenX, screenY, timeStamp: time }) {
    if (!isFramed || document.hasFocus()) return false;
    const x = clientX - screenX, y = clientY - screenY;
    const isStill = scrolled && Math.abs(scrolled.x - x) < 1 && Math.abs(scrolled.y - y) < 1;
    if (!isStill) scrolled = { x, y, time };
    return time - scrolled.time < SCROLL_PAUSE;
  }

  function wheel(event) {
    tooltip.hide();
    if (!event.ctrlKey && !event.metaKey && isForPageAround(event)) return;
    const at = place(event), unit = [1, 16, stage.size().height][event.deltaMode] ?? 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const delta = Math.max(-60, Math.min(60, event.deltaY * unit));
      stage.zoom(Math.exp(-delta * 0.008), ...at);
      return;
    }
    const isSideways = event.shiftKey && !event.deltaX;
    const before = stage.view();
    stage.pan(...[isSideways ? event.deltaY : event.deltaX, isSideways ? 0 : event.deltaY]
      .map(delta => -delta * unit));
    const after = stage.view();
    // At the end of the picture, the page around this frame scrolls.
    if (after.x !== before.x || after.y !== before.y) event.preventDefault();
  }

  host.addEventListener("pointerdown", begin);
  host.addEventListener("pointermove", move);
  host.addEventListener("pointerup", finish);
  host.addEventListener("pointercancel", finish);
  host.addEventListener("pointerleave", () => tooltip.hide());
  // The finger that showed a menu chooses nothing in it when it is lifted.
  host.addEventListener("touchend", event => { if (isMenuTouch) event.preventDefault(); });
  host.addEventListener("wheel", wheel, { passive: false });
};
