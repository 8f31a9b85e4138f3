// Bundles: how many tensors a line stands for; more than three between two closed boxes are one.

"use strict";

const createBundles = model => {
  const MOST = 3, known = new Map(), marks = createMarks(model);
  const { consumers, look = [] } = model.data.tensors;

  // How many tensors of a trunk go into `head`.
  function countOf(value, head) {
    const members = model.members(value), key = `${value} ${head}`;
    if (!members.length) return 1;
    if (!known.has(key)) {
      known.set(key, members.filter(each =>
        consumers[each].some(item => model.within(item, head))).length || 1);
    }
    return known.get(key);
  }

  const count = line =>
    (line.exits ? model.members(line.value).length || 1 : countOf(line.value, line.head));

  // One line of several with the same ends: the middle one, which stands for the others.
  function joined(lines) {
    const order = [...lines].sort((a, b) => a.points[0][0] - b.points[0][0] ||
      a.points[0][1] - b.points[0][1]);
    const kept = order[order.length >> 1];
    kept.more = lines.filter(line => line !== kept).map(line => line.value);
    kept.count = lines.reduce((sum, line) => sum + line.count, 0);
    return kept;
  }

  function bundled(lines, isOpen, direction) {
    const groups = new Map();
    for (const line of lines) {
      line.count = count(line);
      const alone = line.enters || line.exits || isOpen(line.tail) || isOpen(line.head);
      const key = alone ? line : `${line.tail} ${line.head} ${look[line.value]}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(line);
    }
    return marks.give([...groups.values()].flatMap(group =>
      (group.length > MOST ? [joined(group)] : group)), direction);
  }

  // `picture` with these lines instead of its own; lines of hidden parts are not created.
  function of(picture, open, direction = model.data.direction) {
    const isOpen = item => open.has(item);
    const parts = picture.parts.map(part => {
      let lines = null;
      return {
        area: part.area, boxes: part.boxes,
        get lines() { return lines ??= bundled(part.lines, isOpen, direction); },
      };
    });
    let lines = null;
    return {
      ...size(picture), parts, boxes: picture.boxes,
      get lines() { return lines ??= parts.flatMap(part => part.lines); },
    };
  }

  const size = ({ width, height }) => ({ width, height });

  return { of };
};
