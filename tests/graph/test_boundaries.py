"""What scopes read from outside, and what of them is read there."""

from __future__ import annotations

from typing import Any

from tests.graph.test_consistency import changed
from torchrecorder.events import OpKind, Role, ScopeKind, ValueId
from torchrecorder.graph.relations import Boundaries, returned_unchanged, unseen_results
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


def unseen(recording: Recording, *paths: str, held: tuple[ValueId, ...] = ()) -> list[list[str]]:
    """The ops that gave the results of the calls of these modules, the innermost first."""
    maker = {value: op.name for op in recording.ops.values() for value in op.outputs}
    calls = [scope.id for path in paths for scope in recording.scopes.values()
             if scope.path == path]
    found = unseen_results(recording, calls, dict.fromkeys(held, "name"))
    return [[maker[slot.value] for slot in found[call]] for call in calls]


def test_results_of_calls_that_were_not_seen() -> None:
    """What is read outside, in the order in which it was made; or else what came last."""
    recording = crossing()
    assert unseen(recording, "pair.a", "pair.b", "pair") == [
        ["first", "second"], ["third"], ["first", "third"],
    ]
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("outer", "Outer"):
            with run.scope("inner", "Inner"):
                run.op("cos", run.op("sin", x))
        run.op("exp", x)
    assert unseen(run.recording(), "outer.inner", "outer") == [["cos"], ["cos"]]


def test_results_that_a_variable_holds() -> None:
    """Also of a backward pass, which gives none; not if another op in the call reads it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("step", "Step"):
            h = run.op("sin", x)
            loss = run.op("sum", h)
            run.op("backward", loss, outputs=0)
        run.op("exp", x)
    assert unseen(run.recording(), "step", held=(h, loss)) == [["sum"]]
    assert unseen(run.recording(), "step") == [[]]


def test_calls_of_one_module_give_the_same_results() -> None:
    """Also the last one, of which nothing reads the state."""
    run = Builder("Net")
    with run.scope("Net"):
        x = state = run.input("x")
        for _ in range(2):
            with run.scope("cell", "Cell"):
                state = run.op("tanh", x, state)
                y = run.op("sigmoid", state)
            run.op("exp", y)
    assert unseen(run.recording(), "cell") == [["tanh", "sigmoid"]] * 2


def test_what_was_returned_unchanged_stays_so_after_writes() -> None:
    """One write to the result and to what was given; not one to two tensors that only look so."""
    run = Builder("Net")
    with run.scope("Net"):
        x, other = run.input("x"), run.input("other")
        same = run.op("identity", x, kind=OpKind.PASS)
        both = run.op("add_", same, writes=same, outputs=2)
        run.op("mul_", other, writes=other, outputs=2)
    recording = run.recording()
    for op in ("o1", "o2"):
        recording = changed(recording, "ops", op, writes=recording.ops[op].outputs)
    second = recording.ops["o1"].outputs[1]
    assert [*returned_unchanged(recording)] == [(same, x), (second, both)]
