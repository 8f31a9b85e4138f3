"""The shapes on boxes are those of what the boxes themselves give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.work import growth
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.dot import output_labels
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


def test_a_hidden_op_lends_no_shape_to_the_box_before() -> None:
    """What pooling made is not said to be given by the box before it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (1, 8))
        h = run.op("relu", x, shape=(1, 8))
        h = run.op("max_pool2d", h, shape=(1, 4))
        run.op("tanh", h, shape=(1, 4))
    view = make_view(run.recording(), ViewOptions(depth=5, hide="max_pool2d"))
    figure = draw(view, Style(shapes="all"))
    assert [line.label for line in figure.lines if line.label] == ["1×8"]


@pytest.mark.parametrize("options", [{"hide": "max_pool2d"}, {"reshapes": False}])
def test_one_tensor_behind_hidden_ops_is_given_once(options: dict[str, Any]) -> None:
    """Read as it is and through what is hidden it is one output, on one trunk."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("relu", run.input("x", (1, 8)), shape=(1, 8))
        small = run.op("max_pool2d" if "hide" in options else "view", h, shape=(2, 4))
        run.op("add", run.op("tanh", small, shape=(2, 4)), h, shape=(2, 4))
        run.op("cos", small, shape=(2, 4))
    figure = draw(make_view(run.recording(), ViewOptions(depth=5, **options)))
    relu = [line for line in figure.lines if line.tail == "o0"]
    assert len(relu) == 3 and {line.value for line in relu} == {h}
    assert output_labels(figure)["o0"].text == "→ 1×8"
    through = next(line for line in relu if line.head == "o2")
    assert through.tooltip.splitlines()[0] == "1×8 float32"
    assert through.tooltip.splitlines()[1].startswith("after what is hidden: ")


@pytest.mark.parametrize("depth", [1, 2])
def test_what_boxes_of_the_backward_pass_give_is_not_searched_in_the_whole_run(depth: int) -> None:
    """What ran before a module cannot have been computed from it."""
    def asking(number: int) -> Callable[[], Any]:
        run = Builder("Net")
        with run.scope("Net"):
            x = run.input("x")
            for place in range(number):
                with run.scope(f"layer{place}", f"Layer{place}"):
                    x = run.op("mul", x, run.parameter("weight"), grads=("MulBackward0",))
        view = make_view(run.recording(), ViewOptions(view="backward", depth=depth))
        return lambda: [view.given(arrow) for arrow in view.arrows]

    assert asking(4)() == [None] * 3
    assert growth(asking, 10) < 2.2


def test_impossible_values_are_refused_early() -> None:
    """The message says what was given and what is possible."""
    with pytest.raises(InvalidArgument, match="'TB', 'LR', 'BT' or 'RL', not 'left'"):
        Style(direction="left")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="fontsize must be a number of points above 0, at"):
        Style(fontsize=-3)


def test_one_number_needs_no_tuple() -> None:
    """The name of an annotation is not taken apart into letters."""
    assert Style(numbers="parameters").numbers == ("parameters",)  # type: ignore[arg-type]


def _labels(run: Builder, style: Style = Style(), **options: Any) -> dict[str, str]:
    """What each box gives, by the name of its op."""
    recording = run.recording()
    figure = draw(make_view(recording, ViewOptions(depth=5, **options)), style)
    ops = {op.id: op.name for op in recording.ops.values()}
    return {ops[line.tail]: line.label for line in figure.lines if line.label}


def test_a_shape_stands_where_it_changes() -> None:
    """Not where a box gives what it reads; a weight that it reads besides is no matter."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("relu", run.input("x", (1, 8)), shape=(1, 8))
        h = run.op("linear", h, run.parameter("weight", (4, 8)), shape=(1, 4))
        h = run.op("linear_same", h, run.parameter("square", (4, 4)), shape=(1, 4))
        run.op("cos", h, shape=(1, 4))
    assert _labels(run, parameters=True) == {"linear": "1×4"}
    every = _labels(run, Style(shapes="all"), parameters=True)
    assert every == {"relu": "1×8", "linear": "1×4", "linear_same": "1×4"}
    assert _labels(run, Style(shapes=False)) == {}


def test_a_shape_stands_at_forks() -> None:
    """And where a box reads two shapes, of which it gives one; not on the circle of a sum."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (1, 8))
        h = run.op("relu", x, shape=(1, 8))
        one, other = run.op("sin", h, shape=(1, 8)), run.op("cos", h, shape=(1, 8))
        both = run.op("add", one, other, shape=(1, 8))
        wide = run.op("sub", both, run.op("mean", both, shape=(1, 1)), shape=(1, 8))
        run.op("tanh", wide, shape=(1, 8))
    assert _labels(run) == {"relu": "1×8", "mean": "1×1", "sub": "1×8"}


def test_sums_and_products_are_circles() -> None:
    """Where there is nothing else to say: not with a number, a name of one's own, or a shape."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.input("x", (1, 8)), run.input("y", (1, 1))
        h = run.op("add", x, x, shape=(1, 8))
        h = run.op("mul", h, shape=(1, 8), arguments=(("other", "2.0"),))
        h = run.op("mul", h, y, shape=(1, 8))
        h = run.op("mul_", h, h, shape=(1, 8))
        run.op("tanh", h, shape=(1, 8))
    view = make_view(run.recording(), ViewOptions(depth=5))
    drawn = [(each.label[0].text, each.look.outline) for each in draw(view).shapes[2:7]]
    box = "rounded"
    assert drawn == [("+", "circle"), ("mul", box), ("mul", box), ("×", "circle"), ("tanh", box)]
    named = draw(view, Style(rename={"add": "sum"})).shapes[2]
    assert (named.label[0].text, named.look.outline) == ("sum", box)
    told = draw(view, Style(color_by="output_bytes")).shapes[2]
    assert (told.label[0].text, told.look.outline) == ("add", box)
