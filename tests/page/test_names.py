"""Boxes with equal titles: in the search, the table of costs, the menu of siblings and the path."""

from __future__ import annotations

import pytest
import torch

import torchrecorder
from tests.page.browser import Visit, Visiting
from torchrecorder.recording import Recording

pytestmark = pytest.mark.page


class Rounds(torch.nn.Module):
    """A loop whose first round does more than the others, and two layers of one class."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
        self.first = torch.nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four rounds."""
        h = self.first(x)
        for _ in range(4):
            h = self.cell(h)
            h = torch.nn.functional.linear(h, torch.eye(4)).mul(2)
        return h  # type: ignore[no-any-return]


def rounds() -> Recording:
    """A run of it."""
    return torchrecorder.record(Rounds(), torch.ones(2, 4))


def found(seen: Visit, query: str) -> list[list[str]]:
    """The texts of each hit in the finder."""
    seen.page.evaluate("page.actions.openFinder()")
    seen.page.locator("#query").fill(query)
    texts = seen.page.locator("#hits li").evaluate_all(
        "hits => hits.map(hit => ['b', 'small', 'span'].map(tag =>"
        " hit.querySelector(tag).textContent))")
    seen.page.evaluate("document.getElementById('finder').close()")
    return list(texts)


def test_a_class_finds_its_modules_before_operations_of_this_name(visit: Visiting) -> None:
    """All of them, and only then the operations."""
    titles = [title for title, *_ in found(visit(rounds()), "Linear")]
    modules = [title for title in titles if title.endswith(": Linear")]
    assert titles[: len(modules)] == modules and len(modules) == 5
    assert titles.count("linear") == 9


def test_many_operations_crowd_out_no_module(visit: Visiting) -> None:
    """Those that match as well, and better."""
    class Many(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.multiply = torch.nn.Identity()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for number in range(150):
                x = x.mul(number) if number % 2 else x.add(number)
            return self.multiply(x)  # type: ignore[no-any-return]

    seen = visit(torchrecorder.record(Many(), torch.ones(2)), fold=False)
    titles = [title for title, *_ in found(seen, "mul")]
    assert titles[0] == "mul" and "multiply: Identity" in titles
    assert seen.page.locator("#found").inner_text().startswith("The best ")


@pytest.mark.parametrize("query, title, note", [
    ("bias", "0: Linear", "bias [4] float32"),
    ("first.weight", "first: Linear", "weight 4×4 float32"),
    ("0.WEIGHT", "0: Linear", "weight 4×4 float32"),
])
def test_parameters_are_found(visit: Visiting, query: str, title: str, note: str) -> None:
    """In the modules that hold them, which says so."""
    hits = found(visit(rounds()), query)
    assert hits[0][:2] == [title, note] and len(hits) in (1, 4, 5)


def test_lines_of_code_are_found(visit: Visiting) -> None:
    """With the file, and with the number of the line."""
    seen = visit(rounds())
    mul = Rounds.forward.__code__.co_firstlineno + 5
    for query in ("test_names", f"test_names.py:{mul}"):
        hits = found(seen, query)
        assert ["mul", f"test_names.py:{mul} in forward"] in [hit[:2] for hit in hits]
        assert ("first: Linear" in [title for title, *_ in hits]) == (query == "test_names")


def test_hits_with_one_title_say_where_they_are(visit: Visiting) -> None:
    """In which module, and in which round of a loop."""
    hits = found(visit(rounds()), "tanh")
    places = [place for title, _, place in hits if title == "tanh"]
    assert places == [f"cell.1 · step {number} of 4" for number in range(1, 5)]
    assert len({(title, place) for title, _, place in hits}) == len(hits)


def test_rows_of_the_table_say_where_they_are(visit: Visiting) -> None:
    """Operations and modules: no two rows are the same."""
    seen = visit(rounds(), hash="#side=costs")
    for kind, row in [("Modules", "cell.0 Linear · step 3 of 4"),
                      ("Operations", "mul step 3 of 4")]:
        seen.page.locator("#costs-kind").select_option(kind)
        rows = [" ".join(text.split()) for text in
                seen.page.locator("#costs .row .name").all_inner_texts()]
        assert row in rows and len(set(rows)) == len(rows)


def uneven() -> Recording:
    """Rounds of which only the first makes what all keep, with two modules in each."""
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    cell = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Sequential(torch.nn.ReLU()))
    with torchrecorder.Recorder() as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            cell(weight * 2).sum().backward()
            optimizer.step()
    return recorder.recording


def test_the_siblings_of_a_loop_have_numbers(visit: Visiting) -> None:
    """In the menu, in the panel and in the path."""
    seen = visit(uneven())
    fold = seen.page.evaluate("page.model.all.find(page.model.isFold)")
    numbers = [f"step {number} of 4" for number in range(1, 5)]
    seen.page.evaluate(f"page.actions.goTo({fold})")
    assert seen.page.locator("#panel .siblings option").all_inner_texts() == ["All 4", *numbers]
    seen.page.locator("#stage").focus()
    seen.page.keyboard.press("s")
    assert seen.page.locator(".menu button").all_inner_texts() == ["All 4 siblings", *numbers]
    seen.page.keyboard.press("Escape")
    seen.page.evaluate(f"page.actions.goTo(page.model.children[{fold} + 1][2])")
    seen.settle()
    assert seen.page.locator("#breadcrumbs button").last.inner_text() == "step 3 of 4"


def test_the_next_sibling_of_a_loop_is_open_like_this_one(visit: Visiting) -> None:
    """And selected, although it has other boxes in it."""
    seen = visit(uneven())
    sizes = seen.page.evaluate(
        "(() => { const { model } = page, fold = model.all.find(model.isFold);"
        " return model.children[fold + 1].map(item => model.end[item] - item); })()")
    assert sizes[0] != sizes[1]
    seen.page.evaluate("page.actions.expandLevels(9)")
    seen.page.evaluate("page.actions.goTo(page.model.all.find(item =>"
                       " page.model.cls(item) === 'ReLU'))")
    opened = ("(() => { const { model, state } = page, { open, siblings } = state.get();"
              " return openItems.visible(model, open, { siblings }).filter(item =>"
              "   open.has(item) && model.kind(item) === 'module').map(model.title); })()")
    before = seen.page.evaluate(opened)
    assert len(before) == 4
    for _ in range(3):
        seen.page.evaluate("page.actions.nextSibling(1)")
        assert seen.page.evaluate(opened) == before
        assert seen.page.evaluate("page.model.cls(page.state.get().selected)") == "ReLU"


def test_a_frame_has_its_title_in_one_line_where_there_is_room(visit: Visiting) -> None:
    """From left to right; from top to bottom it is in two, beside the line into the frame."""
    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)
            self.a_layer_with_a_name = torch.nn.Sequential(*layers)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a_layer_with_a_name(x)  # type: ignore[no-any-return]

    seen = visit(torchrecorder.record(Named(), torch.ones(2, 4)), depth=2)
    frame = seen.page.evaluate("page.model.find('a_layer_with_a_name')")
    in_two = ["a_layer_with_a_name:", "Sequential"]
    for direction, title in (("TB", in_two), ("LR", [" ".join(in_two)]), ("TB", in_two)):
        seen.page.evaluate("direction => page.state.set({ direction })", direction)
        seen.settle()
        assert seen.box(frame).locator("text").all_text_contents() == title
