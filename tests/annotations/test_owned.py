"""What modules own, by their dotted paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import network
from tests.graph.test_consistency import changed
from torchrecorder.annotations.parameter_owners import (
    FunctionRead, ParameterOwners, Whole, assigned_gradients, flat_parameters, writers,
)
from torchrecorder.events import ModuleId, ParameterPart, ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _paths(recording: Recording, path: str) -> list[str]:
    modules = recording.modules
    (asked,) = [each.id for each in modules.values() if path in each.names]
    return [modules[each].names[0] for each in ParameterOwners(recording).modules(asked)]


def test_what_only_begins_alike_is_not_below() -> None:
    """Neither a longer name nor one with a letter that sorts before the dot."""
    model = nn.Module()
    for name in ("a", "ab", "a-b", "a_b", "a0"):
        setattr(model, name, nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    model.forward = lambda x: model.a(x)  # type: ignore[method-assign]
    recording = torchrecorder.record(model, torch.ones(1, 2))
    assert _paths(recording, "a") == ["a", "a.0", "a.1"]
    assert _paths(recording, "a-b") == ["a-b", "a-b.0", "a-b.1"]
    assert len(_paths(recording, "")) == 16


def test_a_module_with_two_names_is_below_both() -> None:
    """And counts once."""
    model = nn.Module()
    model.one = nn.Sequential(nn.Linear(2, 2))
    model.two = nn.Sequential(model.one[0])
    model.forward = lambda x: model.two(model.one(x))  # type: ignore[method-assign]
    recording = torchrecorder.record(model, torch.ones(1, 2))
    assert _paths(recording, "one") == ["one", "one.0"]
    assert _paths(recording, "two") == ["one.0", "two"]
    assert recording.annotations["parameters"].total() == 6


class _Wrapped(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.weight = inner, nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_deep_models_are_counted_once() -> None:
    """What lies below a module is found through every path around it, each weight once."""
    model: nn.Module = nn.ReLU()
    for _ in range(150):
        model = _Wrapped(model)
    recording = torchrecorder.record(model, torch.ones(1))
    assert recording.annotations["parameters"].of([recording.roots[0]]) == 150


class _Direct(nn.Module):
    """Reads the weights of a layer, and of a list in it, without a call of either."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.layer.scales = nn.ParameterList([torch.ones(4)])
        self.layer.inner = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.layer.weight * self.layer.scales[0]
        return self.last(self.layer.inner(nn.functional.linear(x, weight, self.layer.bias)))


def test_weights_of_modules_that_are_not_called_count_for_the_call_that_reads_them() -> None:
    """So that rankings have all weights, and own numbers add up to the total."""
    recording = torchrecorder.record(_Direct(), torch.ones(1, 4), backward=True)
    ranked = {row.name: row.number for row in recording.top("parameters")}
    assert ranked == {"_Direct": 24, "layer.inner": 16, "last": 10}
    rows = recording.table(["gradient_bytes"])
    own = {row["name"]: row["self_gradient_bytes"] for row in rows}
    assert own == {"_Direct": 96, "layer.inner": 64, "last": 40}
    attention = torchrecorder.record(nn.MultiheadAttention(4, 2), (torch.ones(3, 1, 4),) * 3)
    assert [row.number for row in attention.top("parameters")] == [80]


def test_which_operations_read_parameters_that_their_scope_does_not_own() -> None:
    """In a function or mode any, in a call those of no module; an optimizer step is neither."""
    run = Builder("Net")
    with run.scope("Net") as net:
        x = run.input("x")
        with run.scope("scale", kind=ScopeKind.FUNCTION) as function:
            loose = run.parameter("loose")
            x = scaled = run.op("mul", x, loose)
        with run.scope("layer", "Linear") as layer:
            weight = run.parameter("weight")
            x = called = run.op("linear", x, weight, loose)
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD) as mode:
            outside = run.op("add", x, weight)
        with run.scope("step", "SGD", kind=ScopeKind.OPTIMIZER):
            run.op("add_", loose, weight)
    recording = run.recording()
    maker = {value: one.producer for value, one in recording.values.items()}
    assert ParameterOwners(recording).function_reads == {
        maker[scaled]: [FunctionRead((loose,), function, None)],
        maker[called]: [FunctionRead((loose,), layer, None)],
        maker[outside]: [FunctionRead((weight,), mode, net)],
    }


