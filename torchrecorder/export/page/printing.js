// Printing: the whole picture with its legend in light colors, on several sheets if it is long.

"use strict";

const printing = (() => {
  // The printable area of both A4 and Letter, in points, and the smallest scale for one sheet.
  const WIDTH = 530, HEIGHT = 700, SMALLEST = 0.6, GAP = 6;

  // The end of a sheet between `from` and `limit`: before the boxes that would be cut in two, if at
  // least half of the sheet is filled then.
  function cut(boxes, from, limit) {
    let at = limit;
    for (let last = Infinity; at < last;) {
      last = at;
      for (const { y, h } of boxes) if (y - GAP < at && at < y + h) at = y - GAP;
    }
    return at > (from + limit) / 2 ? at : limit;
  }

  // The areas of the picture on each sheet, and their scale.
  function sheets(picture) {
    const all = saving.wholeArea(picture), k = Math.min(1, WIDTH / all.w), end = all.y + all.h;
    if (k < SMALLEST || HEIGHT / all.h >= SMALLEST) return { k: 1, areas: [all] };
    const closed = picture.boxes.filter(box => !box.open), areas = [];
    for (let y = all.y; y < end;) {
      const next = end - y <= HEIGHT / k ? end : cut(closed, y, y + HEIGHT / k);
      areas.push({ ...all, y, h: next - y });
      y = next;
    }
    return { k, areas };
  }

  function attach({ byId, model, state, stage, styling }) {
    let printed = [], theme = null, corner = null, isOpen = false;

    function begin() {
      if (printed.length || !model.count) return;
      theme = state.get().theme;
      state.set({ theme: "light" });
      const unselected = styling.current({ selected: -1, tensor: -1 });
      const { k, areas } = sheets(stage.picture());
      printed = areas.map(area => {
        const svg = saving.svgOf(model, unselected, stage.picture(), area);
        svg.setAttribute("width", `${area.w * k}pt`);
        svg.setAttribute("height", `${area.h * k}pt`);
        return createElement("div", "sheet", null, svg);
      });
      corner = byId("legend").parentNode;
      isOpen = byId("legend").open;
      byId("legend").open = true;
      printed.at(-1).append(byId("legend"));
      document.body.append(...printed);
    }

    function end() {
      if (!printed.length) return;
      corner.append(byId("legend"));
      byId("legend").open = isOpen;
      for (const sheet of printed) sheet.remove();
      printed = [];
      state.set({ theme });
    }

    window.addEventListener("beforeprint", begin);
    window.addEventListener("afterprint", end);
  }

  return { attach, sheets, cut };
})();
