// Scene: keeps only open boxes near the window in the document.

"use strict";

const createScene = (host, model) => {
  const MARGIN = 320, NARROW = 40, READABLE = 3, SMALL = 2.5, NOTHING = 0.4, LINES = 0.1, LONG = 24;
  const make = (tag, attributes, said) => paint.element(document, tag, attributes, said);
  const svg = make("svg", { class: "picture", role: "presentation" });
  const world = make("g", { "font-family": paint.fonts(model) });
  const layer = name => world.appendChild(make("g", { class: name, role: "presentation" }));
  const [clusters, dust, lines, boxes, marks] =
    ["clusters", "dust", "lines", "boxes", "marks"].map(layer);
  const signs = layer("signs");
  const levels = [];
  svg.append(world);
  host.append(svg);

  const drawn = new Map();  // item -> what is in the document for it
  let base = null;  // the view that the document was drawn for
  let margin = MARGIN;  // how far beyond the window it was drawn
  let palette = null;

  function levelLayer(level) {
    while (levels.length <= level) {
      levels.push(clusters.appendChild(make("g", { role: "presentation" })));
    }
    return levels[level];
  }

  // Sorts boxes near the window into those drawn in full and those drawn as small rectangles.
  function visible(picture, view, room) {
    const seen = camera.area(view, room, margin), whole = [], specks = [];
    const isSmall = ({ w, h }) => Math.min(w, h) * view.k < SMALL;
    for (const { area, boxes: own } of camera.parts(picture, seen)) {
      if (area && isSmall(area)) continue;
      for (const box of own) {
        if (!camera.meets(box, seen)) continue;
        if (!isSmall(box)) whole.push(box.open ? shapes.clipped(box, seen) : box);
        else if (Math.max(box.w, box.h) * view.k >= NOTHING) specks.push(box);
      }
    }
    return { whole, specks };
  }

  function visibleLines(picture, view, room) {
    const seen = camera.area(view, room, margin);
    const least = (view.k < LINES ? LONG : 1.5) / view.k;
    const isLong = ({ area }) => !area || area.w > least || area.h > least;
    return camera.parts(picture, seen).filter(isLong).flatMap(part => part.lines.filter(line =>
      line.x0 < seen.x + seen.w && line.x1 > seen.x &&
      line.y0 < seen.y + seen.h && line.y1 > seen.y &&
      (line.x1 - line.x0 > least || line.y1 - line.y0 > least)));
  }

  function place(shown, box) {
    const at = `translate(${Math.round(box.x * 100) / 100} ${Math.round(box.y * 100) / 100})` +
      (box.sx === undefined ? "" : ` scale(${box.sx} ${box.sy})`);
    if (shown.at !== at) shown.group.setAttribute("transform", shown.at = at);
    const alpha = box.alpha ?? 1;
    if (shown.alpha !== alpha) {
      shown.alpha = alpha;
      if (alpha < 1) shown.group.setAttribute("opacity", alpha.toFixed(3));
      else shown.group.removeAttribute("opacity");
    }
  }

  function fill(shown, box, withText) {
    const same = shown.palette === palette && shown.open === box.open && shown.hidden === box.hidden && shown.w === box.w &&
      shown.h === box.h && shown.cut === box.cut && (shown.withText || !withText);
    if (same) return;
    Object.assign(shown, { palette, open: box.open, hidden: box.hidden, w: box.w, h: box.h, cut: box.cut, withText });
    shown.group.replaceChildren(...paint.parts(model, palette, box, withText)
      .map(([tag, attributes, said]) => make(tag, attributes, said)));
  }

  function describe(shown, box, told) {
    const { group } = shown, said = told.label(box.item, box.open, box.hidden);
    if (shown.said === said) return;
    shown.said = said;
    group.setAttribute("aria-label", said);
    if (model.canOpen(box.item)) group.setAttribute("aria-expanded", box.open);
  }

  function show(box, withText, told) {
    let shown = drawn.get(box.item);
    if (!shown) {
      shown = { group: make("g", {
        class: "box", id: `box-${box.item}`, role: "treeitem",
        "aria-level": model.level[box.item] + 1,
      }) };
      drawn.set(box.item, shown);
    }
    const isOfType = Boolean(told.isOfType?.(box.item));
    if (shown.isOfType !== isOfType) shown.group.classList.toggle("of-type", shown.isOfType = isOfType);
    const into = box.open ? levelLayer(model.level[box.item]) : boxes;
    if (shown.into !== into) into.appendChild(shown.group);
    shown.into = into;
    place(shown, box);
    fill(shown, box, withText);
    describe(shown, box, told);
  }

  function remove(keep) {
    for (const [item, shown] of drawn) {
      if (keep.has(item)) continue;
      shown.group.remove();
      drawn.delete(item);
    }
  }

  // One path for all boxes of a colour that are too small for anything else.
  function drawSpecks(specks) {
    const byColour = new Map();
    for (const box of specks) {
      const look = palette.look(box.item, box.open);
      const shade = palette.annotation && !look.faint && !box.open ? look.fill : look.stroke;
      const path = `M${box.x.toFixed(1)} ${box.y.toFixed(1)}h${box.w.toFixed(1)}` +
        `v${box.h.toFixed(1)}h${(-box.w).toFixed(1)}z`;
      byColour.set(shade, (byColour.get(shade) ?? "") + path);
    }
    dust.replaceChildren(...[...byColour].map(([shade, d]) =>
      make("path", { d, fill: shade, "fill-opacity": 0.5 })));
  }

  // One path for all lines that look the same, one for their tips.
  function drawLines(list, relation) {
    const groups = new Map(), lit = [];
    for (const line of list) {
      const way = relation?.(line) ?? null;
      if (way && !(line.alpha < 0.7)) {
        lit.push([line, way]);
        continue;
      }
      const look = paint.lineLook(model, palette, line), alpha = line.alpha ?? 1;
      const key = `${look.stroke} ${look.dash} ${look.width} ${alpha}`;
      if (!groups.has(key)) groups.set(key, { look, alpha, ways: [], tips: [] });
      groups.get(key).ways.push(line.d);
      if (line.tip) groups.get(key).tips.push(shapes.tip(line.tip));
    }
    lines.setAttribute("class", relation ? "lines dim" : "lines");
    lines.replaceChildren(...[...groups.values()].flatMap(linePaths));
    lines.append(...list.filter(line => line.mark && !(line.alpha < 0.7)).map(line =>
      make(...paint.mark(model, palette, line))));
    return lit;
  }

  function linePaths({ look, alpha, ways, tips }) {
    const opacity = alpha < 1 ? alpha.toFixed(2) : null;
    return [
      make("path", { d: ways.join(""), fill: "none", opacity, ...paint.stroked(look) }),
      make("path", { d: tips.join(""), fill: look.stroke, opacity }),
    ];
  }

  function drawMarks(picture, whole, lit, told, view) {
    const found = [], frames = told.neighbours || told.selected >= 0 ? motion.index(picture) : null;
    for (const way of ["in", "out"]) {
      const own = lit.filter(each => each[1] === way).map(each => each[0]);
      if (!own.length) continue;
      found.push(
        make("path", { class: `lit ${way}`, d: own.map(line => line.d).join(""), fill: "none" }),
        make("path", { class: `lit-tip ${way}`,
          d: own.filter(line => line.tip).map(line => shapes.tip(line.tip)).join("") }));
    }
    for (const [item, way] of told.neighbours ?? []) {
      if (frames.has(item)) found.push(ring(frames.get(item), `ring ${way}`, 2, view));
    }
    for (const box of told.isEqual ? whole : []) {
      if (told.isEqual(box.item)) found.push(ring(box, "ring equal", 3.5, view));
    }
    if (frames?.has(told.selected)) {
      found.push(ring(frames.get(told.selected), "ring chosen", 3.5, view));
    }
    marks.replaceChildren(...found);
  }

  function ring(box, name, gap, view) {
    const away = Math.min(gap / view.k, 24) + (gap > 3 ? 1 : 0);
    return make("rect", {
      class: name, x: box.x - away, y: box.y - away, rx: Math.min(9, 6 + away),
      width: box.w * (box.sx ?? 1) + 2 * away, height: box.h * (box.sy ?? 1) + 2 * away,
    });
  }

  // Draw `picture` as seen in `view`. `told`: {palette, label, relation, neighbours, selected}.
  // During a transition, nothing outside the window is drawn.
  function draw(picture, view, room, told, brief = false) {
    margin = brief ? NARROW : MARGIN;
    palette = told.palette;
    base = { ...view, picture, told };
    svg.setAttribute("width", room.width + 2 * margin);
    svg.setAttribute("height", room.height + 2 * margin);
    svg.style.left = svg.style.top = `${-margin}px`;
    svg.style.transform = "";
    world.setAttribute("transform", `translate(${margin - view.x * view.k} ` +
      `${margin - view.y * view.k}) scale(${view.k})`);
    const size = model.data.fontsize * view.k;
    svg.classList.toggle("no-detail", size * 0.8 < READABLE);
    const { whole, specks } = visible(picture, view, room);
    for (const box of whole) show(box, size >= READABLE && !box.cut, told);
    remove(new Set(whole.map(box => box.item)));
    svg.classList.toggle("by-type", Boolean(told.isOfType));
    svg.classList.toggle("no-text", size < READABLE);
    drawSpecks(specks);
    const lit = drawLines(visibleLines(picture, view, room), told.relation);
    drawMarks(picture, whole, lit, told, view);
    const chosen = zoomLabels.choose(whole, view, size, model, room);
    signs.replaceChildren(...chosen.map(drawSign));
    hideTextsBelow(new Set(chosen.map(sign => sign.on)));
  }

  function hideTextsBelow(signed) {
    for (const [item, shown] of drawn) {
      const isSigned = signed.has(item);
      if (shown.isSigned !== isSigned) shown.group.classList.toggle("signed", shown.isSigned = isSigned);
    }
  }

  function drawSign({ text, x, y, size }) {
    return make("text", { class: "sign", x, y, "font-size": size, "stroke-width": size / 4 }, text);
  }

  // Moves the picture without drawing; false if parts that become visible are not drawn yet.
  function pan(view) {
    if (!base || base.k !== view.k) return false;
    const dx = (base.x - view.x) * view.k, dy = (base.y - view.y) * view.k;
    if (Math.abs(dx) > margin || Math.abs(dy) > margin) return false;
    svg.style.transform = `translate(${dx}px, ${dy}px)`;
    return true;
  }

  function clear() {
    remove(new Set());
    base = null;
  }

  return { svg, draw, pan, clear, count: () => drawn.size };
};
