// Printing: on paper is all that is open, with the legend and in light colours; what is long is on
// several sheets.

"use strict";

const printing = (() => {
  // What fits on A4 and on Letter, in points, and how small text may become to fit on one sheet.
  const WIDE = 530, HIGH = 700, LEAST = 0.6, GAP = 6;

  // Where to cut between `from` and `limit`: in front of the boxes that would be cut, if that
  // leaves half a sheet.
  function cut(boxes, from, limit) {
    let at = limit;
    for (let last = Infinity; at < last;) {
      last = at;
      for (const { y, h } of boxes) if (y - GAP < at && at < y + h) at = y - GAP;
    }
    return at > (from + limit) / 2 ? at : limit;
  }

  // The areas of the picture that go on a sheet each, and their scale.
  function sheets(picture) {
    const all = saving.whole(picture), k = Math.min(1, WIDE / all.w), end = all.y + all.h;
    if (k < LEAST || HIGH / all.h >= LEAST) return { k: 1, areas: [all] };
    const closed = picture.boxes.filter(box => !box.open), areas = [];
    for (let y = all.y; y < end;) {
      const next = end - y <= HIGH / k ? end : cut(closed, y, y + HIGH / k);
      areas.push({ ...all, y, h: next - y });
      y = next;
    }
    return { k, areas };
  }

  function attach(by, model, state, stage, looks) {
    let made = [], theme = null, home = null;

    function begin() {
      if (made.length || !model.count) return;
      theme = state.get().theme;
      state.set({ theme: "light" });
      const { palette } = looks.told(), { k, areas } = sheets(stage.picture());
      made = areas.map(area => {
        const drawn = saving.svgOf(model, palette, stage.picture(), area);
        drawn.setAttribute("width", `${area.w * k}pt`);
        drawn.setAttribute("height", `${area.h * k}pt`);
        return make("div", "sheet", null, drawn);
      });
      home = by("legend").parentNode;
      made[made.length - 1].append(by("legend"));
      document.body.append(...made);
    }

    function end() {
      if (!made.length) return;
      home.append(by("legend"));
      for (const sheet of made) sheet.remove();
      made = [];
      state.set({ theme });
    }

    window.addEventListener("beforeprint", begin);
    window.addEventListener("afterprint", end);
  }

  return { attach, sheets, cut };
})();
