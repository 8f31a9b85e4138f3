// Layout inputs: the parts of the state that change the layout, and the texts on boxes besides
// their labels.

"use strict";

const layoutInputs = (() => {
  const KEYS = ["open", "hidden", "siblings", "root", "direction", "color"];
  // The space for a number in each format, and for its share of the total, in letters.
  const LETTERS = { exact: 11, bytes: 7, seconds: 7, flops: 10, share: 6, number: 8 }, SHARE = 9;

  const changed = (now, before) => KEYS.some(name => now[name] !== before[name]);

  const initial = model => ({
    hidden: new Set(), siblings: new Map(), root: -1, direction: model.data.direction,
  });

  const annotation = (model, now) =>
    model.data.annotations.find(each => each.key === now.color) ?? null;

  // The number on a box, with its share of the total.
  function numberOf(model, now, item) {
    const shown = annotation(model, now), text = shown && numbers.textOf(shown, item, model);
    if (!text) return "";
    const share = model.shareOf(shown, item);
    return share === null ? text : `${text} · ${numbers.percent(share)}`;
  }

  // The number of the sibling of a fold that is shown, as text.
  function siblingOf(model, now, fold) {
    const all = model.children[fold + 1], shown = model.shownChildren(fold, now.siblings);
    const place = shown.length === 1 ? `${all.indexOf(shown[0]) + 1} of` : "all";
    return `${place} ${all.length} ▾`;
  }

  // The texts on a box below its label.
  function extraLabel(model, now, item, open) {
    const texts = [], number = numberOf(model, now, item);
    if (open && model.isFold(item)) {
      texts.push({ text: siblingOf(model, now, item), part: 2, siblings: true });
    }
    if (number) texts.push({ text: number, part: 2, number: true });
    return texts;
  }

  // Width and height of the texts in the corner of an open box; then those with the title in one
  // line, if it is in two.
  function header(model, now, item) {
    const sizes = model.data.items.header_size[item];
    const size = shapes.fontSize(2, model.data.fontsize), more = extraLabel(model, now, item, true);
    const least = Math.max(0, ...more.map(({ text }) => shapes.textWidth(text, size)));
    return sizes.map((each, index) => (index % 2
      ? each + more.length * size * shapes.LINE_HEIGHT : Math.max(each, least)));
  }

  // The most letters of a number, which has texts of its own if it says more than an amount.
  const lettersOf = (model, { texts, format }) => (texts ?? []).reduce(
    (most, text) => Math.max(most, model.text(text).length), LETTERS[format]);

  // The closed boxes that have a number, and the space for it.
  function numbered(model, now) {
    const shown = annotation(model, now), size = shapes.fontSize(2, model.data.fontsize);
    if (!shown || shown.format === "text") return null;
    const letters = lettersOf(model, shown) + (shown.sum ? SHARE : 0);
    return {
      has: item => shown.values[item] !== null, height: size * shapes.LINE_HEIGHT,
      width: letters * size * shapes.LETTER_WIDTH,
    };
  }

  // The options of the layout in a state.
  const of = (model, now) => ({
    hidden: now.hidden, siblings: now.siblings, root: now.root, direction: now.direction,
    numbered: numbered(model, now), header: item => header(model, now, item),
  });

  return { changed, initial, of, extraLabel, annotation };
})();
