// Live region: tells screen readers what is selected and what changed.

"use strict";

const attachAnnouncements = ({ byId, model, paths, state, styling }) => {
  const live = byId("live"), host = byId("stage");
  const boxes = count => (count === 1 ? "1 box is" : `${count} boxes are`);

  function announcement(now, before) {
    if (now.to >= 0 && (now.from !== before.from || now.to !== before.to)) return paths.text(now);
    if (now.selected >= 0 && (now.selected !== before.selected || now.open !== before.open)) {
      return styling.accessibleName(now.selected, now.open.has(now.selected));
    }
    if (now.tensor >= 0 && now.tensor !== before.tensor) {
      return `tensor ${model.tensorText(now.tensor)}`;
    }
    if (now.type !== before.type && now.type !== null) return `all ${now.type} highlighted`;
    if (now.color !== before.color) {
      return `colored by ${layoutInputs.annotation(model, now)?.title ?? "kind"}`;
    }
    if (now.root !== before.root && now.root >= 0) return `${model.title(now.root)} isolated`;
    if (now.hidden !== before.hidden) return `${boxes(now.hidden.size)} hidden`;
    if (now.direction !== before.direction) return `direction ${now.direction}`;
    return now.open !== before.open ? `${boxes(now.open.size)} open` : "";
  }

  state.onChange((now, before) => {
    if (now.selected >= 0) host.setAttribute("aria-activedescendant", `box-${now.selected}`);
    else host.removeAttribute("aria-activedescendant");
    const text = announcement(now, before);
    if (text) live.textContent = text;
  });
};
