"""What scopes read from outside, and what of them is read there."""

from __future__ import annotations

from typing import Any

from torchrecorder.events import Role, ScopeKind
from torchrecorder.graph.relations import Boundaries
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def crossing() -> Recording:
    """Two modules in one: the second reads a result of the first and what the first reads."""
    run = Builder("Net")
    with run.scope("Net"):
        x, free = run.input("x"), run.constant()
        with run.scope("pair", "Pair"):
            with run.scope("a", "A"):
                h = run.op("first", x, run.parameter("weight"), slots=("input", "weight"))
                kept = run.op("second", h, free)
                run.op("unread", h)
            with run.scope("b", "B"):
                y = run.op("third", kept, x, x, slots=("left", "right", "again"))
            run.returns(y)
        run.op("fourth", y, h)
    return run.recording()


def test_what_scopes_read_and_make() -> None:
    """Values that cross their border, named by the first argument: constants too, no weights."""
    recording = crossing()
    scopes = {scope.path: scope.id for scope in recording.scopes.values()}
    names = {value: op.name for op in recording.ops.values() for value in op.outputs}
    made = Boundaries(recording, scopes.values())

    def across(path: str) -> Any:
        ends = made.inputs(scopes[path]), made.outputs(scopes[path])
        return [[(slot.name, names.get(slot.value, "x")) for slot in slots] for slots in ends]

    assert across("pair.a") == [[("input", "x"), ("1", "x")], [("0", "second"), ("1", "first")]]
    assert across("pair.b") == [[("left", "second"), ("right", "x")], [("0", "third")]]
    assert across("pair") == [[("input", "x"), ("1", "x")], [("0", "third"), ("1", "first")]]
    assert across("") == [[("input", "x"), ("1", "x")], [("0", "fourth")]]
    only = Boundaries(recording, [scopes["pair.b"]])
    assert only.inputs(scopes["pair.b"]) == made.inputs(scopes["pair.b"])
    assert only.outputs(scopes["pair.b"]) == made.outputs(scopes["pair.b"])


def test_what_is_written_into_a_weight_is_read_like_any_value() -> None:
    """Once an op made it, it flows."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("a", "A"):
            mean = run.op("add_", run.buffer("mean"), writes=run.buffer("mean"))
        with run.scope("b", "B", kind=ScopeKind.NO_GRAD):
            run.op("neg", mean)
    recording = run.recording()
    assert recording.values[recording.ops["o0"].outputs[0]].role is Role.INNER
    first, second = [scope.id for scope in recording.scopes.values()][1:]
    found = Boundaries(recording, [first, second])
    assert not found.inputs(first) and len(found.outputs(first)) == 1
    assert [slot.value for slot in found.inputs(second)] == [mean]
