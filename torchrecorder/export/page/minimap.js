// Minimap: the whole picture in a corner, with the part in the window, which can be dragged.

"use strict";

const createMinimap = ({ byId, stage, styling }) => {
  const WIDTH = 148, HEIGHT = 132, NARROWEST = 26;
  const canvas = byId("minimap"), context = canvas.getContext("2d");
  let image = null, scale = [1, 1], drawn = {};

  // The size on the screen, and pixels per point in both directions; narrow pictures are stretched.
  function measure({ width, height }) {
    const k = Math.min(WIDTH / Math.max(width, 1), HEIGHT / Math.max(height, 1));
    const size = [Math.max(width * k, NARROWEST), Math.max(height * k, NARROWEST)];
    return { size, scale: [size[0] / Math.max(width, 1), size[1] / Math.max(height, 1)] };
  }

  function paintBoxes(picture, palette) {
    const { size, scale: factors } = measure(picture), dots = window.devicePixelRatio || 1;
    const result = document.createElement("canvas");
    [result.width, result.height] = size.map(side => Math.ceil(side * dots));
    const into = result.getContext("2d");
    into.scale(factors[0] * dots, factors[1] * dots);
    // Of thousands of boxes on one pixel, only the first one of each kind is painted.
    const painted = new Set();
    const isPainted = ({ x, y, w, h, open }) => {
      if (w * factors[0] > 1 || h * factors[1] > 1) return false;
      const pixel = Math.round(x * factors[0]) * 1e4 + Math.round(y * factors[1]);
      return painted.size === painted.add(2 * pixel + Number(open)).size;
    };
    for (const box of picture.boxes) {
      if (isPainted(box)) continue;
      const look = palette.look(box.item, box.open);
      if (box.open) {
        into.fillStyle = look.fill === "transparent" ? palette.colors.paper : look.fill;
        into.fillRect(box.x, box.y, box.w, box.h);
        continue;
      }
      into.fillStyle = palette.annotation && !look.faint ? look.fill : look.stroke;
      into.globalAlpha = look.faint ? 0.25 : 0.85;
      into.fillRect(box.x, box.y, box.w, Math.max(box.h, 0.8 / factors[1]));
      into.globalAlpha = 1;
    }
    scale = factors;
    canvas.style.width = `${size[0]}px`;
    canvas.style.height = `${size[1]}px`;
    [canvas.width, canvas.height] = [result.width, result.height];
    return result;
  }

  function update(view, picture) {
    const { palette } = styling.current();
    if (drawn.picture !== picture || drawn.palette !== palette) {
      image = paintBoxes(picture, palette);
      drawn = { picture, palette };
    }
    const dots = window.devicePixelRatio || 1, size = stage.freeSize();
    const isAllVisible =
      size.width / view.k >= picture.width && size.height / view.k >= picture.height;
    canvas.hidden = isAllVisible || picture.boxes.length < 2;
    if (canvas.hidden) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    paintWindow(view, size, palette);
  }

  function paintWindow(view, size, palette) {
    const [sx, sy] = scale, x = view.x * sx, y = view.y * sy;
    const w = Math.max(size.width / view.k * sx, 4), h = Math.max(size.height / view.k * sy, 4);
    context.fillStyle = palette.theme === "dark" ? "rgba(0,0,0,.4)" : "rgba(255,255,255,.5)";
    context.beginPath();
    context.rect(0, 0, canvas.width, canvas.height);
    context.rect(x, y, w, h);
    context.fill("evenodd");
    context.strokeStyle = getComputedStyle(canvas).getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.strokeRect(x, y, w, h);
  }

  function drag(event) {
    if (!event.buttons) return;
    const { left, top } = canvas.getBoundingClientRect();
    const x = (event.clientX - left) / scale[0], y = (event.clientY - top) / scale[1];
    stage.setView(camera.centered(x, y, stage.view().k, stage.freeSize()));
  }

  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    drag(event);
  });
  canvas.addEventListener("pointermove", drag);
  stage.onDraw((view, picture) => { if (!stage.isMoving()) update(view, picture); });
};