def test_a_tensor_that_is_only_overwritten_is_not_read() -> None:
    """Such as weights to which averaged ones are copied; what is copied is read, also to itself."""
    run = Builder("Net")
    with run.scope("Net"):
        weight, average, both = (run.parameter(name) for name in ("weight", "average", "both"))
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD):
            run.op("copy_", weight, average, slots=("self", "src"))
            run.op("copy_", both, both, slots=("self", "src"))
    reads = ParameterOwners(run.recording()).function_reads.values()
    assert [read.values for found in reads for read in found] == [(average,), (both,)]


def test_a_part_of_a_parameter_of_no_module() -> None:
    """Such as the flat one of FSDP; that of a module has its own gradient."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("flat", kind=ScopeKind.FUNCTION):
            flat = run.parameter("flat")
        weight, part = run.parameter("weight"), run.parameter("part")
        run.op("add", weight, part)
    parts = ParameterPart(part, flat), ParameterPart(weight, part)
    recording = replace(run.recording(), parameter_parts=parts)
    assert flat_parameters(recording) == {part: flat}


def test_members_that_only_the_first_of_two_runs_has() -> None:
    """They count only where there are no others."""
    run = Builder("Net")
    run.op("exp", run.input())
    recording = run.recording()
    compared = replace(recording, former=frozenset(("gone:o1", "gone:o2")))
    within = ParameterOwners(compared).within
    assert [*within(["o1", "gone:o1", "gone:o2"])] == ["o1"]
    assert [*within(["gone:o1", "gone:o2"])] == ["gone:o1", "gone:o2"]
    assert [*ParameterOwners(recording).within(["o1", "gone:o1"])] == ["o1", "gone:o1"]


def test_a_table_asks_once_for_the_parameters_of_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all in the row, of what is only in it with and without the call: not for each column."""
    asked, within = list[object](), ParameterOwners.within

    def counted(owners: ParameterOwners, members: Iterable[str]) -> Whole:
        if not isinstance(members, Whole):
            asked.append(owners)
        return within(owners, members)

    recording = network()
    monkeypatch.setattr(ParameterOwners, "within", counted)
    rows = recording.table(by="module")
    assert len(rows[0]) > 8 and len(asked) <= 3 * len(rows)


@pytest.mark.parametrize(("op", "name", "is_assigned"), [
    ("copy_", "weight.grad", True), ("mul_", "weight.grad", False), ("copy_", "other.grad", False),
    ("copy_", "weight", False),
])
def test_a_gradient_that_the_program_assigns(op: str, name: str, is_assigned: bool) -> None:
    """Not one that it scales, nor that of another tensor."""
    run = Builder("Net")
    with run.scope("Net"):
        weight = run.parameter("weight")
        made = run.op(op, run.input("x"), run.input("y"))
    recording = changed(run.recording(), "values", made, names=(name,))
    assert assigned_gradients(recording) == ({weight} if is_assigned else set())


@pytest.mark.parametrize(("storages", "is_known"), [
    ((7, 8, 7), True), ((7, 7, 7), False), ((-1, 8, -1), False), ((7, 8, 9), False),
])
def test_what_is_written_to_the_memory_of_a_parameter(
    storages: tuple[int, ...], is_known: bool
) -> None:
    """Without its name, as to a view; not where several parameters share the memory."""
    run = Builder("Net")
    with run.scope("Net"):
        weight, other = run.parameter("weight"), run.parameter("other")
        view = run.input("view")
        written = run.op("add_", view, writes=view)
    recording = run.recording()
    for value, storage in zip((weight, other, written), storages):
        recording = changed(recording, "values", value, storage=storage)
    assert [*writers(recording)] == [weight if is_known else written]


def test_modules_without_a_name_have_their_own_weights() -> None:
    """They are in no other module, and no other in them."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("mul", run.input("x"), run.parameter("weight"))
        with run.scope("inner", "Inner"):
            run.op("mul", run.input("y"), run.parameter("scale"))
    recording = changed(run.recording(), "modules", "m1", names=())
    owned = ParameterOwners(recording)
    assert [*owned.modules(ModuleId("m1"))] == ["m1"] and [*owned.modules(ModuleId("m0"))] == ["m0"]
    assert [*owned.by_module(ModuleId("m1"))] == [recording.modules["m1"].parameters[0].value]
