// Page: creates and starts all parts.

"use strict";

const startPage = () => {
  const by = id => document.getElementById(id);
  const data = JSON.parse(by("data").textContent);
  const model = createModel(data), types = createTypes(model);
  const state = createState({
    theme: data.theme ?? "auto", ...arrangement.first(model), type: null, ...link.decode(model, location.hash),
  });
  const looks = createLooks(model, types, state);
  by("side").hidden = !state.get().side;  // the stage is as wide as that leaves it
  by("side").className = `side ${state.get().side ?? ""}`;
  const stage = createStage(by("stage"), model, state, looks.told);
  const swatch = item => model.look(item, false)[looks.told().palette.theme].stroke;

  const actions = createActions(model, types, state, stage, swatch);
  const tip = createTip(by("tip"), stage, model, state);
  const panel = createPanel(by("panel"), stage, model, types, state, actions);
  const finder = createFinder(by("finder"),
    { input: by("query"), list: by("hits"), status: by("found") }, stage, model, actions);
  const help = createHelp(by("helping"), model, looks.told);
  Object.assign(actions, { find: finder.show, help: help.show, about: () => {
    actions.nothing();
    panel.about();
  }, hidePanel: panel.hide, panelOpen: panel.isOpen, toPanel: panel.focus });

  createCrumbs(by("crumbs"), stage, model, state, actions).update();
  createMinimap(by("minimap"), stage, model, state, looks.told);
  createLegend(by("legend"), model, state, looks.told).update();
  const boxMenu = createBoxMenu(by("stage"), stage, model, types, state, actions);
  const side = createSide(by, model, types, state, actions);
  attachPointer(by("stage"), stage, tip, actions, boxMenu);
  attachKeys(by("stage"), stage, model, state, actions, boxMenu, side);
  attachButtons(by, model, types, state, stage, looks, actions);
  printing.attach(by, model, state, stage, looks);
  attachHistory(model, state, stage);
  createVoice(by("live"), by("stage"), model, state, looks);
  by("empty").hidden = model.count > 0;
  for (const id of ["find", "save", "corner", "direction"]) by(id).hidden ||= !model.count;
  panel.update();
  if (state.get().selected >= 0) stage.show(state.get().selected, true);
  return { model, types, state, stage, actions };
};

const page = startPage();
