"""Small facts of tensors that are measured, saved, kept or run again, by hand."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import torchrecorder
from tests.capture.test_small_memory import watching
from tests.zoo.case import net
from torchrecorder.capture.probes import (
    communications, device, flops, probes, retained_tensors, saved, statistics, weights,
)
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.storage import Storages
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import (
    BYTES_PEAK, Allocation, GradEdge, Measured, Role, ScopeKind, Statistics,
)
from torchrecorder.graph.nodes import Scope


def written(tape: Any, kind: type) -> list[Any]:
    """What a tape holds of one kind."""
    return [each for each in tape.events if isinstance(each, kind)]


# Memory -----------------------------------------------------------------------------------


def test_windows_end_with_what_they_are_of() -> None:
    """An op, a call or a node: what is allocated later is not in them."""
    for begins, ends in (("op_begins", "op_ended"), ("node_begins", "node_ended"),
                         ("scope_entered", "scope_left")):
        made = watching()
        call = SimpleNamespace(scope="s1")
        name: Any = call if begins == "scope_entered" else "n1"
        getattr(made, begins)(name, *([0, ()] if begins == "node_begins" else []))
        made.moment = 2
        more = {"node_ended": [0], "scope_left": [[]]}
        getattr(made, ends)(name, *more.get(ends, []))
        made.moment = 5
        assert list(made.windows.values()) == [(0, 2)] and not made._open


def test_allocations_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """By when they began, then by storage; those that have no role say so."""
    made = watching()
    made.begun = {7: (8, "o1", 4), 3: (16, "", 0), 2: (32, "", 0)}
    made._roles = {3: ("parameter", -1)}
    made.done = [Allocation(9, 64, "o1", 3, "o2", 5, "", -1)]
    made.moment = 5
    made.finish()
    found = written(made.tape, Allocation)
    assert [each.storage for each in found] == [2, 3, 9, 7]
    assert [each.role for each in found] == ["", "parameter", "", ""]
    assert {each.leaf for each in found} == {-1}
    assert not made.begun and not made.done


def test_peaks_of_what_was_allocated_at_once() -> None:
    """What was there before the run all counts."""
    made = watching()
    made.windows = {"s0": (0, 1)}
    made.moment = 1
    made._write_peaks([Allocation(n, 10, "", 0, "", end, "", -1) for n, end in ((1, None), (2, 1))])
    made._write_peaks([Allocation(n, 10, "", 0, "", 1, "", -1) for n in (1, 2, 3)])
    assert [each.amount for each in written(made.tape, Measured)] == [20, 30]
    assert {each.quantity for each in made.tape.events} == {BYTES_PEAK}


def test_memory_in_use_when_a_call_begins_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is in its peak, also if it is released before anything runs."""
    used = {"current": 100, "peak": 100}
    cuda = SimpleNamespace(
        current_device=lambda: 0,
        synchronize=lambda at: None,
        memory_stats_as_nested_dict=lambda at: {"allocated_bytes": {"all": dict(used)}},
    )
    monkeypatch.setattr(device, "torch", SimpleNamespace(cuda=cuda))
    tape = Tape()
    watched = device.DeviceProbe(tape)
    watched.used = True
    tape.stack = [SimpleNamespace(scope="s0")]  # type: ignore[list-item]
    watched.scope_entered(tape.stack[0])
    used["current"] = 10
    watched.scope_left(tape.stack[0], [])
    watched.finish()
    assert [each.amount for each in written(tape, Measured)] == [100]


def test_gradients_that_were_there_before() -> None:
    """Belong to their parameter; where there is none, or no data, none is followed."""
    weight = torch.ones(4, requires_grad=True)
    weight.grad = torch.ones(4)
    made = watching()
    made._add_weight(weight, "parameter")
    leaf, gradient = (made.values.storages.of(each).number for each in (weight, weight.grad))
    assert made._roles == {leaf: ("parameter", -1), gradient: ("gradient", leaf)}
    assert made.begun == {leaf: (16, "", 0), gradient: (16, "", 0)}
    bare, others = watching(), (torch.ones(2), nn.LazyLinear(2).weight)
    for tensor in others:
        bare._add_weight(tensor, "parameter")
    assert [role for role, _ in bare._roles.values()] == ["parameter"]


# Saved tensors ----------------------------------------------------------------------------


def counting(*named: tuple[Any, Role]) -> Any:
    """An instrument for saved tensors, with the tensors that have names."""
    values = {number: (lambda tensor=tensor: tensor, role, "")
              for number, (tensor, role) in enumerate(named)}
    autograd: Any = SimpleNamespace(values=SimpleNamespace(named=values))
    return saved.SavedTensors(Tape(), autograd)


