"""Parts that are opened further than one depth for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from torchrecorder.events import FUNCTION, ScopeId, ScopeKind
from torchrecorder.graph.nodes import BackwardRun
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.auto_depth import DEFAULT_MAX_BOXES
from torchrecorder.views.page_view import page_view
from torchrecorder.views.pipeline import COUNTED_KINDS, ViewOptions, make_view
from torchrecorder.views.view import View

Parts = Sequence[tuple[str, str, int, int]]
"""Name, class, number of blocks, and of operations in each."""


def word(number: int) -> str:
    """Letters for a number: names that differ in their numbers alone may fold."""
    return chr(ord("a") + number % 26) * (number // 26 + 1)


def network(parts: Parts) -> Recording:
    """Parts in a chain, in which nothing folds."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name, cls, blocks, ops in parts:
            with run.scope(name, cls):
                for number in range(blocks):
                    with run.scope(f"block_{word(number)}", "Block"):
                        for step in range(ops):
                            x = run.op(f"op_{word(step)}", x)
                        with run.scope("inner", "Inner"):
                            x = run.op("cos", run.op("exp", x))
        run.returns(x)
    return run.recording()


def opened(view: View) -> set[str]:
    return {view.recording.scopes[item].path for item in view.clusters} - {""}


def steps(view: View) -> int:
    return sum(box.kind in COUNTED_KINDS for box in view.boxes.values())


def test_a_large_part_that_fits_is_opened():
    """One part has too many blocks; the other, with a third of the operations, is opened."""
    view = make_view(network([("few", "Few", 5, 30), ("many", "Many", 60, 3)]))
    assert opened(view) == {"few"}
    assert steps(view) <= DEFAULT_MAX_BOXES


def test_a_small_part_stays_closed():
    """What holds little of what is not shown is not worth its boxes."""
    view = make_view(network([("few", "Few", 5, 8), ("many", "Many", 60, 3)]))
    assert opened(view) == set()


@pytest.mark.parametrize(("blocks", "is_opened"), [(60, True), (110, True), (130, False)])
def test_a_part_of_almost_everything_is_opened(blocks: int, is_opened: bool) -> None:
    """Its box would show nothing of the model; up to three times as many boxes as usual."""
    view = make_view(network([("few", "Few", 1, 2), ("many", "Many", blocks, 3)]))
    assert ("many" in opened(view)) == is_opened
    most = DEFAULT_MAX_BOXES
    assert most < steps(view) <= 3 * most if is_opened else steps(view) == 2


def test_a_loop_in_a_part_of_almost_everything_folds() -> None:
    """Long code around a loop does not close the part: it was expected when the part was opened."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("exp", run.input("x"))
        with run.scope("search", FUNCTION, kind=ScopeKind.FUNCTION):
            for number in range(70):
                x = run.op(f"op_{word(number)}", x)
            for number in range(60):
                with run.scope(str(number), "Step"):
                    x = run.op("cos", run.op("exp", x))
        run.returns(x)
    view = make_view(run.recording())
    assert opened(view) == {"search"} and steps(view) == 72


def test_what_is_alike_opens_alike():
    """Parts of one class are opened together or not at all."""
    parts = [("one", "Few", 5, 20), ("other", "Few", 5, 20), ("many", "Many", 60, 3)]
    assert opened(make_view(network(parts))) == {"one", "other"}
    parts[1] = ("other", "Few", 40, 20)
    assert opened(make_view(network(parts))) == set()


def test_a_budget_is_kept():
    """Whatever *max_boxes* is, no part is opened that does not fit; equal runs, equal views."""
    recording = network([("few", "Few", 5, 30), ("some", "Some", 9, 9), ("many", "Many", 60, 3)])
    for most in range(4, 40):
        view = make_view(recording, ViewOptions(max_boxes=most))
        again = make_view(recording, ViewOptions(max_boxes=most))
        assert steps(view) <= most
        assert list(view.boxes) == list(again.boxes)


def test_a_depth_that_is_asked_for_is_one_for_all():
    """``depth=1`` opens no part further."""
    recording = network([("few", "Few", 5, 30), ("many", "Many", 60, 3)])
    assert opened(make_view(recording, ViewOptions(depth=1))) == set()


def test_one_depth_where_more_turns_out_to_be_too_much():
    """Layers that were expected to fold, and do not, are not opened."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for number in range(4):
            weight = run.input(f"weight_{word(number)}")
            with run.scope(str(number), "Layer"):
                for step in range(12):
                    x = run.op(f"op_{word(step)}", x, weight)
                with run.scope("core", "Core"):
                    for step in range(100):
                        x = run.op(f"op_{word(step)}", x)
        with run.scope("many", "Many"):
            for number in range(60):
                with run.scope(f"block_{word(number)}", "Block"):
                    for step in range(3):
                        x = run.op(f"op_{word(step)}", x)
        run.returns(x)
    view = make_view(run.recording())
    assert opened(view) == set() == opened(page_view(run.recording()))
    assert steps(view) == 5


