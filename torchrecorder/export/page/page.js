// Page: creates and starts all parts.

"use strict";

const startPage = () => {
  const by = id => document.getElementById(id);
  const data = JSON.parse(by("data").textContent);
  const model = createModel(data);
  const state = createState({
    theme: data.theme ?? "auto", ...link.decode(model, location.hash),
  });
  const looks = createLooks(model, state);
  const stage = createStage(by("stage"), model, state, looks.told);
  const swatch = item => model.look(item, false)[looks.told().palette.theme].stroke;

  const actions = createActions(model, state, stage, swatch);
  const tip = createTip(by("tip"), stage, model, state);
  const panel = createPanel(by("panel"), stage, model, state, actions);
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
  attachPointer(by("stage"), stage, tip, actions);
  attachKeys(by("stage"), stage, model, state, actions);
  attachButtons(by, model, state, stage, looks, actions);
  attachHistory(model, state, stage);
  createVoice(by("live"), by("stage"), model, state, looks);
  by("empty").hidden = model.count > 0;
  for (const id of ["find", "save", "corner"]) by(id).hidden ||= !model.count;
  panel.update();
  if (state.get().selected >= 0) stage.show(state.get().selected, true);
  return { model, state, stage, actions };
};

const page = startPage();
