// Voice: tells a screen reader what is selected and what happened.

"use strict";

const createVoice = (live, host, model, state, looks) => {
  const counted = count => (count === 1 ? "1 box is" : `${count} boxes are`);

  function said(now, before) {
    if (now.selected >= 0 && (now.selected !== before.selected || now.open !== before.open)) {
      return looks.label(now.selected, now.open.has(now.selected));
    }
    if (now.value >= 0 && now.value !== before.value) {
      return `tensor ${model.tensorText(now.value)}`;
    }
    if (now.colour !== before.colour) {
      const annotation = model.data.annotations.find(each => each.key === now.colour);
      return `coloured by ${annotation?.title ?? "kind"}`;
    }
    if (now.root !== before.root && now.root >= 0) return `${model.title(now.root)} isolated`;
    if (now.hidden !== before.hidden) return `${counted(now.hidden.size)} hidden`;
    if (now.direction !== before.direction) return `direction ${now.direction}`;
    return now.open !== before.open ? `${counted(now.open.size)} open` : "";
  }

  state.watch((now, before) => {
    if (now.selected >= 0) host.setAttribute("aria-activedescendant", `box-${now.selected}`);
    else host.removeAttribute("aria-activedescendant");
    const words = said(now, before);
    if (words) live.textContent = words;
  });
};