def test_repeats_that_do_not_fold_are_closed():
    """Layers of one structure that each read an input of their own are boxes, not all open."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for number in range(12):
            weight = run.input(f"weight_{word(number)}")
            with run.scope(str(number), "Layer"):
                for step in range(6):
                    x = run.op(f"op_{word(step)}", x, weight)
        run.returns(x)
    view = make_view(run.recording())
    assert opened(view) == set() == opened(page_view(run.recording()))
    assert steps(view) == 12


def test_a_loss_beside_the_model_does_not_keep_it_closed() -> None:
    """A function of many operations, called after the model, is one box; the model is opened."""
    run = Builder()
    x = run.input("x")
    with run.scope("model", "Model"):
        for name in ("first", "second"):
            with run.scope(name, name.title()):
                x = run.op("tanh", run.op("exp", x))
    with run.scope("loss", FUNCTION, kind=ScopeKind.FUNCTION):
        for number in range(DEFAULT_MAX_BOXES + 20):
            x = run.op(f"op_{word(number)}", x)
    view = make_view(run.recording())
    assert len(view.clusters) == 1 and steps(view) == 3


def test_one_box_is_not_all_that_is_shown() -> None:
    """What wraps a large network, such as ``no_grad`` around a function, is opened by default."""
    run = Builder("Outer")
    with run.scope("Outer"), run.scope("wrapped", "Inner"):
        x = run.input("x")
        for number in range(DEFAULT_MAX_BOXES + 20):
            x = run.op(f"op_{word(number)}", x)
        with run.scope("head", "Head"):
            x = run.op("exp", run.op("tanh", x))
        run.returns(x)
    view = make_view(run.recording())
    assert opened(view) == {"wrapped"} and steps(view) == DEFAULT_MAX_BOXES + 21


@pytest.mark.parametrize(("ops", "opens"), [(["scale"], False), (["scale", "shift"], True)])
def test_a_module_that_counts_its_calls_is_opened_for_what_else_it_runs(
    ops: Sequence[str], opens: bool
) -> None:
    """For a single operation it is not, as without the count."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("exp", run.input("x"))
        with run.scope("norm", "Norm"):
            count = run.buffer("count")
            run.op("add_", count, writes=count)
            for name in ops:
                x = run.op(name, x)
        run.returns(run.op("tanh", x))
    assert ("norm" in opened(make_view(run.recording()))) == opens


@pytest.mark.parametrize(("models", "opened"), [(1, ["Net"]), (2, [])])
def test_a_large_model_of_a_training_step_is_opened(models: int, opened: list[str]) -> None:
    """As it is without the step, though neither fits; two models side by side are not."""
    run = Builder("step")
    x = run.input("x")
    for _ in range(models):
        with run.scope("Net"):
            for number in range(9):
                with run.scope(word(number), "Block"):
                    x = run.op(word(number), run.op("relu", x))
    run.op("neg", run.op("sum", x))
    view = make_view(run.recording(), ViewOptions(max_boxes=6, fold=False))
    assert [view.recording.scopes[ScopeId(cluster)].name for cluster in view.clusters] == opened


@pytest.mark.parametrize(("trains", "found"), [(True, {"step"}), (False, set[str]())])
def test_a_validation_beside_a_training_does_not_keep_it_closed(
    trains: bool, found: set[str]
) -> None:
    """The step of an optimizer with a closure is opened, although a larger region without gradients
    cannot be. Without a backward pass, such a region is a part like others."""
    run = Builder("fit")
    x = run.input("x")
    with run.scope("valid", "no_grad", kind=ScopeKind.NO_GRAD):
        with run.scope("net", "Net"):
            y = run.op("cos", run.op("exp", x))
        for number in range(DEFAULT_MAX_BOXES + 20):
            y = run.op(f"op_{word(number)}", y)
    with run.scope("step", "SGD", kind=ScopeKind.OPTIMIZER):
        with run.scope("net", "Net"):
            for number in range(9):
                x = run.op(f"layer_{word(number)}", x)
        loss = run.op("loss", x)
    recording = run.recording()
    if trains:
        loss_op = recording.values[loss].producer
        recording = replace(recording, backward_runs=(BackwardRun(0, loss_op, None, False, False),))
    view = make_view(recording)
    names = {view.recording.scopes[ScopeId(cluster)].name for cluster in view.clusters}
    assert names & {"valid", "step"} == found


def test_a_module_without_parts_takes_no_room():
    """However large, an innermost module stays closed: another part is opened in its place."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("leaf", "Leaf"):
            for step in range(130):
                x = run.op(f"op_{word(step)}", x)
        for name, blocks, ops in (("some", 60, 2), ("many", 100, 1)):
            with run.scope(name, name.title()):
                for number in range(blocks):
                    with run.scope(f"block_{word(number)}", "Block"):
                        for step in range(ops):
                            x = run.op(f"op_{word(step)}", x)
        run.returns(x)
    assert opened(make_view(run.recording(), ViewOptions(max_boxes=150))) == {"some"}
