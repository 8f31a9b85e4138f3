"""The rows of a table, of programs with unusual calls of their modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.nn import functional as F

import torchrecorder
from torchrecorder.annotations.compiled import COMPILED
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.events import BYTES_OF_GRADIENT, ModuleId, Role, ScopeKind, Slot
from torchrecorder.export.table.rows import TableRow, every_row, fitting
from torchrecorder.export.table.text import numbers_in
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.select.functions import WithFunctions
from torchrecorder.testing import Builder


def rows(recording: Recording, depth: int | None = None, *, ops: bool = False) -> list[TableRow]:
    """The rows of a table as `summary` lists them without folding."""
    return fitting(every_row(recording, ops=ops), depth)


def test_a_closure_that_is_called_again() -> None:
    """The closure of LBFGS has its weights once, as the modules inside it."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x = torch.randn(3, 4)
    calls = 0

    def closure() -> torch.Tensor:
        nonlocal calls
        calls += 1
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with torchrecorder.Recorder(model) as recorder:
        optimizer.step(closure)
    recording = WithFunctions(True)(recorder.recording)
    listed = [row for row in rows(recording) if row.title == "closure()"]
    assert [row.again for row in listed] == [False] + [True] * (calls - 1)
    assert calls > 1


def test_ops_are_no_calls_of_something_that_ran_before() -> None:
    """Only modules and functions are called again."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            with run.scope("act", "ReLU"):
                x = run.op("relu", x)
    again = [(row.title, row.again) for row in rows(run.recording(), ops=True)]
    assert again == [("Net", False), ("act (ReLU)", False), ("relu()", False),
                     ("act (ReLU)", True), ("relu()", False)]


def test_functions_whose_modules_with_weights_ran_before() -> None:
    """They are called again, whatever else they call; without such modules they are not."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("layer", "Linear"):
            run.op("linear", x, run.parameter("weight"))
        for called in (["layer", "act"], ["layer", "last"], [], ["act"]):
            with run.scope("", kind=ScopeKind.FUNCTION):  # so that paths in it are those of modules
                run.op("add", x)
                for module in called:
                    with run.scope(module):
                        run.op("op", x, *([] if module == "act" else [run.parameter("weight")]))
    again = [row.again for row in rows(run.recording()) if row.title == "()"]
    assert again == [True, False, False, False]


def test_what_reads_a_number_is_one_call() -> None:
    """The operation is named ``bool()``, which needs no second pair of brackets."""
    recording = torchrecorder.record(lambda x: x + 1 if x.sum() > 0 else x, torch.ones(2))
    assert "bool()" in {row.title for row in rows(recording, ops=True)}


