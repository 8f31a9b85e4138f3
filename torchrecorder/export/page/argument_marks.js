// Argument marks: the names of arguments at the heads of lines that enter an op in another order.

"use strict";

const createArgumentMarks = model => {
  const ASIDE = 3.5, BACK = 5, NEAR = 20, LETTER_WIDTH = 0.55, SMALL = 0.8, HIGH = 1.15;
  const { consumers } = model.data.tensors, size = model.data.fontsize * SMALL;
  let isVertical = true, axis = 0;

  // Marks by tensor and the index of its consumer; a mark with a negative position is always shown.
  const marks = new Map();
  for (const [tensor, consumer, text, position] of model.data.marks) {
    if (!marks.has(tensor)) marks.set(tensor, new Map());
    marks.get(tensor).set(consumer, { text: model.text(text), position });
  }
  // Marks of lines into closed modules.
  const closed = new Map();
  for (const [item, tensor, text, position] of model.data.closed_marks) {
    closed.set(`${tensor} ${item}`, { text: model.text(text), position });
  }

  // The mark of the line of `tensor` into `head`; of several such lines, that of line `copy`.
  function markOf(tensor, head, copy) {
    if (closed.has(`${tensor} ${head}`)) return closed.get(`${tensor} ${head}`);
    if (!marks.has(tensor)) return null;
    const indices = consumers[tensor].map((item, index) => (item === head ? index : -1));
    return marks.get(tensor).get(indices.filter(index => index >= 0)[copy]) ?? null;
  }

  const widthOf = text => text.length * size * LETTER_WIDTH;

  // The position and the anchor of a mark: right of a vertical line, above a horizontal one, or on
  // the other side.
  function positionOf(line, isOther) {
    const [before, [x, y]] = line.points.slice(-2);
    if (isVertical) {
      const [side, anchor] = isOther ? [x - ASIDE, "end"] : [x + ASIDE, "start"];
      return [side, y + (y > before[1] ? -BACK : BACK), anchor];
    }
    const middle = y + (isOther ? 0.7 : -0.7) * size;
    return x > before[0] ? [x - 2, middle, "end"] : [x + 2, middle, "start"];
  }

  // The distance of a line from the one before it at the same box.
  const roomBefore = (index, order) => endOf(order[index]) - endOf(order[index - 1]);

  // Whether a mark is left of an arrowhead: if that is away from other lines and its own line.
  function isLeftOf(index, order, beside) {
    if (order.length > 1) return !index;
    const { points } = order[0], [x, y] = points.at(-1), level = [];
    for (const other of beside) {
      other.points.slice(1).forEach(([right, end], index) => {
        const [left, start] = other.points[index];
        if (start === end && Math.abs(end - y) < NEAR) level.push(left, right);
      });
    }
    return level.some(at => at > x + ASIDE) && !level.some(at => at < x - ASIDE);
  }

  // Places the marks of all lines into one box: names, or numbers where names do not fit, or none
  // where the lines are in the order of the arguments.
  function placeMarks(group, leaving) {
    const order = [...group].sort((a, b) => endOf(a) - endOf(b));
    const positions = order.map(argumentOf).filter(position => position >= 0);
    const isSorted = positions.every((each, index) => !index || positions[index - 1] <= each);
    const numberOf = line =>
      (argumentOf(line) >= 0 && nameOf(line) ? String(argumentOf(line) + 1) : "");
    const isInner = index => index && index < order.length - 1;
    const fits = textOf => order.every((line, index) => !isInner(index) || (isVertical
      ? widthOf(textOf(line)) <= roomBefore(index + 1, order) - ASIDE
      : !textOf(line) || roomBefore(index, order) >= size * HIGH));
    const allNames = fits(nameOf), withInner = allNames || fits(numberOf);
    const texts = order.map((line, index) => {
      if (argumentOf(line) < 0) return nameOf(line);
      if (isSorted || !withInner && isInner(index)) return "";
      return allNames || !isVertical ? nameOf(line) : numberOf(line);
    });
    order.forEach((line, index) => {
      const isOther = texts[index] && (isVertical ? isLeftOf(index, order, leaving.get(line.tail))
        : index && index === order.length - 1 && roomBefore(index, order) < NEAR);
      line.mark = texts[index] ? [texts[index], ...positionOf(line, isOther)] : null;
    });
  }

  const nameOf = line => line.mark?.text ?? "";
  const argumentOf = line => line.mark?.position ?? -1;
  const endOf = line => line.points.at(-1)[axis];

  // `lines`, with their marks: [text, x, y, anchor] each.
  function marked(lines, direction) {
    isVertical = !isHorizontal(direction);
    axis = isVertical ? 0 : 1;
    if (!marks.size && !closed.size) return lines;
    const copies = new Map();
    for (const line of lines) {
      const key = `${line.tensor} ${line.head}`, copy = copies.get(key) ?? 0;
      copies.set(key, copy + 1);
      const hasHead = !line.exits && !line.continues && !line.loop;
      line.mark = hasHead ? markOf(line.tensor, line.head, copy) : null;
    }
    const leaving = Map.groupBy(lines, line => line.tail);
    const entering = lines.filter(line => !line.exits && !line.loop);
    const groups = Map.groupBy(entering, line => line.head);
    for (const group of groups.values()) {
      if (group.some(line => line.mark)) placeMarks(group, leaving);
    }
    return lines;
  }

  return { marked };
};
