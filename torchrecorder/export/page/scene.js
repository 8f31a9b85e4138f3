// Scene: the SVG elements of the boxes and lines near the window; no others are in the document.

"use strict";

const createScene = (host, model) => {
  const MARGIN = 320, MOVING_MARGIN = 40;  // around the window, in pixels
  const READABLE = 3, SMALL = 2.5, INVISIBLE = 0.4;  // font size and sizes of boxes, in pixels
  // The shortest lines that are drawn, in pixels: below a scale, and otherwise.
  const SMALL_SCALE = 0.1, LONG_LINE = 24, SHORT_LINE = 1.5;
  const svg = createSvgElement("svg", { class: "picture", role: "presentation" });
  const world = createSvgElement("g", { "font-family": paint.fonts(model) });
  const layer = (name, parent = world) =>
    parent.appendChild(createSvgElement("g", { class: name, role: "presentation" }));
  const [clusters, specks, lines, boxes, highlights, labels] =
    ["clusters", "specks", "lines", "boxes", "highlights", "zoom-labels"].map(name => layer(name));
  const levels = [];  // layers of open boxes, the outer ones below
  svg.append(world);
  host.append(svg);

  const drawn = new Map();  // item -> its elements and what they show
  let base = null;  // the view that is drawn
  let margin = MARGIN;  // the margin that is drawn
  let palette = null;

  function levelLayer(level) {
    while (levels.length <= level) levels.push(layer(null, clusters));
    return levels[level];
  }

  // The boxes near the window: those that are drawn in full, and those as small rectangles.
  function visibleBoxes(picture, view, size) {
    const area = camera.visibleArea(view, size, margin), full = [], small = [];
    const isSmall = ({ w, h }) => Math.min(w, h) * view.k < SMALL;
    for (const part of camera.visibleParts(picture, area)) {
      if (part.area && isSmall(part.area)) continue;
      for (const box of part.boxes) {
        if (!camera.overlaps(box, area)) continue;
        if (!isSmall(box)) full.push(box.open ? shapes.clipped(box, area) : box);
        else if (Math.max(box.w, box.h) * view.k >= INVISIBLE) small.push(box);
      }
    }
    return { full, small };
  }

  function visibleLines(picture, view, size) {
    const area = camera.visibleArea(view, size, margin);
    const least = (view.k < SMALL_SCALE ? LONG_LINE : SHORT_LINE) / view.k;
    const isLong = part => !part.area || part.area.w > least || part.area.h > least;
    return camera.visibleParts(picture, area).filter(isLong).flatMap(part => part.lines)
      .filter(line => shapes.isLineIn(line, area) &&
        (line.x1 - line.x0 > least || line.y1 - line.y0 > least));
  }

  function place(shown, box) {
    const [x, y] = [box.x, box.y].map(at => Math.round(at * 100) / 100);
    const transform = `translate(${x} ${y})` +
      (box.sx === undefined ? "" : ` scale(${box.sx} ${box.sy})`);
    if (shown.transform !== transform) {
      shown.transform = transform;
      shown.group.setAttribute("transform", transform);
    }
    const alpha = box.alpha ?? 1;
    if (shown.alpha === alpha) return;
    shown.alpha = alpha;
    if (alpha < 1) shown.group.setAttribute("opacity", alpha.toFixed(3));
    else shown.group.removeAttribute("opacity");
  }

  function fill(shown, box, withText) {
    const { open, hidden, w, h, cut, inOne } = box;
    const next = { palette, open, hidden, w, h, cut, inOne };
    const isSame = Object.keys(next).every(key => shown[key] === next[key]);
    if (isSame && (shown.withText || !withText)) return;
    Object.assign(shown, next, { withText });
    shown.group.replaceChildren(...paint.boxParts(model, palette, box, withText)
      .map(part => createSvgElement(...part)));
  }

  function describe(shown, box, styling) {
    const isSelected = styling.chosen.includes(box.item);
    if (shown.isSelected !== isSelected) {
      shown.isSelected = isSelected;
      shown.group.setAttribute("aria-selected", isSelected);
    }
    const name = styling.accessibleName(box.item, box.open, box.hidden);
    if (shown.name === name) return;
    shown.name = name;
    shown.group.setAttribute("aria-label", name);
    if (model.canOpen(box.item)) shown.group.setAttribute("aria-expanded", box.open);
  }

  function toggleClass(shown, name, value) {
    if (shown[name] === value) return;
    shown[name] = value;
    shown.group.classList.toggle(name, value);
  }

  function show(box, withText, styling) {
    let shown = drawn.get(box.item);
    if (!shown) {
      shown = { group: createSvgElement("g", {
        class: "box", id: `box-${box.item}`, role: "treeitem",
        "aria-level": model.level[box.item] + 1,
      }) };
      drawn.set(box.item, shown);
    }
    toggleClass(shown, "emphasized", Boolean(styling.isEmphasized?.(box)));
    const parent = box.open ? levelLayer(model.level[box.item]) : boxes;
    if (shown.group.parentNode !== parent) parent.append(shown.group);
    place(shown, box);
    fill(shown, box, withText);
    describe(shown, box, styling);
  }

  function removeAllBut(items) {
    for (const [item, shown] of drawn) {
      if (items.has(item)) continue;
      shown.group.remove();
      drawn.delete(item);
    }
  }

  // The boxes in the order of the run, in which screen readers read them: in the document, open ones
  // are below all lines, and closed ones above.
  function order() {
    const ids = [...drawn.keys()].sort((a, b) => a - b).map(item => `box-${item}`).join(" ");
    if (host.getAttribute("aria-owns") !== ids) host.setAttribute("aria-owns", ids);
  }

  // One path for all small boxes of a color.
  function drawSmall(list) {
    const byColor = new Map();
    for (const box of list) {
      const look = palette.look(box.item, box.open);
      const fill = palette.annotation && !look.faint && !box.open ? look.fill : look.stroke;
      const path = `M${box.x.toFixed(1)} ${box.y.toFixed(1)}h${box.w.toFixed(1)}` +
        `v${box.h.toFixed(1)}h${(-box.w).toFixed(1)}z`;
      byColor.set(fill, (byColor.get(fill) ?? "") + path);
    }
    specks.replaceChildren(...[...byColor].map(([fill, d]) =>
      createSvgElement("path", { d, fill, "fill-opacity": 0.5 })));
  }

  // One path for all lines with the same look, and one for their arrowheads. Returns the lines to
  // highlight, [line, relation] each.
  function drawLines(list, relation) {
    const plain = [], highlighted = [];
    for (const line of list) {
      const related = line.alpha < 0.7 ? null : relation?.(line);
      if (related) highlighted.push([line, related]);
      else plain.push(line);
    }
    const groups = Map.groupBy(plain, line => {
      const { stroke, dash, width } = paint.lineLook(model, palette, line);
      return [stroke, dash, width, line.alpha].join();
    });
    lines.setAttribute("class", relation ? "lines dim" : "lines");
    lines.replaceChildren(...[...groups.values()].flatMap(linePaths));
    lines.append(...list.filter(line => line.mark && !(line.alpha < 0.7)).map(line =>
      createSvgElement(...paint.argumentMark(model, palette, line))));
    return highlighted;
  }

  const pathOf = list => list.map(line => line.d).join("");
  const arrowheadsOf = list => list.filter(line => line.arrowhead)
    .map(line => shapes.arrowhead(line.arrowhead)).join("");

  function linePaths(list) {
    const look = paint.lineLook(model, palette, list[0]), { alpha } = list[0];
    const opacity = alpha < 1 ? alpha.toFixed(2) : null;
    return [
      createSvgElement("path", { d: pathOf(list), fill: "none", opacity, ...paint.stroked(look) }),
      createSvgElement("path", { d: arrowheadsOf(list), fill: look.stroke, opacity }),
    ];
  }

  // Highlighted lines, and rings around selected, related and equal boxes.
  function drawHighlights(picture, full, highlighted, styling, view) {
    const dashes = line => paint.stroked(paint.lineLook(model, palette, line))["stroke-dasharray"];
    const result = ["in", "out", "path"].flatMap(relation => {
      const list = highlighted.filter(each => each[1] === relation).map(each => each[0]);
      return !list.length ? [] : [
        ...[...Map.groupBy(list, dashes)].map(([dash, same]) => createSvgElement("path", {
          class: `related ${relation}`, d: pathOf(same), fill: "none", "stroke-dasharray": dash })),
        createSvgElement("path", { class: `related-head ${relation}`, d: arrowheadsOf(list) })];
    });
    const rings = relations.rings(picture, full, styling).map(([box, kind]) => createSvgElement(
      "rect", { class: `ring ${kind}`, ...shapes.ring(box, kind, view.k) }));
    highlights.replaceChildren(...result, ...rings);
  }

  function drawZoomLabels(full, view, fontsize, size) {
    const chosen = zoomLabels.choose(full, view, fontsize, model, size);
    const leaders = chosen.filter(each => each.leader).map(({ leader }) => `M${leader.join("L")}`);
    const dotted = createSvgElement("path", { class: "leaders", d: leaders.join(""), fill: "none",
      stroke: palette.colors.line, "stroke-width": 1 / view.k,
      "stroke-dasharray": `${1 / view.k} ${3 / view.k}` });
    labels.replaceChildren(dotted, ...chosen.map(label => createSvgElement("text", {
      class: "zoom-label", x: label.x, y: label.y,
      "font-size": label.size, "stroke-width": label.size / 4 }, label.text)));
    const replaced = new Set(chosen.map(label => label.on));
    for (const [item, shown] of drawn) toggleClass(shown, "labeled", replaced.has(item));
  }

  // Draws `picture` as seen in `view`, in a window of `size`, of which no panel covers `free`. During
  // a transition, almost nothing outside the window is drawn.
  function draw(picture, view, size, free, styling, isMoving) {
    margin = isMoving ? MOVING_MARGIN : MARGIN;
    palette = styling.palette;
    base = view;
    svg.setAttribute("width", size.width + 2 * margin);
    svg.setAttribute("height", size.height + 2 * margin);
    svg.style.left = svg.style.top = `${-margin}px`;
    svg.style.transform = "";
    world.setAttribute("transform", `translate(${margin - view.x * view.k} ` +
      `${margin - view.y * view.k}) scale(${view.k})`);
    const fontsize = model.data.fontsize * view.k;
    svg.classList.toggle("no-detail", fontsize * 0.8 < READABLE);
    svg.classList.toggle("no-text", fontsize < READABLE);
    svg.classList.toggle("emphasis", Boolean(styling.isEmphasized));
    const { full, small } = visibleBoxes(picture, view, size);
    for (const box of full) show(box, fontsize >= READABLE && !box.cut, styling);
    removeAllBut(new Set(full.map(box => box.item)));
    if (!isMoving) order();
    drawSmall(small);
    const highlighted = drawLines(visibleLines(picture, view, size), styling.relation);
    drawHighlights(picture, full, highlighted, styling, view);
    drawZoomLabels(full, view, fontsize, free);
  }

  // Moves the picture without drawing; false if parts that become visible are not drawn yet.
  function pan(view) {
    if (base?.k !== view.k) return false;
    const dx = (base.x - view.x) * view.k, dy = (base.y - view.y) * view.k;
    if (Math.abs(dx) > margin || Math.abs(dy) > margin) return false;
    svg.style.transform = `translate(${dx}px, ${dy}px)`;
    return true;
  }

  return { draw, pan, count: () => drawn.size };
};
