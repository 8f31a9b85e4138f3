"""What a recording says of its own parts, one fact each; medians; what is missing is added."""

from __future__ import annotations

import gc
import math
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.figures import network
from tests.stepped import stepped
from torchrecorder.errors import InvalidArgument, InvalidRecording, NotKept, NotThere
from torchrecorder.events import (
    SECONDS_ON_DEVICE, OpId, OpKind, Rank, Role, ScopeId, ScopeKind, Statistics, ValueId,
)
from torchrecorder.graph.calls_around import common
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.end_names import end_names
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.median_runs import COUNTING, medians, own_seconds, without_times
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.recording import RunFacts
from torchrecorder.graph.relations import ops_inside
from torchrecorder.graph.repair import UNKNOWN, repaired
from torchrecorder.graph.retained_tensors import Tensors
from torchrecorder.graph.saved_files import dumps, load, loads, save
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def nested() -> Recording:
    """An op, a region with an op and a module with two, and a last op."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("first", run.input("x"))
        with run.scope("outer", "no_grad", kind=ScopeKind.NO_GRAD):
            h = run.op("second", h)
            with run.scope("inner", "Inner"):
                h = run.op("fourth", run.op("third", h), h)
        run.op("last", h)
    return run.recording()


def test_what_lies_in_a_scope_is_in_run_order() -> None:
    """Ops and scopes as they come; nothing lies in an op."""
    recording = nested()
    inside = {
        recording.scopes[scope].name if scope else "": [step.name for step in steps]
        for scope, steps in recording.children.items()
    }
    assert inside == {
        "": ["Net"], "Net": ["first", "outer", "last"], "outer": ["second", "inner"],
        "inner": ["third", "fourth"],
    }


def test_what_lies_around_a_scope() -> None:
    """From the inside out; an unknown id is told."""
    recording = nested()
    inner = next(scope for scope in recording.scopes.values() if scope.name == "inner")
    around = [recording.scopes[scope].name for scope in recording.within(inner.id)]
    assert around == ["inner", "outer", "Net"] and recording.within(None) == ()
    with pytest.raises(NotThere, match="no scope has the id 's9'"):
        recording.within(ScopeId("s9"))


def test_ops_inside_of_some_scopes() -> None:
    """At any depth, and none beside."""
    recording = nested()
    names = {
        scope.name: {recording.ops[op].name for op in ops_inside(recording, [scope.id])}
        for scope in recording.scopes.values()
    }
    assert names == {
        "Net": {"first", "second", "third", "fourth", "last"},
        "outer": {"second", "third", "fourth"}, "inner": {"third", "fourth"},
    }
    assert not [*ops_inside(recording, [])]


def test_readers_of_a_value() -> None:
    """Once for each argument, in run order."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("tanh", run.op("mul", x, x), x)
    recording = run.recording()
    assert [recording.ops[op].name for op in recording.consumers[x]] == ["mul", "mul", "tanh"]


def test_steps_of_an_optimizer() -> None:
    """It and all that is in it, but nothing around it."""
    run = Builder("run")
    with run.scope("Net"):
        h = run.op("relu", run.input())
    with run.scope("Adam", kind=ScopeKind.OPTIMIZER):
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD):
            run.op("add_", h)
    recording = run.recording()
    named = {recording.scopes[one].name: recording.scopes[step].name
             for one, step in recording.weight_updates.items()}
    assert named == {"Adam": "Adam", "no_grad": "Adam"}


def test_nothing_is_lost_by_default() -> None:
    """Nor noted."""
    run = RunFacts("", "no_grad")
    assert run.lost == 0 and run.notes == ()


@pytest.mark.parametrize("version", [0, -1, 1.5, "2", True, None])
def test_no_version(version: Any) -> None:
    """They are counted from 1."""
    with pytest.raises(InvalidRecording, match="without a valid version"):
        decode({**encode(network()), "version": version}, Recording)