def test_bytes_behind_a_sparse_tensor() -> None:
    """Its indices and its values, once."""
    made = counting()
    sparse = torch.eye(3).to_sparse()
    assert made._bytes(sparse) == sparse._indices().nbytes + sparse._values().nbytes
    assert made._bytes(sparse) == 0


def test_bytes_of_what_has_names() -> None:
    """Those of parameters and buffers do not count; parameters without data are no trouble."""
    lazy = nn.LazyLinear(2).weight
    weight, statistic, given = torch.ones(3), torch.ones(4), torch.ones(5)
    made = counting((lazy, Role.PARAMETER), (None, Role.PARAMETER), (weight, Role.PARAMETER),
                    (statistic, Role.BUFFER), (given, Role.INPUT))
    assert [made._bytes(tensor) for tensor in (weight, statistic, given)] == [0, 0, 20]


def test_a_checkpoint_without_tensors_saves_nothing() -> None:
    """There is no number for it."""
    made = counting()
    frame: Any = SimpleNamespace(f_locals={"use_reentrant": False, "args": ("text",)})
    made.entered(SimpleNamespace(kind=ScopeKind.CHECKPOINT, id="s1"), frame)
    assert not made.tape.events


def test_references_to_memory_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, when the run is over."""
    freed: list[int] = []
    made = counting()
    made._kept = {1: 11, 2: 22}
    monkeypatch.setattr(saved, "UntypedStorage", SimpleNamespace(_free_weak_ref=freed.append))
    del made
    assert freed == [11, 22]


def test_saved_tensors_that_cannot_be_read_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised in the program, and nothing is counted."""
    monkeypatch.setattr(Tape, "strict", False)
    made = counting()

    def fails(node: Any) -> None:
        raise RuntimeError

    made._saved = fails
    made.node_recorded("g1", object())
    assert made.tape.lost == 1 and not written(made.tape, Measured)


# Statistics, kept results, nodes ----------------------------------------------------------


@pytest.mark.parametrize(("choice", "paths", "taken"), [
    (True, [], True), (["a"], ["a", "b"], True), (["c"], ["a", "b"], False),
])
def test_numbers_of_a_result(choice: Any, paths: list[str], taken: bool) -> None:
    """Belong to the value as it was made: to no run of a node, and to none of its outputs."""
    running: Any = SimpleNamespace(all_paths=lambda scope: paths)
    tape: Any = Tape()
    made = statistics.StatisticsProbe(tape, running, Storages(), choice)
    made.op_made("o1", "mul", [("v1", torch.ones(2)), ("v2", torch.ones(3))])  # type: ignore
    found = written(tape, Statistics)
    assert [each[:4] for each in found] == [("v1", 0, -1, 2), ("v2", 0, -1, 3)] * taken


def test_numbers_of_tensors_without_data() -> None:
    """There are none: of fake and meta tensors, of no numbers, and of integers."""
    with FakeTensorMode():
        fake = torch.ones(2)
    for tensor in (fake, torch.ones(2, device="meta"), torch.ones(0), torch.ones(2).long()):
        assert statistics.numbers(tensor) is None
    found = statistics.numbers(torch.ones(2))
    assert found is not None and found[:2] == (2, 1.0)


