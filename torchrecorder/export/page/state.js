// State: what the reader has chosen, and listeners to changes.
//
// Items are numbers, -1 for none. `open` and `hidden` are sets of items; `siblings` maps folds to the
// sibling that is shown. `selected` is an item, `tensor` the selected line; `from` and `to` are the
// ends of paths, `root` is the isolated item, `type` a class or operation whose boxes stand out.
// `color` is the key of an annotation, `side` the name of the sidebar; `direction`, `theme` and
// `isSystemDark` say how all is drawn.

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
