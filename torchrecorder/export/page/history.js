// History: the address always describes the state; back and forward work.

"use strict";

const attachHistory = ({ model, state, stage }) => {
  let isPaused = false;

  // Frames without an address of their own refuse changes of it.
  function write(method, now) {
    if (isPaused) return;
    const hash = link.encode(model, now);
    try {
      const address = hash ? `#${hash}` : location.pathname + location.search;
      history[method]({ view: stage.view() }, "", address);
    } catch {
      isPaused = true;
    }
  }

  // Changes of the layout, of the type or of the paths that are shown, and jumps, add an entry to
  // the history; others replace the address.
  state.onChange((now, before, details) => {
    if (isPaused) return;
    const isOpened = ["type", "from", "to"].some(key => now[key] !== before[key]) ||
      layoutInputs.changed({ ...now, color: before.color }, before);
    const isJump = details.zoom || details.by === "pointer";
    const isOther = ["selected", "tensor", "color", "side"].some(key => now[key] !== before[key]);
    if (isOpened || (isOther && isJump)) {
      write("replaceState", before);
      write("pushState", now);
    } else if (isOther) write("replaceState", now);
  });

  // Shows the state of the address.
  function follow(view) {
    const next = link.decode(model, location.hash), now = state.get();
    for (const key of ["open", "hidden"]) {
      if (openItems.areEqualSets(now[key], next[key])) next[key] = now[key];
    }
    if (link.encode(model, { ...next, siblings: now.siblings }) === link.encode(model, next)) {
      next.siblings = now.siblings;
    }
    isPaused = true;
    state.set(next, view ? { view } : { show: relations.place(model, next), zoom: true });
    isPaused = false;
  }

  window.addEventListener("popstate", event => follow(event.state?.view));
};
