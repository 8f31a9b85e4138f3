// Arrangement: which boxes are shown in which direction, and what is written on them besides their
// labels.

"use strict";

const arrangement = (() => {
  const PARTS = ["open", "hidden", "siblings", "root", "direction", "colour"];
  const LETTERS = { exact: 11, bytes: 7, seconds: 7, flops: 10, share: 6, number: 8 }, SHARE = 9;

  const changed = (now, before) => PARTS.some(name => now[name] !== before[name]);

  const first = model => ({
    hidden: new Set(), siblings: new Map(), root: -1, direction: model.data.direction,
  });

  const annotation = (model, now) =>
    model.data.annotations.find(each => each.key === now.colour) ?? null;

  // The number of a box with its share of the whole, as it stands on it.
  function numberOf(model, now, item) {
    const found = annotation(model, now), said = found && numbers.of(found, item, model);
    if (!said) return "";
    const share = model.shareOf(found, item);
    return share === null ? said : `${said} · ${numbers.percent(share)}`;
  }

  // Which sibling of a fold is shown, as text.
  function siblingOf(model, now, fold) {
    const all = model.children[fold + 1], shown = model.inside(fold, now.siblings);
    const place = shown.length === 1 ? `${all.indexOf(shown[0]) + 1} of` : "all";
    return `${place} ${all.length} ▾`;
  }

  // The lines in a box below its label.
  function below(model, now, item, open) {
    const found = [];
    if (open && model.isFold(item)) found.push({ text: siblingOf(model, now, item), part: 2, siblings: true });
    const number = numberOf(model, now, item);
    if (number) found.push({ text: number, part: 2, number: true });
    return found;
  }

  // Width and height of what is in the corner of an open box.
  function header(model, now, item) {
    const [width, height] = model.data.items.headersize[item];
    const size = shapes.sizeOf(2, model.data.fontsize), more = below(model, now, item, true);
    return [Math.max(width, ...more.map(({ text }) => shapes.widthOf(text, size))),
      height + more.length * size * shapes.LEADING];
  }

  // Room for the number of a closed box, for those that have one.
  function numbered(model, now) {
    const found = annotation(model, now), size = shapes.sizeOf(2, model.data.fontsize);
    if (!found || found.format === "text") return null;
    const letters = (LETTERS[found.format] ?? LETTERS.number) + (found.sum ? SHARE : 0);
    return {
      has: item => found.values[item] !== null, height: size * shapes.LEADING,
      width: letters * size * shapes.INK,
    };
  }

  // What the layout has to know besides what is open.
  const how = (model, now) => ({
    hidden: now.hidden, siblings: now.siblings, root: now.root, direction: now.direction,
    numbered: numbered(model, now), header: item => header(model, now, item),
  });

  return { changed, first, how, below, annotation };
})();
