// Box menu: the actions on a box, and the siblings of a fold to choose from.

"use strict";

const createBoxMenu = ({ byId, stage, model, names, state, actions }) => {
  const MOST = 200, host = byId("stage");

  // Entries for the siblings of a fold; of very many, those around the one that is shown.
  function siblingEntries(fold) {
    const all = model.children[fold + 1];
    const [shown, ...more] = model.shownChildren(fold, state.get().siblings);
    const at = more.length ? 0 : all.indexOf(shown);
    const first = Math.max(0, Math.min(at - (MOST >> 1), all.length - MOST));
    const listed = all.slice(first, first + MOST), rest = all.length - listed.length;
    return [
      { text: `All ${all.length} siblings`, chosen: more.length > 0,
        act: () => actions.showSibling(fold, ALL_SIBLINGS) },
      ...listed.map(item => ({ text: names.sibling(item), chosen: !more.length && item === shown,
        act: () => actions.showSibling(fold, item) })),
      ...(rest ? [{ title: `${rest} more: use Find` }] : []),
    ];
  }

  function pictureEntries() {
    const { hidden, root } = state.get();
    return [
      ...(hidden.size || root >= 0 ? [{ text: "Show all", act: actions.showAll }] : []),
      { text: "Fit", note: "f", act: stage.fit },
      { text: "Reset", act: actions.reset },
    ];
  }

  // The actions on a box; `before` is the box that was selected before it, or -1.
  function boxEntries(item, before) {
    const { open, hidden, root } = state.get(), type = model.typeOf(item);
    const title = { title: model.title(item) };
    if (hidden.has(item)) {
      return [title, { text: "Show", act: () => actions.unhide(item) }, ...pictureEntries()];
    }
    const canOpen = model.canOpen(item);
    return [
      title,
      canOpen && item !== root && { text: open.has(item) ? "Collapse" : "Expand", note: "Enter",
        act: () => actions.toggle(item) },
      model.isFold(item) && { text: "Siblings …", note: "s", act: () => showSiblings(item) },
      canOpen && item !== root && { text: "Isolate", note: "i", act: () => actions.isolate(item) },
      item !== root && { text: "Hide", note: "h", act: () => actions.hide(item) },
      type && { text: `Show all ${type}`, act: () => actions.highlightType(type) },
      before >= 0 && before !== item && { text: `Paths from ${names.short(before)}`,
        act: () => actions.showPaths(before, item) },
      { text: "Zoom to it", act: () => actions.zoomTo(item) },
      { title: "Picture" }, ...pictureEntries(),
    ].filter(Boolean);
  }

  // The corner of a box, or the middle of the stage, in pixels of the window.
  function corner(item) {
    const box = stage.frame(item), { left, top } = host.getBoundingClientRect();
    const { width, height } = stage.freeSize();
    const [x, y] = box ? camera.toScreen(stage.view(), box.x, box.y) : [width / 2, height / 2];
    const clamp = (at, length) => Math.max(8, Math.min(at, length - 60));
    return [left + clamp(x + 8, width), top + clamp(y + 20, height)];
  }

  function showSiblings(fold, at = corner(fold)) {
    menu.showAt(at, "Siblings", siblingEntries(fold), stage.focus);
  }

  function show(item, at = corner(item), before = -1) {
    if (item >= 0) menu.showAt(at, model.title(item), boxEntries(item, before), stage.focus);
    else menu.showAt(at, "Picture", pictureEntries(), stage.focus);
  }

  // Shows the menu of the box at a pixel of the stage and selects it, or that of the picture.
  function showAt([x, y]) {
    const { left, top } = host.getBoundingClientRect(), box = stage.boxAt(x, y);
    const { selected } = state.get();
    if (box) actions.select(box.item, { by: "menu" });
    show(box?.item ?? -1, [left + x, top + y], selected);
  }

  // Sent by the right button and by keys; for long touches, the pointer has shown the menu already.
  host.addEventListener("contextmenu", event => {
    event.preventDefault();
    if (event.pointerType === "touch") return;
    const { left, top } = host.getBoundingClientRect();
    if (event.button === 2) showAt([event.clientX - left, event.clientY - top]);
    else show(state.get().selected);
  });

  return {
    show: () => show(state.get().selected), showAt, showSiblings,
    showSiblingsOfSelected: () => {
      const fold = actions.foldAround(state.get().selected);
      if (fold >= 0) showSiblings(fold);
    },
  };
};