def test_weights_computed_in_the_run_are_not_frozen() -> None:
    """A module that is called with other weights is not said to have frozen ones."""
    model = nn.Linear(4, 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        weights = {name: weight.detach() for name, weight in model.named_parameters()}
        return functional_call(model, weights, (x,))

    recording = torchrecorder.record(step, torch.randn(3, 4))
    assert [row.notes for row in rows(recording) if row.title == "model (Linear)"] == [()]


@pytest.mark.parametrize("model", [nn.Linear(4, 1), nn.Sequential(nn.Linear(4, 1))])
def test_weights_in_wrappers_of_torch_func_count_once(model: nn.Module) -> None:
    """``torch.func.grad`` wraps the weights that a module is called with; these are the same."""
    weights = dict(model.named_parameters())

    def loss(given: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(functional_call(model, given, (x,)), torch.zeros(3, 1))

    recording = torchrecorder.record(lambda x: grad(loss)(weights, x), torch.randn(3, 4))
    *_, called = recording.modules.values()
    read = {slot.value for op in recording.ops.values() for slot in op.inputs}
    assert {slot.value for slot in called.parameters} <= read
    count = sum(weight.numel() for weight in model.parameters())
    assert PARAMETERS.on(recording).total() == count


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(2, 4))])
def test_modules_in_scripts_are_not_reported_as_never_called(make: Callable[..., Any]) -> None:
    """They run, but without the hooks that tell of calls."""
    model = make(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    recording = torchrecorder.record(model, torch.ones(2, 4))
    inside = ("inside TorchScript",)
    assert [row.notes for row in rows(recording)] == [(), inside, inside]
    assert "relu" in {op.name for op in recording.ops.values()}


class Frozen(nn.Module):
    """Runs a part of itself without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run."""
        with torch.no_grad():
            return self.body[0](x).neg()


def test_names_below_a_region_are_those_below_the_module_around_it() -> None:
    """Regions are in no path."""
    recording = torchrecorder.record(nn.Sequential(Frozen()), torch.ones(2, 4))
    assert [(row.depth, row.title) for row in rows(recording)] == [
        (0, "Sequential"), (1, "0 (Frozen)"), (2, "no_grad"), (3, "body.0 (Linear)")
    ]


def test_modules_without_operations_have_rows() -> None:
    """Regions without any have none."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("empty", "Empty"):
            pass
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD):
            pass
        run.op("relu", run.input("x"))
    assert [row.title for row in rows(run.recording())] == ["Net", "empty (Empty)"]


def test_columns_of_numbers() -> None:
    """Those of tensors are none; the graphs of a row are of the annotation of compiled ops."""
    assert numbers_in(("input", "graphs", "output", "parameters")) == [COMPILED, PARAMETERS]
    with pytest.raises(UnknownAnnotation):
        numbers_in(("imput",))


@pytest.mark.parametrize(("count", "title"), [
    (2, "2 ops: a(), b()"), (3, "3 ops: a(), b(), c()"), (4, "4 ops: a(), b(), c(), …"),
])
def test_ops_outside_of_scopes_are_named_as_far_as_there_is_room(count: int, title: str) -> None:
    """The first three, or fewer if they are long; each once."""
    run = Builder("f")
    x = run.input("x")
    for name in "abcd"[:count]:
        x = run.op(name, x)
    recording = run.recording()
    assert [row.title for row in rows(recording)] == [title]
    assert rows(recording)[0].ids == tuple(recording.ops)
    twice = Builder("f")
    twice.op("a", twice.op("a", twice.op("b", twice.input("x"))))
    assert rows(twice.recording())[0].title == "3 ops: b(), a()"
    long = Builder("f")
    long.op("c", long.op("b" * 20, long.op("a" * 20, long.input("x"))))
    assert rows(long.recording())[0].title == f"3 ops: {'a' * 20}(), …"


def test_weights_without_a_gradient_that_another_module_reads() -> None:
    """Of a module that was never called, they are told if any of its weights was read."""
    run = Builder("Net")
    with run.scope("Net"):
        names = "head.weight", "head.bias", "other"
        weight, bias, other = map(run.parameter, names)
        run.op("linear", run.input("x"), weight, other)
    recording = run.recording()
    (net,) = recording.modules.values()
    slots = Slot("weight", weight), Slot("bias", bias)
    head = Module(ModuleId("m9"), ("head",), "Linear", "", "", slots, (), True, ())
    known = {net.id: net.replace(parameters=net.parameters[2:]), head.id: head}
    found = replace(
        recording, modules=MappingProxyType(known), measured={BYTES_OF_GRADIENT: {other: 4}}
    )
    (row,) = (row for row in rows(found) if row.title == "head (Linear)")
    assert row.notes == ("weights read, never called", "no gradient")
    around = Module(ModuleId("m8"), ("inner",), "Block", "", "", (), (), True, ())
    inner = head.replace(names=("inner.head",))
    parts = MappingProxyType({**known, head.id: inner, around.id: around})
    (row,) = (row for row in rows(replace(found, modules=parts)) if row.title == "inner (Block)")
    assert row.notes[0] == "weights read, never called"
    known[head.id] = head.replace(parameters=(), buffers=slots)
    values = {**found.values, weight: found.values[weight].replace(role=Role.BUFFER)}
    buffers = replace(found, modules=MappingProxyType({**known}), values=MappingProxyType(values))
    (row,) = (row for row in rows(buffers) if row.title == "head (Linear)")
    assert row.notes[0] == "buffers read, never called"
    unread = replace(found, ops=MappingProxyType({
        name: op.replace(inputs=op.inputs[-1:]) for name, op in found.ops.items()
    }))
    (row,) = (row for row in rows(unread) if row.title == "head (Linear)")
    assert row.notes == ("never called",)
