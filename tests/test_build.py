"""Events into a recording: what belongs together, and what happens where events are missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import torchrecorder
from tests.stepped import events, stepped
from torchrecorder.build import build
from torchrecorder.events import (
    FunctionCall, FunctionId, GradId, GradNodeMade, Measured, OpId, OpKind, Role, ScopeId,
    ScopeLeft, Statistics, ValueId,
)
from torchrecorder.export import EXPORTERS
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.nodes import GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.graph.saved_files import dumps, loads
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions, make_view

WRITERS = [each for each in EXPORTERS if each.suffix in (".dot", ".txt", ".mmd", ".nodelink.json")]


def _without(gone: Any) -> Recording:
    """The step of `events`, without those events for which *gone* is true."""
    return build([each for each in events() if not gone(each)], Recording)


def test_a_complete_run_is_not_changed() -> None:
    """Nothing is made up where nothing is missing."""
    recording = stepped()
    assert list(problems(recording)) == []
    assert recording.run.notes == ()
    assert all(op.kind is OpKind.CALLED for op in recording.ops.values())


def test_events_end_with_the_end_of_the_run() -> None:
    """What is no whole run is refused."""
    with pytest.raises(ValueError, match="RunDone"):
        build(events()[:-1], Recording)


def test_an_unrecorded_producer_is_a_hidden_op() -> None:
    """The tensor comes out of an op of its own, right before the one that reads it."""
    recording = _without(lambda each: isinstance(each, Op) and each.id == "o0")
    made, reader = recording.ops["o0"], recording.ops["o1"]
    assert (made.kind, made.name, made.outputs) == (OpKind.HIDDEN, "unknown", ("v2",))
    assert recording.values["v2"].producer == "o0"
    assert (made.scope, made.index + 1) == (reader.scope, reader.index)
    assert [step.index for step in _steps(recording)] == list(range(6))
    assert [step.id for step in _steps(recording)] == ["s0", "s1", "s2", "o0", "o1", "o2"]
    assert recording.run.notes == ("not seen while it ran: 1 op",)


def test_a_producer_whose_result_no_op_reads_comes_last() -> None:
    """It has no reader to stand before."""
    recording = _without(lambda each: isinstance(each, Op) and each.id in ("o1", "o2"))
    assert [step.id for step in _steps(recording)] == ["s0", "s1", "o0", "s2", "o1", "o2"]
    assert recording.ops["o1"].outputs == ("v4",)
    assert recording.ops["o1"].scope is None


def test_an_unrecorded_tensor_is_a_constant_or_comes_from_its_op() -> None:
    """One that an op gave is its result; another one was there before."""
    recording = _without(lambda each: isinstance(each, Value) and each.id in ("v0", "v2"))
    assert (recording.values["v0"].role, recording.values["v0"].producer) == (Role.CONSTANT, None)
    assert (recording.values["v2"].role, recording.values["v2"].producer) == (Role.INNER, "o0")
    assert {slot.value for slot in recording.ops["o1"].inputs} == {"v2", "v3"}


def test_an_unrecorded_scope_is_left_out() -> None:
    """What was in it lies at the top."""
    recording = _without(lambda each: isinstance(each, Scope) and each.id == "s1")
    assert recording.ops["o0"].scope is recording.grad_nodes["g1"].scope is None
    assert recording.modules["m1"].calls == ()


@pytest.mark.parametrize(("around", "scope"), [("s0", "s0"), ("gone", None)])
def test_a_function_has_what_was_recorded_in_it(around: str, scope: str | None) -> None:
    """Without ops and calls that are unknown; in an unknown one it lies at the top."""
    ops, scopes = (OpId("gone"), OpId("o0")), (ScopeId("s2"), ScopeId("gone"))
    given = FunctionId("f0"), None, ScopeId(around), "helper", "a.py", 1, None, ops, scopes
    told = events()
    recording = build([*told[:-1], FunctionCall(*given), told[-1]], Recording)
    (call,) = recording.function_calls.values()
    assert (call.scope, call.ops, call.scopes) == (scope, ("o0",), ("s2",))
    assert list(problems(recording)) == []


def test_an_unrecorded_grad_node_is_added() -> None:
    """What leads to it and what is known of its run stay."""
    recording = _without(lambda each: isinstance(each, GradNode) and each.id == "g1")
    assert recording.grad_nodes["g1"].name == "unknown"
    assert recording.values["v2"].grad.grad == "g1"
    assert [ran.grad for ran in recording.grad_runs] == ["g4", "g3", "g2", "g1", "g0"]


@settings(max_examples=150, deadline=None)
@given(st.sets(st.integers(0, 39)), st.integers(0, 3), st.booleans())
def test_whatever_is_missing_a_recording_holds_together(
    gone: set[int], depth: int, failed: bool
) -> None:
    """Any events may be lost: what is left is consistent, can be saved, drawn and listed."""
    told = events(failed=failed)
    kept = [each for place, each in enumerate(told[:-1]) if place not in gone]
    recording = build([*kept, told[-1]], Recording)
    assert list(problems(recording)) == []
    assert loads(dumps(recording), Recording) == recording
    backward = [ViewOptions(view="backward")] if recording.grad_nodes else []
    for options in (ViewOptions(depth=depth), *backward):
        view = make_view(recording, options)
        view.check()
        for exporter in WRITERS:
            exporter().export(view, Style())


def test_what_was_measured_for_unknown_nodes_adds_up_at_the_top() -> None:
    """All amounts that have no place count for the outermost scope, in total as they were."""
    amounts = {"gone": 7, "away": 11, "o0": 1}
    extra = [Measured("flops", node, amount) for node, amount in amounts.items()]
    told = events()
    recording = build([*told[:-1], *extra, told[-1]], Recording)
    assert recording.measured["flops"] == {"o0": 1001, "o1": 3000, "s0": 7 + 7 + 11}


def test_statistics_of_what_was_not_recorded_are_left_out() -> None:
    """They would belong to nothing."""
    stray = Statistics("v99", 0, -1, 8, 0.0, 1.0, -1.0, 1.0, 1.0, 0, 0, 0)
    told = events()
    assert build([*told[:-1], stray, told[-1]], Recording).statistics == stepped().statistics


def test_a_run_without_scopes_has_no_place_for_strays() -> None:
    """Where nothing was recorded, what was measured is not shown as something's."""
    recording = build([Measured("flops", "gone", 7), RunDone("n", RunFacts("", "grad"))], Recording)
    assert recording.measured == {"flops": {}}


