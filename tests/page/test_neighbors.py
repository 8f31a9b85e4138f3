"""What a box reads and what reads it, in the panel: which box that is, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.page.browser import Visit, Visiting
from torchrecorder.recording import Recording

pytestmark = pytest.mark.page


def loop(rounds: int) -> Recording:
    """Steps of training of two layers of one size."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    optimizer = torch.optim.Adam(model.parameters())
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(rounds):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    return recorder.recording


def links(seen: Visit, title: str) -> list[list[str]]:
    """The lines of the links below a title of the panel."""
    part = seen.page.locator("#panel section", has=seen.page.get_by_text(title, exact=True))
    return [text.split("\n") for text in part.locator(".link").all_inner_texts()]


def show(seen: Visit, start: str, number: int = 0) -> int:
    """Goes to a box by the start of its title, and returns it."""
    find = "start => page.model.all.filter(item => page.model.title(item).startsWith(start))"
    item = int(seen.page.evaluate(find, start)[number])
    seen.page.evaluate("item => page.actions.goTo(item)", item)
    seen.page.locator("#panel").wait_for()
    return item


def test_neighbors_in_other_siblings_are_open_like_those_shown(visit: Visiting) -> None:
    """A closed optimizer step stands for what is in it; each says in which step it is."""
    seen = visit(loop(4))
    show(seen, "optimizer")
    read = [line for line in links(seen, "Read by") if line[0] == "optimizer Adam"]
    assert [line[-1] for line in read] == ["step 2 of 4"]
    assert not any(line[0].endswith("_") for line in links(seen, "Read by"))  # such as add_
    lines = "page.stage.picture().lines.filter(({ tail }) => tail === page.state.get().selected)"
    for tensor in seen.page.evaluate(f"{lines}.map(({{ tensor }}) => tensor)"):
        seen.page.evaluate("tensor => page.actions.selectTensor(tensor)", tensor)
        assert not any("×4" in line[0] for line in links(seen, "Read by"))
    show(seen, "optimizer")
    layers = [line for line in links(seen, "Read by") if "Linear" in line[0]]
    assert {line[-1] for line in layers} == {"0 · step 2 of 4", "1 · step 2 of 4"}
    opened = show(seen, "optimizer", 2)
    seen.page.evaluate("item => page.actions.toggle(item)", opened)
    assert "optimizer Adam" not in [line[0] for line in links(seen, "Reads")]


def test_neighbors_do_not_repeat_where_the_box_is(visit: Visiting) -> None:
    """Of what is in the same step only what tells it from others there."""
    seen = visit(loop(4))
    show(seen, "backward", 1)
    assert [line[-1] for line in links(seen, "Reads")] == ["self scalar float32"]
    show(seen, "1: Linear", 1)
    assert ["0: Linear", "1×2 float32", "0"] in links(seen, "Reads")


def test_a_tooltip_of_a_line_names_the_boxes_that_are_shown(visit: Visiting) -> None:
    """Closed modules, each once, and not the operations in them; those of another step too."""
    seen = visit(loop(4))

    def told(start: str, number: int = 0) -> list[str]:
        find = "start => page.model.all.filter(item => page.model.title(item).startsWith(start))"
        item = int(seen.page.evaluate(find, start)[number])
        x, y = seen.page.evaluate(
            "item => { const view = page.stage.view();"
            " const { points } = page.stage.picture().lines.find(({ tail }) => tail === item);"
            " const [[ax, ay], [bx, by]] = points;"
            " return camera.toScreen(view, (ax + bx) / 2, (ay + by) / 2); }", item)
        seen.page.evaluate("([x, y]) => page.tooltip.showLater(x, y)", [x, y])
        seen.page.locator("#tooltip").wait_for()
        lines = str(seen.page.locator("#tooltip").inner_text()).splitlines()
        seen.page.evaluate("page.tooltip.hide()")
        return lines[1:]

    assert told("0: Linear") == ["from 0: Linear", "to 1: Linear"]
    steps = told("optimizer")
    assert steps[0] == "from optimizer Adam" and not any(line.endswith("_") for line in steps)


def test_what_was_read_before_is_told_apart(program: Any, tmp_path: Path) -> None:
    """Of a comparison; notes name the place of what differs."""
    models = [nn.Sequential(nn.Linear(4, 4), *more, nn.Tanh()) for more in ((nn.ReLU(),), ())]
    pair = [torchrecorder.record(model, torch.ones(1, 4)) for model in models]
    path = torchrecorder.compare(*pair).render(tmp_path / "both.html")
    seen = Visit(program).open(path)
    show(seen, "1: Tanh")
    read = {line[0]: line[1].endswith("removed") for line in links(seen, "Reads")}
    assert read == {"0: Linear": False, "1: ReLU": True}
    show(seen, "1: ReLU")
    assert [line[1].endswith("removed") for line in links(seen, "Read by")] == [True]
    assert not any("removed" in line[1] for line in links(seen, "Reads"))
    show(seen, "Sequential")
    assert [line[-1] for line in links(seen, "Notes")] == ["1", "1"]
    assert seen.troubles == []
    seen.window.close()


def test_rows_of_the_tree_with_one_title_are_told_apart(visit: Visiting) -> None:
    """The steps of a loop have their numbers."""
    seen = visit(loop(4), hash="#side=tree")
    steps = seen.page.locator("#tree [role=treeitem][aria-level='2']").all_inner_texts()
    assert [text.split("\n")[-1] for text in steps] == [f"step {n} of 4" for n in range(1, 5)]
