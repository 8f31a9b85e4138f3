"""Lines of the page that stand for several tensors, and names of arguments at their heads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
from tests.export.test_head_marks import recorded
from tests.figures import network
from tests.page.browser import Visit, Visiting
from tests.views.test_bundles import step
from torchrecorder.comparison.compare import compare
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowKind, bundles
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.page

LINES = (
    "page.stage.picture().lines.map(line => [line.tail, line.head, line.count,"
    " paint.lineLook(page.model, { theme: 'light', colors: {} }, line).width,"
    " page.model.tensorText(line.tensor), line.mark?.[0] ?? ''])"
)


def lines(program: Any, path: Path) -> tuple[list[Any], list[str]]:
    """Ends, count, width, text and mark of every line that the page shows at first; titles."""
    seen = Visit(program).open(path)
    found = seen.page.evaluate(LINES)
    titles = seen.page.evaluate(
        "Array.from({ length: page.model.count }, (_, item) => page.model.title(item))"
    )
    assert seen.troubles == []
    seen.window.close()
    return found, titles


def test_a_training_step_has_one_line_for_all_gradients(program: Any, tmp_path: Path) -> None:
    """The same as in the figure: wide, with the same count, and updates in light."""
    recording = step(2)
    found, titles = lines(program, recording.render(tmp_path / "a.html", fold=False))
    drawn = bundles(make_view(recording, ViewOptions(fold=False)))
    wide = [each for each in found if each[2] > 3 and each[3] > 2]
    gradients = [len(each.arrows) for each in drawn if each.flow is FlowKind.GRADIENT]
    assert [each[4] for each in wide if "gradient" in each[4]] == ["10 gradients"] * len(gradients)
    assert sorted(each[2] for each in wide) == sorted(gradients)
    light = {each[4] for each in found if each[3] < 0.9}
    assert light == {"10 weights", "30 state tensors"}
    between = Counter((tail, head) for tail, head, *_ in found)
    assert max(between.values()) <= 3
    assert any("clip_grad_norm_" in title for title in titles)


def test_more_than_three_between_closed_boxes_are_one(program: Any, tmp_path: Path) -> None:
    """Opened, each has its own line again."""

    class Split(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            """Five tensors."""
            return tuple(x + number for number in range(5))

    class Join(torch.nn.Module):
        def forward(self, parts: tuple[torch.Tensor, ...]) -> torch.Tensor:
            """One of five, each used for itself."""
            total = parts[0].relu()
            for part in parts[1:]:
                total = total * part.relu()
            return total

    model = torch.nn.Sequential(Split(), Join())
    path = torchrecorder.record(model, torch.ones(2)).render(tmp_path / "a.html", depth=1)
    seen = Visit(program).open(path)
    closed = seen.page.evaluate(LINES)
    assert [each[2] for each in closed if each[2] > 1] == [5]
    seen.page.evaluate("page.actions.expandAll()")
    seen.settle()
    assert {each[2] for each in seen.page.evaluate(LINES)} == {1}
    assert seen.troubles == []
    seen.window.close()


def test_arguments_are_named_where_they_enter_out_of_order(program: Any, tmp_path: Path) -> None:
    """As in the figure; the marks are in the document."""
    seen = Visit(program).open(recorded().render(tmp_path / "a.html"))
    marks = {each[5] for each in seen.page.evaluate(LINES)} - {""}
    assert marks & {"q", "k", "v", "÷", "−", "1", "2"}
    shown = seen.page.locator(".lines text").all_text_contents()
    assert marks >= set(shown) and shown
    assert seen.troubles == []
    seen.window.close()


def test_closed_attention_names_its_arguments(program: Any, tmp_path: Path) -> None:
    """Also where the operation that reads them is not drawn."""
    x, y = torch.ones(5, 2, 8), torch.ones(5, 2, 8)
    run = torchrecorder.record(torch.nn.MultiheadAttention(8, 2), (x, y, y))
    seen = Visit(program).open(run.render(tmp_path / "a.html", depth=0))
    assert [each[5] for each in seen.page.evaluate(LINES) if each[5]] == ["key = value"]
    assert seen.troubles == []
    seen.window.close()


def test_arrowheads_are_at_the_ends_of_lines(program: Any, tmp_path: Path) -> None:
    """A line that goes on in an open frame has none at its border."""
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    path = torchrecorder.record(model, torch.ones(1, 2)).render(tmp_path / "a.html", depth=2)
    seen = Visit(program).open(path)
    ends = seen.page.evaluate(
        "page.stage.picture().lines.map(line => [!line.arrowhead, line.exits ||"
        " page.stage.picture().boxes.some(box => box.item === line.head && box.open)])"
    )
    assert all(bare == goes_on for bare, goes_on in ends)
    assert {bare for bare, _ in ends} == {True, False}
    seen.window.close()


@pytest.mark.parametrize("direction, ahead", [("LR", 1), ("RL", -1)])
def test_lines_begin_at_the_slanted_side_of_an_input(
    visit: Visiting, direction: str, ahead: int
) -> None:
    """Those of a horizontal flow leave that side; between it and the line would be a gap."""
    seen = visit(network(), direction=direction, depth=1)
    where = seen.page.evaluate(
        "ahead => { const { all, kind } = page.model, item = all.find(of => kind(of) === 'input');"
        " const box = page.stage.frame(item);"
        " const outline = document.querySelector(`#box-${item} path`);"
        " return page.stage.picture().lines.filter(line => line.tail === item)"
        "  .map(line => line.d.match(/-?[\\d.]+/g).map(Number))"
        "  .map(([x, y]) => [-1, 1].map(by =>"
        "   outline.isPointInFill({ x: x - box.x + by * ahead, y: y - box.y }))); }", ahead)
    assert where == [[True, False]]


def test_marks_of_lines_from_left_to_right_do_not_cover_each_other(visit: Visiting) -> None:
    """Between lines that are close there is no room: the last mark is below, and inner ones are
    left out."""
    def joined(x: torch.Tensor) -> torch.Tensor:
        """Three tensors in another order than that of their boxes."""
        first, second = x.relu(), x.exp()
        return torch.cat([first * second, second, first])

    seen = visit(torchrecorder.record(joined, torch.ones(2)), direction="LR", shapes=False)
    rows = seen.page.evaluate(
        "page.stage.picture().lines.filter(line => line.mark)"
        ".map(({ mark, points }) => [points.at(-1)[1], mark[2] - points.at(-1)[1]])")
    assert sorted(rows)[0][1] < 0 < sorted(rows)[-1][1] and len(rows) == 2


@pytest.mark.parametrize("fold", [True, False])
def test_lines_of_a_comparison_have_the_colors_of_the_figure(
    program: Any, tmp_path: Path, fold: bool
) -> None:
    """Also those of a tensor that something new reads, and others no more."""
    def run(*names: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for place, cls in enumerate(names):
                with builder.scope(f"blocks.{place}", cls):
                    with builder.scope("norm", "LayerNorm"):
                        y = builder.op("layer_norm", x)
                    x = builder.op("add", x, y)
        return builder.recording()

    both = compare(run("Block", "Block", "Block"), run("Block", "Block", "Adapter", "Block"))
    drawn = both.render(tmp_path / "both.dot", fold=fold).read_text(encoding="utf-8")
    dashed = sum("->" in line and "dashed" in line for line in drawn.splitlines())
    seen = Visit(program).open(both.render(tmp_path / "both.html", fold=fold))
    looks = seen.page.evaluate(
        "page.stage.picture().lines.filter(line => line.arrowhead).map(line =>"
        " paint.lineLook(page.model, { theme: 'light', colors: { line: '' } }, line).dash)"
    )
    assert looks.count("dashed") == dashed == 1
    seen.window.close()
