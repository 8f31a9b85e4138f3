// History: keeps the address in sync with the state; back and forward work.

"use strict";

const attachHistory = (model, state, stage) => {
  let quiet = false;

  // Frames without an address of their own refuse.
  function write(how, now) {
    if (quiet) return;
    const hash = link.encode(model, now);
    try {
      history[how]({ view: stage.view() }, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      quiet = true;
    }
  }

  // Opening and jumps add a history entry; other changes only replace the address.
  state.watch((now, before, how) => {
    if (quiet) return;
    const opened = arrangement.changed({ ...now, colour: before.colour }, before), jumped = how.zoom || how.by === "pointer";
    const other = now.selected !== before.selected || now.value !== before.value ||
      now.colour !== before.colour || now.side !== before.side;
    if (opened || (other && jumped)) {
      write("replaceState", before);
      write("pushState", now);
    } else if (other) write("replaceState", now);
  });

  function follow(view) {
    const next = link.decode(model, location.hash), now = state.get();
    for (const part of ["open", "hidden"]) if (opening.same(now[part], next[part])) next[part] = now[part];
    if (link.encode(model, { ...next, siblings: now.siblings }) === link.encode(model, next)) {
      next.siblings = now.siblings;
    }
    quiet = true;
    const jump = view ? { view } : { show: next.selected, zoom: true };
    state.set(next, jump);
    quiet = false;
  }

  window.addEventListener("popstate", event => follow(event.state?.view));
};
