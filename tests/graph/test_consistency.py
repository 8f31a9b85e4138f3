"""What does not fit together in a recording is told, one fact each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from tests.graph.test_facts import nested
from tests.stepped import stepped
from torchrecorder.events import (
    Allocation, Communication, FunctionCall, FusedKernel, GradEdge, GraphBreak, ParameterPart,
    Shard, Slot, Statistics,
)
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import GradNode
from torchrecorder.graph.repair import UNKNOWN, repaired
from torchrecorder.recording import Recording


def blank(row: Any, /, **facts: Any) -> Any:
    """A row of this class with nothing in it but *facts*."""
    return row(**{**dict.fromkeys(row.__annotations__), **facts})


def keyed(rows: Iterable[Any]) -> Any:
    """A table of rows by their ids."""
    return MappingProxyType({row.id: row for row in rows})


def changed(recording: Recording, table: str, row: str, **facts: Any) -> Recording:
    """*recording* with other facts in one row."""
    rows = getattr(recording, table)
    rows = MappingProxyType({**rows, row: rows[row].replace(**facts)})
    return replace(recording, **{table: rows})


def failed(**facts: Any) -> Recording:
    """A run that failed in a place that is not there."""
    failure = Failure("E", "", **{"scope": None, "op": None, "backward": False, **facts})
    return replace(nested(), run=replace(nested().run, failure=failure))


def called(**facts: Any) -> Recording:
    """A run with the call of a function."""
    call = blank(FunctionCall, id="f0", **{"ops": (), "scopes": (), **facts})
    return replace(nested(), function_calls=keyed([call]))


def sent(**facts: Any) -> Recording:
    """A run that sent something."""
    return replace(nested(), communications=(blank(Communication, **facts),))


def broken(**facts: Any) -> Recording:
    """A run whose compiled graph ended somewhere."""
    return replace(nested(), graph_breaks=(blank(GraphBreak, **facts),))


X = (Slot("", "v99"),)


@pytest.mark.parametrize(
    ("recording", "table"),
    [
        (changed(nested(), "scopes", "s1", parent="x99"), "scopes"),
        (changed(nested(), "ops", "o0", scope="x99"), "scopes"),
        (changed(stepped(), "grad_nodes", "g1", scope="x99"), "scopes"),
        (changed(nested(), "modules", "m1", calls=("s2", "x99")), "scopes"),
        (sent(scope="x99"), "scopes"),
        (broken(scope="x99"), "scopes"),
        (called(scope="x99"), "scopes"),
        (called(scopes=("x99",)), "scopes"),
        (failed(scope="x99"), "scopes"),
        (changed(nested(), "scopes", "s2", module="x99"), "modules"),
        (changed(nested(), "values", "v1", producer="x99"), "ops"),
        (changed(stepped(), "grad_nodes", "g1", owner="x99"), "ops"),
        (replace(stepped(), backward_runs=(stepped().backward_runs[0].replace(op="x99"),)), "ops"),
        (sent(op="x99"), "ops"),
        (broken(op="x99"), "ops"),
        (replace(nested(), fused_kernels=(blank(FusedKernel, ops=("x99",)),)), "ops"),
        (called(ops=("x99",)), "ops"),
        (failed(op="x99"), "ops"),
        (changed(nested(), "ops", "o0", inputs=(Slot("", "x99"),)), "values"),
        (
            replace(stepped(), backward_runs=(
                stepped().backward_runs[0].replace(cleared=(Slot("hook()", "x99"),)),
            )),
            "values",
        ),
        (
            replace(stepped(), backward_runs=(
                stepped().backward_runs[0].replace(replacements=("x99",)),
            )),
            "values",
        ),
        (changed(nested(), "ops", "o0", outputs=("v1", "x99")), "values"),
        (changed(nested(), "ops", "o0", writes=("x99",)), "values"),
        (changed(nested(), "scopes", "s1", inputs=(Slot("", "x99"),)), "values"),
        (changed(nested(), "scopes", "s1", outputs=(Slot("", "x99"),)), "values"),
        (changed(nested(), "modules", "m1", buffers=(Slot("", "x99"),)), "values"),
        (replace(nested(), inputs=(Slot("", "x99"),)), "values"),
        (replace(nested(), outputs=(Slot("", "x99"),)), "values"),
        (changed(stepped(), "grad_nodes", "g1", variable="x99"), "values"),
        (replace(nested(), shards=(blank(Shard, value="x99"),)), "values"),
        (replace(nested(), parameter_parts=(ParameterPart("v1", "x99"),)), "values"),
        (changed(nested(), "values", "v1", grad=GradEdge("x99", 0)), "grad_nodes"),
        (changed(stepped(), "grad_nodes", "g1", next=(None, GradEdge("x99", 0))), "grad_nodes"),
        (changed(stepped(), "grad_nodes", "g1", made_by="x99"), "grad_nodes"),
        (replace(stepped(), grad_runs=(stepped().grad_runs[0].replace(grad="x99"),)),
         "grad_nodes"),
        (sent(grad="x99"), "grad_nodes"),
        (failed(grad="x99"), "grad_nodes"),
    ],
)
def test_every_reference_is_checked(recording: Recording, table: str) -> None:
    """Whatever refers to something that is not there is told."""
    told = [text for text in problems(recording) if "'x99'" in text and "which another" in text]
    assert told == [f"{table}: there is no 'x99', which another part refers to"]


def test_what_fits_together_is_fine() -> None:
    """Nothing is told of recordings that are whole."""
    assert not [*problems(nested())] and not [*problems(stepped())]


def allocated(size: int, begin: int, end: int | None, **nodes: str) -> Allocation:
    """Memory that lived so long."""
    return blank(Allocation, bytes=size, begin=begin, end=end, **nodes)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (allocated(0, 0, None), ""),
        (allocated(4, 3, 4, made_in="o0", freed_in="s1"), ""),
        (allocated(-1, 0, 1), "the one of -1 bytes at 0 is not possible"),
        (allocated(4, -1, 1), "the one of 4 bytes at -1 is not possible"),
        (allocated(4, 3, 3), "the one of 4 bytes at 3 is not possible"),
        (allocated(4, 3, 5, made_in="v0"), "there is no 'v0', which another part refers to"),
        (allocated(4, 3, 5, freed_in="m0"), "there is no 'm0', which another part refers to"),
    ],
)
def test_memory_lives_before_it_ends(found: Allocation, told: str) -> None:
    """Its size and beginning are not negative; ops, grad nodes and scopes make and free it."""
    recording = replace(nested(), allocations=(found,))
    assert [*problems(recording)] == ([f"allocations: {told}"] if told else [])


@pytest.mark.parametrize(
    ("node", "run", "fits"),
    [("v1", -1, True), ("v1", 0, False), ("g1", 0, True), ("g1", -1, False)],
)
def test_statistics_are_of_values_or_of_gradients(node: str, run: int, fits: bool) -> None:
    """A gradient is numbered by its backward run, a value by none."""
    found = replace(stepped(), statistics=(blank(Statistics, node=node, run=run),))
    assert [*problems(found)] == ([] if fits else [f"statistics: {node!r} has no such numbers"])


def test_calls_of_functions_are_nested() -> None:
    """Each after the one around it; what ran in one ran in no other."""
    outer = blank(FunctionCall, id="f0", ops=("o0",), scopes=())
    inner = blank(FunctionCall, id="f1", parent="f0", ops=(), scopes=("s1",))
    fits = replace(nested(), function_calls=keyed([outer, inner]))
    assert not [*problems(fits)]
    assert [*problems(replace(fits, function_calls=keyed([inner, outer])))] == [
        "function_calls: 'f1' comes before the call around it"
    ]
    again = inner._replace(ops=("o0",))
    assert [*problems(replace(fits, function_calls=keyed([outer, again])))] == [
        "function_calls: 'o0' ran in two of them"
    ]


def test_numbers_are_measured_for_what_ran() -> None:
    """Of ops, scopes, values and grad nodes; a module is no part of the run."""
    for node in ("o0", "s0", "v0"):
        assert not [*problems(replace(nested(), measured={"n": {node: 1.0}}))]
    for node in ("o99", "m0"):
        assert [*problems(replace(nested(), measured={"n": {node: 1.0}}))] == [
            f"measured: 'n' was measured for {node!r}, which does not exist"
        ]


def test_what_is_missing_is_added_or_no_longer_referred_to() -> None:
    """Grad nodes and values are added; scopes and modules are forgotten, also by the failure."""
    recording = changed(stepped(), "grad_nodes", "g1", next=(GradEdge("x1", 0),), scope="x2")
    recording = changed(recording, "scopes", "s1", module="x3")
    failure = Failure("E", "", "x2", None, False)
    found = repaired(replace(recording, run=replace(recording.run, failure=failure)))
    assert found.grad_nodes["x1"] == GradNode("x1", UNKNOWN, None, None, (), None)
    assert found.grad_nodes["g1"].scope is found.scopes["s1"].module is None
    assert found.run.failure == replace(failure, scope=None)
    assert found.run.notes[-1] == "not seen while it ran: 1 scope, 1 module, 1 grad node"
    assert found.ops == recording.ops and found.scopes["s2"] == recording.scopes["s2"]


def test_unrecorded_ops_come_in_the_order_of_their_numbers() -> None:
    """The ninth before the tenth; each recomputed if its reader is."""
    recording = nested()
    first, last = recording.ops["o0"], recording.ops["o4"]
    reads = (*last.inputs, *X, Slot("", "v100"))
    recording = changed(recording, "ops", "o4", inputs=reads, recompute=True)
    values = {"v99": "o10", "v100": "o9"}
    made = [first_value(recording).replace(id=key, producer=op) for key, op in values.items()]
    found = repaired(replace(recording, values=keyed([*recording.values.values(), *made])))
    order = sorted(found.ops.values(), key=lambda op: op.index)
    assert [op.id for op in order] == ["o0", "o1", "o2", "o3", "o9", "o10", "o4"]
    assert [op.recompute for op in order] == [False] * 4 + [True] * 3
    assert all(op.scope == last.scope == first.scope for op in order[4:])
    recording = changed(recording, "ops", "o4", recompute=False)
    found = repaired(replace(recording, values=keyed([*recording.values.values(), *made])))
    assert not any(op.recompute for op in found.ops.values())


def first_value(recording: Recording) -> Any:
    """The first of its values."""
    return next(iter(recording.values.values()))