KINDS = (Module, Value, Op, Scope, ScopeLeft, GradNode, GradRun)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("every", [1, 2, 5])
def test_real_runs_without_some_events_hold_together(kind: type, every: int) -> None:
    """A training step of attention, some or all events of one kind lost."""
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 3, 8)).sum().backward()
    told = recorder._events
    places = [place for place, each in enumerate(told) if type(each) is kind][::every]
    assert places
    kept = [each for place, each in enumerate(told) if place not in places]
    recording = build(kept, Recording)
    assert list(problems(recording)) == []
    assert loads(dumps(recording), Recording) == recording
    make_view(recording, ViewOptions(depth=2)).check()
    make_view(recording, ViewOptions(view="backward")).check()


def _steps(recording: Recording) -> list[Any]:
    steps = [*recording.scopes.values(), *recording.ops.values()]
    return sorted(steps, key=lambda step: step.index)


def test_what_a_double_backward_made_shows_by_what() -> None:
    """A grad node by another; of one that nobody saw nothing is known."""
    *first, end = events()
    known, by = [each.id for each in first if isinstance(each, GradNode)][:2]
    told = [GradNodeMade(known, by), GradNodeMade(GradId("g99"), by)]
    recording = build([*first, *told, end], Recording)
    assert {grad.id: grad.made_by for grad in recording.grad_nodes.values() if grad.made_by} == {
        known: by
    }


def test_an_alias_of_memory_that_an_op_wrote_is_one_of_its_results() -> None:
    """And written, as the memory was; the op's own results stay first."""
    *first, end = events()
    made = next(each for each in first if isinstance(each, Value) and each.producer == "o0")
    alias = made.replace(id=ValueId("v90"), names=("alias",))
    usual, recording = stepped(), build([*first, alias, end], Recording)
    op = recording.ops[OpId("o0")]
    assert op.outputs == (*usual.ops[OpId("o0")].outputs, alias.id) and op.writes == (alias.id,)
    assert [*problems(recording)] == []
    others = {key: one for key, one in recording.ops.items() if key != "o0"}
    assert others == {key: one for key, one in usual.ops.items() if key != "o0"}


class Compared(str):
    """An id that counts how often it is compared with others."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.count += str(self) != other
        return str.__eq__(self, other)


def test_results_are_not_compared_with_each_other() -> None:
    """An op may have thousands, such as those of ``unbind``."""
    *first, end = events()
    op = next(each for each in first if isinstance(each, Op) and each.id == "o0")
    made = next(each for each in first if isinstance(each, Value) and each.producer == "o0")
    many = [ValueId(Compared(f"v{number}")) for number in range(100, 140)]
    aliases = [made.replace(id=ValueId(Compared(f"v{number}"))) for number in range(100, 200)]
    replaced = op.replace(outputs=(*op.outputs, *many))
    recording = build([*first, replaced, *aliases, end], Recording)
    assert recording.ops[op.id].outputs == (*op.outputs, *(alias.id for alias in aliases))
    assert recording.ops[op.id].writes == tuple(alias.id for alias in aliases[40:])
    Compared.count = 0
    build([*first, replaced, *aliases, end], Recording)
    assert Compared.count < 100


@pytest.mark.parametrize("failed", [False, True])
def test_a_grad_node_that_raised_is_one_that_failed(failed: bool) -> None:
    """And no other."""
    runs = [
        each.replace(failed=failed) if isinstance(each, GradRun) and each.grad == "g1" else each
        for each in events()
    ]
    nodes = build(runs, Recording).grad_nodes.values()
    assert [node.id for node in nodes if node.failed] == (["g1"] if failed else [])
