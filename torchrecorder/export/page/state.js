// State: what is open, selected, hidden and colored, and listeners to changes.

"use strict";

const createState = initial => {
  let current = Object.freeze({ ...initial });
  const listeners = [];

  // Changes some properties. Listeners are called once, with the state after and before, and
  // `details`: why it changed, and where the view shall move.
  function set(changes, details = {}) {
    const before = current;
    if (Object.keys(changes).every(key => changes[key] === before[key])) return;
    current = Object.freeze({ ...before, ...changes });
    for (const listener of listeners) listener(current, before, details);
  }

  return {
    get: () => current, set,
    onChange: listener => { listeners.push(listener); },
    onChangeFirst: listener => { listeners.unshift(listener); },
  };
};
