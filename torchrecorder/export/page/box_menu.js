// Box menu: what can be done with a box, and the siblings of a fold to choose from.

"use strict";

const createBoxMenu = (host, stage, model, types, state, actions) => {
  const MOST = 200;

  // The siblings of a fold; of very many those around the one that is shown.
  function siblings(fold) {
    const all = model.children[fold + 1], shown = model.inside(fold, state.get().siblings);
    const at = shown.length === 1 ? all.indexOf(shown[0]) : 0;
    const first = Math.max(0, Math.min(at - (MOST >> 1), all.length - MOST));
    const some = all.slice(first, first + MOST), left = all.length - some.length;
    return [
      { text: `All ${all.length} siblings`, chosen: shown.length > 1,
        act: () => actions.sibling(fold, ALL) },
      ...some.map(item => ({ text: model.title(item), chosen: shown.length === 1 && item === shown[0],
        act: () => actions.sibling(fold, item) })),
      ...(left ? [{ title: `${left} more: Find leads to them` }] : []),
    ];
  }

  function ofView() {
    const { hidden, root } = state.get();
    return [
      ...(hidden.size || root >= 0 ? [{ text: "Show all", act: actions.showAll }] : []),
      { text: "Fit", note: "f", act: stage.fit },
      { text: "Reset", act: actions.reset },
    ];
  }

  function ofBox(item) {
    const { open, hidden, root } = state.get(), type = types.of(item);
    if (hidden.has(item)) {
      return [{ title: model.title(item) }, { text: "Show", act: () => actions.unhide(item) }, ...ofView()];
    }
    const found = [{ title: model.title(item) }];
    if (model.canOpen(item)) {
      found.push({ text: open.has(item) ? "Collapse" : "Expand", note: "Enter", act: () => actions.toggle(item) });
    }
    if (model.isFold(item)) found.push({ text: "Siblings …", note: "s", act: () => showSiblings(item) });
    if (model.canOpen(item) && item !== root) {
      found.push({ text: "Isolate", note: "i", act: () => actions.isolate(item) });
    }
    if (item !== root) found.push({ text: "Hide", note: "h", act: () => actions.hide(item) });
    if (type) found.push({ text: `Show all ${type}`, act: () => actions.ofType(type) });
    found.push({ text: "Zoom to it", act: () => actions.frame(item) });
    return [...found, { title: "Picture" }, ...ofView()];
  }

  // In pixels of the window, at the corner of a box or in the middle of the stage.
  function corner(item) {
    const box = stage.frame(item), { left, top } = host.getBoundingClientRect();
    const { width, height } = stage.free();
    const [x, y] = box ? camera.toScreen(stage.view(), box.x, box.y) : [width / 2, height / 2];
    return [left + Math.max(8, Math.min(x + 8, width - 60)), top + Math.max(8, Math.min(y + 20, height - 60))];
  }

  function showSiblings(fold, at = corner(fold)) {
    menu.at(at, "Siblings", siblings(fold), stage.focus);
  }

  function show(item, at = corner(item)) {
    menu.at(at, item >= 0 ? model.title(item) : "Picture", item >= 0 ? ofBox(item) : ofView(), stage.focus);
  }

  // The innermost fold at a box.
  const foldAt = item => (item < 0 ? -1
    : [item, ...model.ancestors(item).reverse()].find(each => model.isFold(each)) ?? -1);

  // Of the box at a pixel of the stage, which is selected, or of the picture.
  function showAt([x, y]) {
    const { left, top } = host.getBoundingClientRect(), box = stage.boxAt(x, y);
    if (box) actions.select(box.item, { by: "menu" });
    show(box?.item ?? -1, [left + x, top + y]);
  }

  // Asked for by the right button or a key; a finger that rests has asked already.
  host.addEventListener("contextmenu", event => {
    event.preventDefault();
    if (event.pointerType === "touch") return;
    const { left, top } = host.getBoundingClientRect();
    if (event.button === 2) showAt([event.clientX - left, event.clientY - top]);
    else show(state.get().selected);
  });

  return {
    show: () => show(state.get().selected), showAt, showSiblings,
    siblingsHere: () => {
      const fold = foldAt(state.get().selected);
      if (fold >= 0) showSiblings(fold);
    },
  };
};
