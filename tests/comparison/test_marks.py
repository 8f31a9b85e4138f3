"""The marks of the nodes of two merged recordings, and the texts about them."""

from __future__ import annotations

from dataclasses import replace

from tests.comparison.test_compare import stack
from tests.comparison.test_overlay import laid
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.overlay import Overlay
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def noted(both: Overlay) -> dict[str, tuple[str, ...]]:
    """The texts about each op and scope, by its name."""
    steps = {**both.recording.scopes, **both.recording.ops}
    return {steps[node].name: texts for node, texts in both.notes.items() if node in steps}


def test_a_difference_of_the_run_is_not_one_of_a_node() -> None:
    """Neither marked nor noted."""
    before = stack("Linear")
    after = replace(before, run=replace(before.run, grad_mode="no_grad"))
    assert compare(before, after)
    both = laid(before, after)
    assert not both.marks and not both.notes and not both.quiet


def test_notes_have_the_kind_and_the_text() -> None:
    """Only the kind, where that is all."""
    assert noted(laid(stack("ReLU"), stack("GELU"))) == {"0": ("replaced: ReLU → GELU",)}
    assert noted(laid(stack(), stack("GELU")))["0"] == ("added: 1 op",)
    ops = noted(laid(summed("0", "exp"), summed("0", "exp", "abs")))
    assert ops["abs"] == ("added",)


def test_a_change_as_text() -> None:
    """Its kind, its place and what differs, if there is more to say."""
    found = compare(summed("0", "exp"), summed("0", "exp", "abs")).changes
    assert [str(change) for change in found] == [
        "added     abs", "rewired   sum  reads abs, not exp"
    ]


def summed(dim: str, *names: str, early: bool = False) -> Recording:
    """A sum over a dimension of the last result of these ops, or of the input."""
    run = Builder("Net")
    with run.scope("Net"):
        x = y = run.input("x")
        for name in names:
            y = run.op(name, y)
        y = run.op("sum", x if early else y, arguments=(("dim", dim),))
        run.returns(y)
    return run.recording()


def test_the_most_important_difference_of_a_node_is_its_mark() -> None:
    """An argument of an op counts more than what it reads."""
    both = laid(summed("0", "exp"), summed("1", "exp", early=True))
    marks = {op.name: both.marks.get(op.id) for op in both.recording.ops.values()}
    assert marks == {"exp": None, "sum": ChangeKind.CHANGED}
    assert [text.partition(":")[0] for text in noted(both)["sum"]] == ["changed", "rewired"]


def test_a_module_is_not_changed_in_a_call_that_only_one_run_has() -> None:
    """That call was added, and there is nothing to compare it with."""
    def run(detail: str, calls: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for _ in range(calls):
                with builder.scope("act", "Act", detail=detail):
                    x = builder.op("act", x)
        return builder.recording()

    both = laid(run("slope=1", 1), run("slope=2", 2))
    calls = [scope.id for scope in both.recording.scopes.values() if scope.name == "act"]
    assert [both.notes[call] for call in calls] == [("changed: slope: 1 → 2",), ("added: 1 op",)]
