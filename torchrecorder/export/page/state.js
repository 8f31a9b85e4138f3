// State: open boxes, selection and colouring, and watchers of changes.

"use strict";

const createState = first => {
  let now = Object.freeze({ ...first });
  const watchers = [];

  // Change some of it. Watchers are called once with the state after and before, and with
  // `how`: details of the change for watchers.
  function set(change, how = {}) {
    const before = now;
    const changed = Object.keys(change).some(key => change[key] !== before[key]);
    if (!changed) return;
    now = Object.freeze({ ...before, ...change });
    for (const watcher of watchers) watcher(now, before, how);
  }

  return {
    get: () => now, set,
    watch: watcher => { watchers.push(watcher); },
    watchFirst: watcher => { watchers.unshift(watcher); },
  };
};
