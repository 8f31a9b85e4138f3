// Minimap: the whole picture in a corner, and the window in it to be dragged.

"use strict";

const createMinimap = (canvas, stage, model, state, told) => {
  const WIDE = 148, HIGH = 132, THIN = 26;
  const pen = canvas.getContext("2d");
  let drawn = null, scale = [1, 1], key = null;

  // Size on the screen and pixels per point, both ways; very long pictures are made wider.
  function measure({ width, height }) {
    const k = Math.min(WIDE / Math.max(width, 1), HIGH / Math.max(height, 1));
    const size = [Math.max(width * k, THIN), Math.max(height * k, THIN)];
    return { size, scale: [size[0] / Math.max(width, 1), size[1] / Math.max(height, 1)] };
  }

  function paintBoxes(picture, palette) {
    const { size, scale: found } = measure(picture), dots = window.devicePixelRatio || 1;
    const image = document.createElement("canvas");
    [image.width, image.height] = size.map(side => Math.ceil(side * dots));
    const into = image.getContext("2d");
    into.scale(found[0] * dots, found[1] * dots);
    const done = new Set();
    // Thousands of boxes may lie on one pixel; the first of each sort is enough.
    const isCovered = ({ x, y, w, h, open }) => {
      if (w * found[0] > 1 || h * found[1] > 1) return false;
      const pixel = 2 * (Math.round(x * found[0]) * 1e4 + Math.round(y * found[1])) + Number(open);
      return done.size === done.add(pixel).size;
    };
    for (const box of picture.boxes) {
      if (isCovered(box)) continue;
      const look = palette.look(box.item, box.open);
      if (box.open) {
        into.fillStyle = look.fill === "transparent" ? palette.colours.paper : look.fill;
        into.fillRect(box.x, box.y, box.w, box.h);
        continue;
      }
      into.fillStyle = palette.annotation && !look.faint ? look.fill : look.stroke;
      into.globalAlpha = look.faint ? 0.25 : 0.85;
      into.fillRect(box.x, box.y, box.w, Math.max(box.h, 0.8 / found[1]));
      into.globalAlpha = 1;
    }
    scale = found;
    canvas.style.width = `${size[0]}px`;
    canvas.style.height = `${size[1]}px`;
    [canvas.width, canvas.height] = [image.width, image.height];
    return image;
  }

  function update(view, picture) {
    const palette = told().palette;
    if (key?.picture !== picture || key?.palette !== palette) {
      drawn = paintBoxes(picture, palette);
      key = { picture, palette };
    }
    const dots = window.devicePixelRatio || 1, room = stage.free();
    const all = room.width / view.k >= picture.width && room.height / view.k >= picture.height;
    canvas.hidden = all || picture.boxes.length < 2;
    if (canvas.hidden) return;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(drawn, 0, 0);
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    outline(view, room, palette);
  }

  function outline(view, room, palette) {
    const [sx, sy] = scale, wide = canvas.width, high = canvas.height;
    const x = view.x * sx, y = view.y * sy;
    const w = Math.max(room.width / view.k * sx, 4), h = Math.max(room.height / view.k * sy, 4);
    pen.fillStyle = palette.theme === "dark" ? "rgba(0,0,0,.4)" : "rgba(255,255,255,.5)";
    pen.beginPath();
    pen.rect(0, 0, wide, high);
    pen.rect(x, y, w, h);
    pen.fill("evenodd");
    pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--accent") || "#0072b2";
    pen.lineWidth = 1.5;
    pen.strokeRect(x, y, w, h);
  }

  function drag(event) {
    if (!event.buttons) return;
    const { left, top } = canvas.getBoundingClientRect(), room = stage.free();
    const view = stage.view();
    stage.look(camera.centred((event.clientX - left) / scale[0], (event.clientY - top) / scale[1],
      view.k, room));
  }

  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    drag(event);
  });
  canvas.addEventListener("pointermove", drag);
  stage.watch((view, picture) => { if (!stage.isMoving()) update(view, picture); });
  return { update };
};
