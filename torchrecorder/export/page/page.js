// Page: creates all parts and connects them.

"use strict";

const startPage = () => {
  const byId = id => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const model = createModel(data), types = createTypes(model), names = createNames(model);
  const state = createState({
    theme: data.theme, isSystemDark: systemTheme.matches, ...layoutInputs.initial(model),
    ...link.decode(model, location.hash),
  });
  const paths = createPaths(model, names), styling = createStyling(model, types, paths, state);
  byId("side").hidden = !state.get().side;  // it limits the width of the stage
  byId("side").className = `side ${state.get().side ?? ""}`;
  const stage = createStage(byId("stage"), model, state, styling.current);
  const swatch = item => model.look(item, false)[styling.current().palette.theme].stroke;

  const actions = createActions(model, types, state, stage, swatch);
  const tooltip = createTooltip(byId("tooltip"), stage, model, names, state);
  const panel = createPanel(byId("panel"), stage, model, types, names, state, actions);
  const finder = createFinder(byId("finder"),
    { input: byId("query"), list: byId("hits"), status: byId("found") },
    stage, model, names, actions);
  const help = createHelp(byId("helping"), model, styling.current);
  Object.assign(actions, {
    openFinder: finder.show, openHelp: help.show,
    showAbout: () => {
      actions.clearSelection();
      panel.showAbout();
    },
    hidePanel: panel.hide, isPanelOpen: panel.isOpen, focusPanel: panel.focus,
  });

  createBreadcrumbs(byId("breadcrumbs"), stage, model, names, state, actions);
  createMinimap(byId("minimap"), stage, styling.current);
  legend.attach(byId("legend"), model, state, styling.current);
  const boxMenu = createBoxMenu(byId("stage"), stage, model, types, names, state, actions);
  const sidebar = createSidebar(byId, stage, model, types, names, state, actions);
  attachPointer(byId("stage"), stage, tooltip, actions, boxMenu);
  attachKeys(byId("stage"), stage, state, actions, boxMenu, sidebar);
  attachToolbar(byId, model, types, paths, state, stage, styling, actions);
  printing.attach(byId, model, state, stage, styling);
  attachHistory(model, state, stage);
  attachAnnouncements(byId("live"), byId("stage"), model, paths, state, styling);
  byId("empty").hidden = model.count > 0;
  for (const id of ["find", "save", "corner", "direction"]) byId(id).hidden ||= !model.count;
  stage.show(relations.place(model, state.get()), true);
  return { model, types, paths, names, state, stage, actions };
};

const page = startPage();
