"""The sizes of skeletons: how much of a model a scope is."""

from __future__ import annotations

from torchrecorder.comparison.step_keys import skeletons
from torchrecorder.events import ScopeKind
from torchrecorder.testing import Builder


def test_scopes_and_weights_are_counted_with_those_inside() -> None:
    """A region has no weights of its own, and several modules in one count together."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("add", run.input("x"), run.parameter("scale"))
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD):
            with run.scope("one", "Block"):
                with run.scope("fc", "Linear"):
                    x = run.op("linear", x, run.parameter("weight"), run.parameter("bias"))
                with run.scope("act", "ReLU"):
                    x = run.op("relu", x)
            with run.scope("two", "Linear"):
                run.op("linear", x, run.parameter("weight"))
    recording = run.recording()
    sizes = {recording.scopes[scope].name: (found.scopes, found.weights)
             for scope, found in skeletons(recording).items()}
    assert sizes == {
        "Net": (6, 4), "no_grad": (5, 3), "one": (3, 2), "fc": (1, 2), "act": (1, 0), "two": (1, 1)
    }
