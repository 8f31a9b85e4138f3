// Bundles: the number of tensors of each line; more than three lines between two closed boxes are
// drawn as one.

"use strict";

const createBundles = model => {
  const MOST = 3, counts = new Map(), marks = createArgumentMarks(model);
  const { consumers } = model.data.tensors;

  // The number of tensors of a trunk that are consumed in `head`; 1 for other tensors.
  function countInto(tensor, head) {
    const members = model.members(tensor), key = `${tensor} ${head}`;
    if (!members.length) return 1;
    if (!counts.has(key)) {
      counts.set(key, members.filter(each =>
        consumers[each].some(item => model.within(item, head))).length || 1);
    }
    return counts.get(key);
  }

  const countOf = line =>
    (line.exits ? model.members(line.tensor).length || 1 : countInto(line.tensor, line.head));

  // The middle one of lines with the same ends, which stands for the others.
  function merged(lines) {
    const order = [...lines].sort((a, b) => a.points[0][0] - b.points[0][0] ||
      a.points[0][1] - b.points[0][1]);
    const kept = order[order.length >> 1];
    kept.bundled = lines.filter(line => line !== kept).map(line => line.tensor);
    kept.count = lines.reduce((sum, line) => sum + line.count, 0);
    return kept;
  }

  // Lines of a horizontal flow leave the slanted sides of inputs; they begin at the outline.
  function fromSlantedSides({ boxes, lines }, direction) {
    const isSlanted = ({ item, hidden }) =>
      !hidden && model.look(item, false).light.outline === "parallelogram";
    const slanted = new Map(boxes.filter(isSlanted).map(box => [box.item, box]));
    for (const line of slanted.size ? lines : []) {
      const box = slanted.get(line.tail), [x, y] = line.points[0];
      if (!box) continue;
      const lean = shapes.lean(box.w), share = (y - box.y) / box.h;
      line.begin = [direction === "LR" ? x - lean * share : x + lean * (1 - share), y];
    }
  }

  function bundled(part, isOpen, direction) {
    const { lines } = part;
    if (isHorizontal(direction)) fromSlantedSides(part, direction);
    for (const line of lines) line.count = countOf(line);
    const isAlone = line => line.enters || line.exits || isOpen(line.tail) || isOpen(line.head);
    const groups = Map.groupBy(lines, line =>
      (isAlone(line) ? line : `${line.tail} ${line.head} ${model.lineLook(line)}`));
    return marks.marked([...groups.values()].flatMap(group =>
      (group.length > MOST ? [merged(group)] : group)), direction);
  }

  // `picture` with bundles and marks; the lines of a part are created on demand.
  function of(picture, open, direction) {
    const isOpen = item => open.has(item);
    const parts = picture.parts.map(part => withLines(
      { area: part.area, boxes: part.boxes }, () => bundled(part, isOpen, direction)));
    const { width, height, boxes } = picture;
    return withLines({ width, height, parts, boxes }, () => parts.flatMap(part => part.lines));
  }

  return { of };
};