def test_weights_of_others_are_not_followed() -> None:
    """An optimizer may have some more than the model."""
    model, other = nn.Linear(1, 1, bias=False), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([model.weight, other], lr=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with weights.WeightProbe(model) as followed:
            (model.weight * other).sum().backward()
            optimizer.step()
    assert list(followed.weights) == ["weight"]
    assert followed.weights["weight"].update == pytest.approx(0.5)


def a_call(parent: Any, path: str) -> Scope:
    """The call of a module."""
    number: Any = "s1"
    return Scope(number, parent, 0, ScopeKind.MODULE, "Net", path, "Net", None, 0, None, False,
                 (), (), None, False)


def keeping(choice: Any) -> Any:
    """An instrument that keeps results."""
    autograd: Any = SimpleNamespace(
        values=SimpleNamespace(storages=Storages()),
        edge_behind=lambda tensor: GradEdge("g1", 0),  # type: ignore[arg-type]
    )
    running = RunningModules(Tape(), None)  # type: ignore[arg-type]
    return retained_tensors.TensorKeeper(Tape(), autograd, running, choice)


@pytest.mark.parametrize(("parent", "path", "kept"), [
    (None, "", ["Net"]), ("s0", "a", ["a"]), ("s0", "", []),
])
def test_results_of_calls_that_are_kept(parent: Any, path: str, kept: list[str]) -> None:
    """The outermost call by its name, others by their paths; regions have none."""
    for choice in (True, "*"):
        made = keeping(choice)
        event = a_call(parent, path)
        made.running.tape.events.append(event)
        made.scope_left(SimpleNamespace(event=event), [("", torch.ones(1))])
        made.scope_left(SimpleNamespace(event=event), [])
        assert {name: len(calls) for name, calls in made._made.items()} == dict.fromkeys(kept, 1)


def test_results_of_operations_inside_of_modules() -> None:
    """By the innermost module, with its whole path."""
    inner = net(lambda self, x: x.sin())
    model = net(lambda self, x: self.a(x), a=net(lambda self, x: self.b(x).cos(), b=inner))
    recording = torchrecorder.record(model, torch.ones(1), keep=["a*: *"])
    assert list(recording.activations) == ["a.b: sin", "a: cos"]


class Refused(torch.autograd.Function):
    """A function whose backward fails."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The same numbers."""
        return x * 1

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Nothing."""
        raise RuntimeError("mine")


def test_an_error_of_a_node_that_runs_again_is_its_own() -> None:
    """It is not said that anything was freed."""
    kept = retained_tensors.ReplayProbe()
    result = Refused.apply(torch.ones(1, requires_grad=True))
    node = result.grad_fn
    kept.node_hooked("g1", node)  # type: ignore[arg-type]
    kept.node_begins("g1", 0, (torch.ones(1),))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="^mine$"):
        kept.run("g1")  # type: ignore[arg-type]


# Operations -------------------------------------------------------------------------------


def test_operations_of_kernels_without_named_arguments() -> None:
    """PyTorch may give none; a formula that cannot be used is lost, and the result is there."""
    made: Any = object.__new__(flops.FlopProbe)
    made.tape = Tape()
    made._way_to_run = lambda func, args: (None, flops._AS_IT_IS)
    assert made.__torch_dispatch__(torch.ops.aten.neg.default, (), (torch.ones(1),)).item() == -1


def test_operators_that_cannot_be_looked_up_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are lost, and not counted."""
    monkeypatch.setattr(Tape, "strict", False)
    made: Any = object.__new__(flops.FlopProbe)
    made.tape = Tape()

    def fails(func: Any, args: Any) -> None:
        raise KeyError

    made._way_to_run = fails
    ran = made.__torch_dispatch__(torch.ops.aten.neg.default, (), (torch.ones(1),), {})
    assert ran.item() == -1 and made.tape.lost == 1 and not written(made.tape, Measured)


def test_operations_that_cannot_be_counted_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised in the program."""
    monkeypatch.setattr(Tape, "strict", False)
    made: Any = object.__new__(flops.FlopProbe)
    made.tape = Tape()
    made._count(None, (), {}, torch.ones(1))
    assert made.tape.lost == 1 and not written(made.tape, Measured)


# What is asked for ------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False, "inductor"])
def test_what_compiled_may_be(compiled: Any) -> None:
    """Nothing else."""
    assert probes.Probes(compiled=compiled).compiled == compiled
    for other in (1, "aot"):
        with pytest.raises(InvalidArgument):
            probes.Probes(compiled=other)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [(), ["Net: sin"], True])
def test_statistics_are_asked_for_by_call(keep: Any) -> None:
    """A pattern that only an operation matches gives none, and that is told."""
    model = net(lambda self, x: x.sin())
    with pytest.warns(Warning, match="^stats: .*'Net: sin'"):
        torchrecorder.record(model, torch.ones(1), stats=["Net: sin"], keep=keep)


# Communication and profilers --------------------------------------------------------------


def test_a_wait_of_the_recorder_is_none_of_the_program() -> None:
    """Nothing begins."""
    listener: Any = SimpleNamespace(_is_of_run=lambda: False)
    assert communications.Communications.waits(listener, torch.ones(1)) is None


def test_time_of_the_instrument_is_none_of_the_program() -> None:
    """In its thread it stands still meanwhile; in others it runs."""
    clock = iter(range(100))
    made: Any = object.__new__(communications.Communications)
    made.tape = Tape(lambda: float(next(clock)))
    with made._working():
        assert made.tape.paused is not None
    assert made.tape.paused is None and made.tape.overhead > 0
    made.tape.thread += 1
    with made._working():
        assert made.tape.paused is None
