// Pointer: mouse, trackpad and fingers on the stage.

"use strict";

const attachPointer = (host, stage, tip, actions, boxMenu) => {
  const STILL = 4, TWICE = 350, PATIENT = 200, HOLD = 500;
  // How far a second click is from the first, and a line from a click: fingers are not exact.
  const EXACT = { near: 8, reach: 5 }, ROUGH = { near: 32, reach: 12 };
  const down = new Map();  // pointers that touch: id -> [x, y]
  const framed = window.parent !== window;
  let press = null, last = null, pinch = null, passed = null, holding = 0;

  const place = event => {
    const { left, top } = host.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };

  const spread = () => {
    const [[ax, ay], [bx, by]] = [...down.values()];
    return { x: (ax + bx) / 2, y: (ay + by) / 2, far: Math.hypot(ax - bx, ay - by) || 1 };
  };

  function begin(event) {
    if (event.button > 0 && event.pointerType === "mouse") return;
    host.setPointerCapture(event.pointerId);
    down.set(event.pointerId, place(event));
    tip.hide();
    clearTimeout(holding);
    if (down.size === 2) {
      pinch = spread();
      press = null;
    } else press = { at: place(event), moved: false };
    if (press && event.pointerType === "touch") holding = setTimeout(() => held(press.at), HOLD);
    host.focus({ preventScroll: true });
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
    if (!press.moved && Math.hypot(at[0] - press.at[0], at[1] - press.at[1]) < STILL) return;
    clearTimeout(holding);
    if (!press.moved) stage.pan(at[0] - press.at[0], at[1] - press.at[1]);
    else stage.pan(at[0] - before[0], at[1] - before[1]);
    press.moved = true;
    host.classList.add("dragging");
  }

  // A finger that rests on a box asks what can be done with it.
  function held(at) {
    press = null;
    boxMenu.showAt(at);
  }

  function pinched() {
    const now = spread();
    stage.pan(now.x - pinch.x, now.y - pinch.y);
    stage.zoom(now.far / pinch.far, now.x, now.y);
    pinch = now;
  }

  function hover(at) {
    const box = stage.boxAt(...at);
    host.classList.toggle("over", Boolean(box && !box.open));
    host.classList.toggle("choice", Boolean(box && stage.isOnSiblings(box, ...at)));
    tip.at(...at);
  }

  function finish(event) {
    const at = place(event);
    down.delete(event.pointerId);
    pinch = null;
    clearTimeout(holding);
    host.classList.remove("dragging");
    if (press && !press.moved && event.type === "pointerup") clicked(at, event);
    press = null;
  }

  // A second click in the same place soon after the first opens or closes.
  function clicked(at, { timeStamp: time, pointerType }) {
    const { near, reach } = pointerType === "mouse" ? EXACT : ROUGH;
    const again = last && time - last.time < TWICE &&
      Math.hypot(at[0] - last.at[0], at[1] - last.at[1]) < near;
    const box = stage.boxAt(...at);
    if (box && stage.isOnSiblings(box, ...at)) {
      const { left, top } = host.getBoundingClientRect();
      return boxMenu.showSiblings(box.item, [at[0] + left, at[1] + top + 8]);
    }
    if (again) {
      if (box) actions.toggle(box.item, at);
      last = null;
      return undefined;
    }
    last = { at, time };
    const line = stage.lineAt(...at, reach);
    if (line && (!box || box.open)) return actions.selectValue(line.value);
    return actions.select(box ? box.item : -1, { by: "pointer", at });
  }

  // In a frame, the wheel scrolls the page around until the reader clicks inside; but
  // if that page does not scroll, the wheel is used here.
  function isForeign({ clientX, clientY, screenX, screenY, timeStamp: time }) {
    if (!framed || document.hasFocus()) return false;
    const x = clientX - screenX, y = clientY - screenY;
    const rests = passed && Math.abs(passed.x - x) < 1 && Math.abs(passed.y - y) < 1;
    if (!rests) passed = { x, y, time };
    return time - passed.time < PATIENT;
  }

  function wheel(event) {
    tip.hide();
    if (!event.ctrlKey && !event.metaKey && isForeign(event)) return;
    const at = place(event), unit = [1, 16, stage.room().height][event.deltaMode] ?? 1;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const turn = Math.max(-60, Math.min(60, event.deltaY * unit));
      stage.zoom(Math.exp(-turn * 0.008), ...at);
      return;
    }
    const sideways = event.shiftKey && !event.deltaX;
    const before = stage.view();
    stage.pan(...[sideways ? event.deltaY : event.deltaX, sideways ? 0 : event.deltaY]
      .map(delta => -delta * unit));
    const after = stage.view();
    // At the end of the picture the page around this one may scroll on.
    if (after.x !== before.x || after.y !== before.y) event.preventDefault();
  }

  host.addEventListener("pointerdown", begin);
  host.addEventListener("pointermove", move);
  host.addEventListener("pointerup", finish);
  host.addEventListener("pointercancel", finish);
  host.addEventListener("pointerleave", () => tip.hide());
  host.addEventListener("wheel", wheel, { passive: false });
};
