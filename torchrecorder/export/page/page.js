// Page: creates all parts, in an object from which each takes those that it needs.

"use strict";

const startPage = () => {
  const byId = id => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const model = createModel(data), types = createTypes(model), names = createNames(model);
  const state = createState({
    theme: data.theme, isSystemDark: systemTheme.matches, ...layoutInputs.initial(model),
    ...link.decode(model, location.hash),
  });
  const page = { byId, model, types, names, state, paths: createPaths(model, names) };
  page.styling = createStyling(page);
  byId("side").hidden = !state.get().side;  // it limits the width of the stage
  byId("side").className = `side ${state.get().side ?? ""}`;
  page.stage = createStage(page);
  page.actions = createActions(page);
  page.tooltip = createTooltip(page);
  const panel = createPanel(page);
  Object.assign(page.actions, {
    openFinder: createFinder(page).show, openHelp: createHelp(page).show,
    showAbout: () => {
      page.actions.clearSelection();
      panel.showAbout();
    },
    hidePanel: panel.hide, isPanelOpen: panel.isOpen, focusPanel: panel.focus,
  });

  createBreadcrumbs(page);
  createMinimap(page);
  legend.attach(page);
  page.boxMenu = createBoxMenu(page);
  page.sidebar = createSidebar(page);
  attachPointer(page);
  attachKeys(page);
  attachToolbar(page);
  printing.attach(page);
  attachHistory(page);
  attachAnnouncements(page);
  byId("empty").hidden = model.count > 0;
  for (const id of ["find", "save", "corner", "direction"]) byId(id).hidden ||= !model.count;
  page.stage.show(relations.place(model, state.get()), true);
  return page;
};

const page = startPage();
