// Search: finds boxes by name, class, op and shape, the best first.

"use strict";

const search = (() => {
  const MOST = 60;

  // The searchable text of each item: its name, and all text on it.
  function index(model) {
    const entries = [];
    for (let item = 0; item < model.count; item++) {
      const title = model.title(item), path = model.path(item), around = model.parent(item);
      const last = around >= 0 && path === model.path(around) ? "" : path.split(".").pop();
      const rest = [model.cls(item), model.op(item), ...model.details(item)];
      entries.push({
        item, title, path, name: title.toLowerCase(), way: path.toLowerCase(),
        last: last.toLowerCase(),
        all: [title, path, ...rest].join("\n").toLowerCase(),
      });
    }
    return entries;
  }

  // Accept 64x56 for 64×56.
  const words = query => query.toLowerCase().replace(/(\d)\s*[x*]\s*(?=\d)/g, "$1×")
    .split(/\s+/).filter(Boolean);

  // How well a word fits, 0 if it does not: whole names first, then beginnings. What has no
  // path of its own, as an operation in a module, comes after the module that has it.
  function fit(entry, word) {
    if (!entry.all.includes(word)) return 0;
    const { last, name, way } = entry;
    if ((last && way === word) || last === word || name === word) return 6;
    const at = entry.name.indexOf(word);
    if (at === 0 || last.startsWith(word)) return 5;
    if (at > 0) return /[a-z0-9]/.test(entry.name[at - 1]) ? 3 : 4;
    return entry.way.includes(word) ? 2 : 1;
  }

  // Items that have every word of `query`, and how many there are in all.
  function find(entries, query) {
    const wanted = words(query), found = [];
    if (!wanted.length) return { hits: [], count: 0 };
    for (const entry of entries) {
      let total = 0;
      for (const word of wanted) {
        const score = fit(entry, word);
        if (!score) {
          total = 0;
          break;
        }
        total += score;
      }
      if (total) found.push([total, entry]);
    }
    found.sort((a, b) => b[0] - a[0] || a[1].item - b[1].item);
    return { hits: found.slice(0, MOST).map(each => each[1]), count: found.length };
  }

  return { index, find, words };
})();
