// Search: finds boxes by name, class, op and shape, the best ones first.

"use strict";

const search = (() => {
  const MOST = 60;

  // The searchable texts of all items.
  function index(model) {
    return model.all.map(item => {
      const title = model.title(item), path = model.path(item);
      const last = path === model.path(model.parent(item)) ? "" : path.split(".").pop();
      const texts = [title, path, model.cls(item), model.op(item), ...model.details(item)];
      return {
        item, title, path, lowerTitle: title.toLowerCase(), lowerPath: path.toLowerCase(),
        last: last.toLowerCase(), all: texts.join("\n").toLowerCase(),
      };
    });
  }

  // The words of a query, with 64x56 as 64×56.
  const queryWords = query => query.toLowerCase().replace(/(\d)\s*[x*]\s*(?=\d)/g, "$1×")
    .split(/\s+/).filter(Boolean);

  // The score of a word, 0 if it is not found: whole names first, then beginnings. Items without a
  // path of their own, such as operations, come after the module that they are in.
  function scoreOf(entry, word) {
    if (!entry.all.includes(word)) return 0;
    const { last, lowerTitle, lowerPath } = entry;
    if ((last && lowerPath === word) || last === word || lowerTitle === word) return 6;
    const at = lowerTitle.indexOf(word);
    if (at === 0 || last.startsWith(word)) return 5;
    if (at > 0) return /[a-z0-9]/.test(lowerTitle[at - 1]) ? 3 : 4;
    return lowerPath.includes(word) ? 2 : 1;
  }

  // The items with every word of `query`, and their number.
  function find(entries, query) {
    const words = queryWords(query), found = [];
    if (!words.length) return { hits: [], count: 0 };
    for (const entry of entries) {
      const scores = words.map(word => scoreOf(entry, word));
      if (scores.every(Boolean)) found.push([scores.reduce((sum, each) => sum + each), entry]);
    }
    found.sort((a, b) => b[0] - a[0] || a[1].item - b[1].item);
    return { hits: found.slice(0, MOST).map(each => each[1]), count: found.length };
  }

  return { index, find, queryWords };
})();