def test_what_all_calls_have_in_common() -> None:
    """Their outermost ones, down to where they part."""
    one, other, third = ("f", 1), ("g", 2), ("h", 3)
    assert common([]) == ()
    assert common([(one, other)]) == (one, other)
    for chains in ([(one, other), (one, third)], [(one, other, third), (one, third)],
                   [(one,), (one, other)], [(one, other), (one,)]):
        assert common(chains) == (one,)
    assert common([(one, other), (), (one, other)]) == common([(one,), (third,)]) == ()


def test_what_is_written_into_a_buffer_is_one() -> None:
    """An op that reads and writes nothing but buffers keeps books; others do not."""
    run = Builder("Net")
    with run.scope("Net"):
        x, count, mean = run.input("x"), run.buffer("count"), run.buffer("mean")
        counted = run.op("add_", count, writes=count)
        updated = run.op("lerp_", mean, x, writes=mean)
        run.op("mul", count)
        run.op("item", count, outputs=0)
    recording = run.recording()
    assert recording.stored[counted] is recording.stored[updated] is Role.BUFFER
    assert x not in recording.stored
    assert [recording.ops[op].name for op in recording.bookkeeping] == ["add_"]


def test_names_of_ends() -> None:
    """By name, by number where there are several, and by what they are where there is one."""
    recording = nested()
    assert [names for _, _, names in end_names(recording)] == [("x",), ("output", "out")]
    run = Builder("Net")
    with run.scope("Net"), run.scope("output", "Head"):
        made = [run.op("relu", run.input(name)) for name in ("x", "1")]
        run.returns(*made)
    (_, second, *outputs) = [names for _, _, names in end_names(run.recording())]
    assert second == ("1", "input 1") and len(outputs) == 1


def timed(*seconds: float, whole: float = 10.0) -> Recording:
    """The nested run, of which the ops took so long, and each scope as long as all of it."""
    recording = nested()
    ops = {
        key: op.replace(seconds=taken) for (key, op), taken in zip(recording.ops.items(), seconds)
    }
    scopes = {key: scope.replace(seconds=whole) for key, scope in recording.scopes.items()}
    facts = replace(recording.run, seconds=whole, notes=(COUNTING, "other"))
    return replace(
        recording, ops=MappingProxyType(ops), scopes=MappingProxyType(scopes), run=facts,
        measured=MappingProxyType({SECONDS_ON_DEVICE: MappingProxyType({"o0": whole})}),
    )


def test_own_time_is_what_nothing_inside_took() -> None:
    """Of ops and of scopes; never less than nothing."""
    recording = timed(1, 2, 3, 4, 5)
    inner, outer = (
        scope.replace(seconds=taken) for scope, taken in
        zip(list(recording.scopes.values())[:0:-1], (8.0, 9.0))
    )
    scopes = MappingProxyType({**recording.scopes, inner.id: inner, outer.id: outer})
    own = own_seconds(replace(recording, scopes=scopes))
    assert [own[scope] for scope in recording.scopes] == [0.0, 0.0, 1.0]
    own = own_seconds(replace(timed(1, 2, 3, 4, 5, whole=40.0)))
    assert [own[scope] for scope in recording.scopes] == [0.0, 0.0, 33.0]


def test_medians_of_repeats() -> None:
    """Of each op and of the whole; scopes add up what is in them and what is their own."""
    repeats = [timed(1, 2, 3, 4, 5), timed(3, 2, 3, 4, 5), timed(2, 9, 3, 4, 5, whole=30.0)]
    found = medians(nested(), repeats)
    assert [op.seconds for op in found.ops.values()] == [2, 2, 3, 4, 5]
    assert found.run.seconds == 10.0 and not found.run.notes
    assert found.measured[SECONDS_ON_DEVICE]["o0"] == 10.0
    inner, outer, net = [scope.seconds for scope in found.scopes.values()][::-1]
    own = [sorted(own_seconds(repeat)[scope] for repeat in repeats)[1] for scope in found.scopes]
    assert (inner, outer) == (own[2] + 7, own[1] + 2 + own[2] + 7)
    assert net == own[0] + 7 + outer


