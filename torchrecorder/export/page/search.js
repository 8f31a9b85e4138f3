// Search: finds boxes by name, class, op, shape, parameter and line of code, and those that draw
// random numbers, the best ones first.

"use strict";

const search = (() => {
  const MOST = 40;  // of modules, and of all others

  // The parameters and buffers of a module; those of siblings of a fold are found there.
  const storedIn = (model, item) => (model.isFold(item) ? [] : model.stored(item));

  // The dotted path of something in an item.
  const inside = (path, name) => (path ? `${path}.${name}` : name);

  // The searchable texts of all items: those of its box, and those that only its panel has.
  function index(model) {
    return model.all.map(item => {
      const title = model.title(item), path = model.path(item), cls = model.cls(item);
      const last = path === model.path(model.parent(item)) ? "" : path.split(".").pop();
      const texts = [title, path, cls, model.op(item), ...model.details(item)];
      const stored = cls ? storedIn(model, item).map(([name]) => inside(path, name)) : [];
      const lower = text => text.toLowerCase(), shown = lower(texts.join("\n"));
      return {
        item, title, shown, lowerTitle: lower(title), lowerPath: lower(path), last: lower(last),
        lowerClass: lower(cls), stored: stored.map(lower),
        all: [shown, ...stored.map(lower), lower(model.source(item)), model.draws(item)].join("\n"),
      };
    });
  }

  // The words of a query, with 64x56 as 64×56.
  const queryWords = query => query.toLowerCase().replace(/(\d)\s*[x*]\s*(?=\d)/g, "$1×")
    .split(/\s+/).filter(Boolean);

  const isNameOf = (path, word) => path === word || path.endsWith(`.${word}`);

  // The score of a word, 0 if it is not found: whole names and classes first, then beginnings. Items
  // without a path of their own, such as operations, come after the module that they are in.
  function scoreOf(entry, word) {
    if (!entry.all.includes(word)) return 0;
    const { last, lowerTitle, lowerPath, lowerClass, stored } = entry;
    if ((last && lowerPath === word) || [last, lowerTitle, lowerClass].includes(word)) return 6;
    if (stored.some(path => isNameOf(path, word))) return 5;
    const at = lowerTitle.indexOf(word);
    if (at === 0 || last.startsWith(word)) return 5;
    if (at > 0) return /[a-z0-9]/.test(lowerTitle[at - 1]) ? 3 : 4;
    return lowerPath.includes(word) ? 2 : 1;
  }

  // The first `MOST` entries of modules and of all others, which do not crowd out each other.
  function best(entries) {
    const left = [MOST, MOST];
    return entries.filter(entry => left[Number(!entry.lowerClass)]-- > 0);
  }

  // The items with every word of `query`, and their number; modules come before operations that
  // match as well.
  function find(entries, query) {
    const words = queryWords(query), found = [];
    if (!words.length) return { hits: [], count: 0 };
    for (const entry of entries) {
      const scores = words.map(word => scoreOf(entry, word));
      if (scores.every(Boolean)) found.push([scores.reduce((sum, each) => sum + each), entry]);
    }
    found.sort(([one, a], [other, b]) =>
      other - one || Number(!a.lowerClass) - Number(!b.lowerClass) || a.item - b.item);
    return { hits: best(found.map(each => each[1])), count: found.length };
  }

  // What a hit has of a word that its box does not show: a parameter or the line of code.
  function reason(model, { item, shown }, query) {
    const word = queryWords(query).find(each => !shown.includes(each));
    if (!word) return "";
    const has = ([name]) => inside(model.path(item), name).toLowerCase().includes(word);
    const found = storedIn(model, item).find(has);
    if (found) return `${found[0]} ${found[1].split(" on ")[0]}`;
    return model.draws(item).includes(word) ? model.draws(item) : model.source(item);
  }

  return { index, find, reason, queryWords };
})();
