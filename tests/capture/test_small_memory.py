"""Memory that is watched, kernel by kernel, and what else is counted there, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchrecorder.capture.probes import communications, flops, memory, saved
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.storage import Storages
from torchrecorder.events import (
    BYTES_SAVED, FLOPS_BACKWARD, FLOPS_FORWARD, NO_STORAGE, Measured, ScopeKind,
)


def watching(**backward: Any) -> Any:
    """An instrument for memory on a tape of its own."""
    values = SimpleNamespace(storages=Storages(), named={})
    found = {"current": None, "last_started": None, **backward}
    answers = {name: (lambda answer=answer: answer) for name, answer in found.items()}
    runs: Any = SimpleNamespace(autograd=SimpleNamespace(values=values), **answers)
    return memory.MemoryProbe(Tape(), runs)


@pytest.mark.parametrize(("current", "last", "node"), [
    ("g1", "g2", "g1"), (None, "g2", "g2"), (None, None, "before"),
])
def test_the_node_in_which_a_kernel_runs(
    current: Any, last: Any, node: str, monkeypatch: Any
) -> None:
    """In backward that which runs, or has begun; where none has, as before."""
    made = watching(current=current, last_started=last)
    made._node = "before"
    monkeypatch.setattr(memory, "current_node", lambda: "node")
    made._before_kernel(torch.ops.aten.add.Tensor, (), {})
    assert made._node == node
    monkeypatch.setattr(memory, "current_node", lambda: None)
    for op, scope, place in (("o1", "s1", "o1"), (None, "s1", "s1"), (None, None, "")):
        made.tape.op = op
        made.tape.scope = scope
        made._before_kernel(torch.ops.aten.add.Tensor, (), {})
        assert made._node == place


def test_what_a_kernel_reads_was_there_before() -> None:
    """Unless it was made just before, for this kernel; arguments by name too."""
    one, other = torch.ones(4), torch.ones(2)
    made = watching()
    made._before_kernel(torch.ops.aten.lift_fresh.default, (one,), {})
    assert not made.begun
    made._before_kernel(torch.ops.aten.add.Tensor, (one,), {"out": other})
    assert sorted(made.begun.values()) == [(8, "", 0), (16, "", 0)]


def test_memory_that_is_not_followed() -> None:
    """That of tensors without any, and that of a real tensor behind a fake one."""
    tensor, made = torch.ones(4), watching()
    made._alias.add(made.values.storages.of(tensor).number)
    made._track(tensor, "o1")
    made.values.storages = SimpleNamespace(of=lambda _: SimpleNamespace(number=NO_STORAGE))
    made._track(tensor, "o1")
    assert not made.begun and not made._references


def test_an_error_of_the_instrument_is_none_of_the_program(monkeypatch: Any) -> None:
    """A fact is lost, before or after the kernel, and the result is as without it."""
    monkeypatch.setattr(Tape, "strict", False)

    def fails(*given: Any) -> None:
        raise KeyError

    for broken in ("_returns_aliases", "_name"):
        with monkeypatch.context() as patch:
            patch.setattr(memory, broken, fails)
            made = watching()
            with made:
                result = torch.ones(3) + 1
            assert made.tape.lost and result.tolist() == [2, 2, 2]


def test_memory_that_is_met_again() -> None:
    """Is known, unless it was resized: then it was released, and is there anew."""
    tensor, made = torch.ones(4), watching()
    for node in ("o1", "o2", None):
        made._track(tensor, node)
    assert [*made.begun.values()] == [(16, "o1", 1)]
    tensor.untyped_storage().resize_(64)
    made._track(tensor, "o3")
    assert [*made.begun.values()] == [(64, "o3", 3)] and [each.bytes for each in made.done] == [16]


def test_results_of_which_one_is_an_argument() -> None:
    """Share memory with it."""
    returns = [SimpleNamespace(alias_info=None), SimpleNamespace(alias_info="a")]
    schema = SimpleNamespace(name="mine::op", returns=returns)
    assert memory._returns_aliases(SimpleNamespace(_schema=schema))
    schema.returns = returns[:1]
    assert not memory._returns_aliases(SimpleNamespace(_schema=schema))


def test_real_tensors_behind_fake_ones() -> None:
    """Their memory is not followed, whoever meets it; what is followed goes on being it."""
    tensor, made = torch.ones(4), watching()
    made._track(tensor, "o1", shares=True)
    made._track(tensor, None)
    assert not made.begun and made._alias == {made.values.storages.of(tensor).number}
    other = torch.ones(2)
    made._track(other, "o1")
    made._track(other, "o2", shares=True)
    assert [*made.begun.values()] == [(8, "o1", 1)] and len(made._alias) == 1
    del other
    (released,) = made.done
    assert (released.bytes, released.role, released.leaf) == (8, "", -1)


def test_kernels_without_named_arguments() -> None:
    """PyTorch may give none."""
    tensor, made = torch.ones(4), watching()
    with made:
        pass
    result = made.__torch_dispatch__(torch.ops.aten.neg.default, (), (tensor,))
    assert result.sum() == -4 and not made.tape.lost


def test_memory_that_is_released_is_let_go() -> None:
    """No reference to it is kept."""
    tensor, made = torch.ones(4), watching()
    made._track(tensor, "o1")
    assert len(made._references) == 1
    del tensor
    assert not made._references and not made.begun and len(made.done) == 1


def test_other_higher_order_operators_run_as_they_are() -> None:
    """Only of a condition one branch is chosen."""
    counting: Any = object.__new__(flops.FlopProbe)
    given = torch.ones(1), 2
    assert counting._run_inside(lambda *args, **kwargs: (args, kwargs), given, {"a": 1}) == (
        given, {"a": 1}
    )


def test_windows_of_what_runs_several_times() -> None:
    """From where it begins first to where it ends last."""
    made = watching()
    for begin, end in ((3, 4), (1, 2), (7, 9), (8, 8)):
        made.moment = begin
        made._begin("s0", node=False)
        made.moment = end
        made._end("s0")
    assert made.windows == {"s0": (1, 9)} and made._node == ""


# Operations and saved tensors -------------------------------------------------------------


@pytest.mark.parametrize(("current", "last", "node"), [
    ("g1", "g2", "g1"), (None, "g2", "g2"), (None, None, "run"),
])
def test_the_node_whose_operations_are_counted(
    current: Any, last: Any, node: str, monkeypatch: Any
) -> None:
    """In backward; else the op, the call, or the run as a whole."""
    counting: Any = object.__new__(flops.FlopProbe)
    counting.tape = Tape()
    counting.backward = SimpleNamespace(current=lambda: current, last_started=lambda: last)

    def counted() -> Any:
        counting._count(lambda *args, out_val, **kwargs: out_val, (), {}, 7)
        return counting.tape.events.pop()

    monkeypatch.setattr(flops, "current_node", lambda: "node")
    assert counted() == Measured(FLOPS_BACKWARD, node, 7)
    monkeypatch.setattr(flops, "current_node", lambda: None)
    assert counted() == Measured(FLOPS_FORWARD, "run", 7)
    counting.tape.scope = "s1"
    assert counted() == Measured(FLOPS_FORWARD, "s1", 7)
    counting.tape.op = "o1"
    assert counted() == Measured(FLOPS_FORWARD, "o1", 7)


@pytest.mark.parametrize(("kind", "reentrant", "grad", "amount"), [
    (ScopeKind.CHECKPOINT, False, True, 16), (ScopeKind.CHECKPOINT, True, True, 0),
    (ScopeKind.CHECKPOINT, False, False, 0), (ScopeKind.NO_GRAD, False, True, 0),
])
def test_arguments_that_a_checkpoint_saves(
    kind: ScopeKind, reentrant: bool, grad: bool, amount: int
) -> None:
    """Tensors only, if a gradient will flow, and if no node of a custom function saves them."""
    tape: Any = Tape()
    autograd: Any = SimpleNamespace(values=SimpleNamespace(named={}))
    instrument = saved.SavedTensors(tape, autograd)
    event: Any = SimpleNamespace(kind=kind, id="s1")
    frame: Any = SimpleNamespace(f_locals={"use_reentrant": reentrant,
                                           "args": (torch.ones(4), "text", None)})
    with torch.set_grad_enabled(grad):
        instrument.entered(event, frame)
    assert tape.events == ([Measured(BYTES_SAVED, "s1", amount)] if amount else [])


def test_what_has_arrived_is_let_go() -> None:
    """Of a communication, once."""
    arrived: list[Any] = []
    storages = SimpleNamespace(collective_done=arrived.append)
    listener: Any = SimpleNamespace(values=SimpleNamespace(storages=storages))
    tensor = torch.ones(1)
    opened: Any = SimpleNamespace(received=[lambda: tensor, lambda: None])
    for _ in range(2):
        communications.Communications._arrive(listener, opened)
    assert len(arrived) == 1 and arrived[0] is tensor and opened.received == []


class Counted(int):
    """A number that counts comparisons."""

    compared = 0

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)


def test_the_peak_of_any_range() -> None:
    """Of a range over the whole run, without looking at each number again."""
    numbers = [Counted(number * 37 % 101) for number in range(100)]
    peaks = memory.Peaks(numbers)
    for first in range(100):
        for last in range(first, 100):
            assert peaks.between(first, last) == max(numbers[first : last + 1])
    assert memory.Peaks([5]).between(0, 0) == 5
    Counted.compared = 0
    peaks.between(1, 98)
    assert 0 < Counted.compared < 30