def test_repeats_that_ran_something_else_are_left_out() -> None:
    """A note says how many; with none left, only the note is new."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("other", run.input())
    notes = medians(nested(), [timed(1, 2, 3, 4, 5), run.recording()]).run.notes
    assert notes == ("1 of 2 repeats ran other operations and is left out",)
    found = medians(timed(1, 2, 3, 4, 5), [run.recording()])
    assert found.ops == timed(1, 2, 3, 4, 5).ops
    assert found.run.notes == ("other", "1 of 1 repeat ran other operations and is left out")


def test_times_can_be_taken_out() -> None:
    """All of them, and nothing else."""
    found = without_times(timed(1, 2, 3, 4, 5))
    steps: list[Any] = [*found.ops.values(), *found.scopes.values(), found.run]
    assert all(step.seconds is None for step in steps)
    assert not found.measured and found.run.overhead is None
    assert {key: op.replace(seconds=0.0) for key, op in found.ops.items()} == nested().ops
    assert found.run.notes == (COUNTING, "other") and len(found.scopes) == 3


def without(recording: Recording, table: str, *names: str) -> Recording:
    """*recording* without some rows of a table."""
    rows = {key: row for key, row in getattr(recording, table).items() if row.name not in names}
    return replace(recording, **{table: MappingProxyType(rows)})


def test_an_unrecorded_op_is_hidden_before_its_first_reader() -> None:
    """In the scope of that, under the id that others know; the rest keeps its order."""
    found = repaired(without(nested(), "ops", "second"))
    assert not [*problems(found)]
    order = sorted([*found.ops.values(), *found.scopes.values()], key=lambda step: step.index)
    assert [step.name for step in order] == [
        "Net", "first", "outer", "inner", UNKNOWN, "third", "fourth", "last",
    ]
    (hidden,) = (op for op in found.ops.values() if op.kind is OpKind.HIDDEN)
    assert found.scopes[hidden.scope].name == "inner"  # type: ignore[index]
    assert found.run.notes == ("not seen while it ran: 1 op",)
    assert repaired(nested()).run.notes == ()


def test_an_unrecorded_op_without_readers_is_the_last() -> None:
    """Outside of all scopes."""
    found = repaired(without(nested(), "ops", "last"))
    hidden = list(found.ops.values())[-1]
    assert hidden.kind is OpKind.HIDDEN and hidden.scope is None and hidden.outputs
    assert hidden.index == len(found.ops) + len(found.scopes) - 1


def test_an_unrecorded_scope_is_not_referred_to() -> None:
    """What was in it stands at the top, and the values that nobody saw have no shape."""
    recording = without(nested(), "scopes", "outer")
    values = {key: value for key, value in recording.values.items() if key != "v1"}
    found = repaired(replace(recording, values=MappingProxyType(values)))
    assert not [*problems(found)]
    tops = [step.name for step in found.children[None]]
    assert tops == ["Net", "second", "inner"]
    assert found.values[ValueId("v1")] == Value(
        ValueId("v1"), (), UNKNOWN, UNKNOWN, Role.INNER, (), OpId("o0"), False, None, 0, "Tensor",
        False, -1,
    )


def test_any_node_by_its_id() -> None:
    """Ops, values and grad nodes; what is none of them is told."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("relu", run.input("x"), grads=("ReluBackward0",))
    recording = run.recording()
    for table in (recording.ops, recording.values, recording.grad_nodes):
        for key, node in table.items():
            assert recording.node(key) is node
    for wrong in ("o9", "s0", 3):
        with pytest.raises(NotThere, match="no op, value or grad node has the id"):
            recording.node(wrong)  # type: ignore[arg-type]


def test_numbers_that_json_has_not_are_saved() -> None:
    """Statistics of what is not finite."""
    taken = Statistics("v1", 0, -1, 8, math.inf, 1.0, -math.inf, 1.0, 2.0, 0, 0, 0)
    recording = replace(nested(), statistics=(taken,))
    assert loads(dumps(recording), Recording).statistics == (taken,)


def test_a_time_that_json_has_not_is_refused(tmp_path: Path) -> None:
    """Before a file is there that nobody could read."""
    recording = replace(nested(), run=replace(nested().run, seconds=math.nan))
    with pytest.raises(ValueError):
        save(recording, tmp_path / "run.json")
    assert not [*tmp_path.iterdir()]


def test_without_times_nothing_is_of_the_machine() -> None:
    """No time of the run or of its parts, and no name of the machine; the rest stays."""
    rank = Rank(1, 2, "machine", (), ())
    taken = timed(*[4.0] * len(nested().ops))
    run = replace(taken.run, rank=rank, seconds=3.0, overhead=1.0)
    recording = replace(taken, run=run)
    assert loads(dumps(recording), Recording) == recording
    bare = replace(run, rank=rank._replace(host=""), seconds=None, overhead=None)
    found = loads(dumps(recording, times=False), Recording)
    assert found == replace(without_times(recording), run=bare)


def test_the_least_limit(tmp_path: Path) -> None:
    """One byte is a limit, none is not."""
    path = save(nested(), tmp_path / "run.json")
    with pytest.raises(InvalidRecording, match="more than 1 bytes"):
        load(path, make=Recording, limit=1)
    with pytest.raises(InvalidArgument, match="at least 1"):
        load(path, make=Recording, limit=0)
    size = path.stat().st_size
    assert load(path, make=Recording, limit=size) == nested()
    with pytest.raises(InvalidRecording, match="more than"):
        load(path, make=Recording, limit=size - 1)


def test_tensors_that_were_kept() -> None:
    """Of one call its tensor, of several a list; what is not there is told."""
    tensors = Tensors({"a": ["first"], "b": ["second", "third"]})
    assert (tensors["a"], tensors["b"]) == ("first", ["second", "third"])
    assert [*tensors] == ["a", "b"] and len(tensors) == 2 and repr(tensors) == "<tensors of a, b>"
    with pytest.raises(NotKept, match=r"record with keep=\['other'\]\. Kept: 'a', 'b'"):
        tensors["other"]
    for wrong in ("a", 3, ["a"]):
        with pytest.raises(NotKept, match="Kept: nothing"):
            Tensors({})[wrong]  # type: ignore[index]


def test_the_garbage_collector_is_as_it_was() -> None:
    """Off while many objects are made; on again after that, also after an error."""
    assert gc.isenabled()
    with pytest.raises(ValueError), without_gc():
        assert not gc.isenabled()
        with without_gc():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_a_run_counts_its_parts() -> None:
    """One scope, more ops; outermost scopes are its roots."""
    assert repr(nested()) == "<Recording of Net: 3 scopes, 5 ops, 6 values>"
    run = Builder("Net")
    with run.scope("Net"):
        run.op("relu", run.input())
    with run.scope("Loss"):
        pass
    assert repr(run.recording()) == "<Recording of Net: 2 scopes, 1 op, 2 values>"
    assert run.recording().roots == ("s0", "s1") and nested().roots == ("s0",)


def test_what_failed() -> None:
    """Scopes, ops and grad nodes, and nothing beside them."""
    recording = stepped()
    parts: dict[str, Any] = {
        table: MappingProxyType({
            key: row.replace(failed=key in ("s1", "o1", "g3"))
            for key, row in getattr(recording, table).items()
        })
        for table in ("scopes", "ops", "grad_nodes")
    }
    assert replace(recording, **parts).failed == {"s1", "o1", "g3"}


def test_memory_of_weights_has_their_role() -> None:
    """By storage; what has none is left out."""
    recording = stepped()
    roles = {value.storage: value.role for value in recording.values.values()}
    assert recording.stored_memory == {
        key: role for key, role in roles.items() if role is Role.PARAMETER
    }
    values = {key: value.replace(storage=-1) for key, value in recording.values.items()}
    assert not replace(recording, values=MappingProxyType(values)).stored_memory
