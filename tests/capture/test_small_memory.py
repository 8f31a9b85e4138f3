"""Memory that is watched, kernel by kernel, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchrecorder.capture.probes import memory
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.storage import NO_STORAGE, Storages


def watching(**backward: Any) -> Any:
    """An instrument for memory on a tape of its own."""
    values = SimpleNamespace(storages=Storages(), named={})
    found = {"current": None, "last_started": None, **backward}
    answers = {name: (lambda answer=answer: answer) for name, answer in found.items()}
    runs: Any = SimpleNamespace(autograd=SimpleNamespace(values=values), **answers)
    return memory.MemoryWatched(Tape(), runs)


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
        made.tape.stack = [SimpleNamespace(scope=scope)] if scope else []
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
    made._meet(tensor, "o1")
    made.values.storages = SimpleNamespace(of=lambda _: SimpleNamespace(number=NO_STORAGE))
    made._meet(tensor, "o1")
    assert not made.begun and not made._references


def test_an_error_of_the_instrument_is_none_of_the_program(monkeypatch: Any) -> None:
    """A fact is lost, before or after the kernel, and the result is as without it."""
    monkeypatch.setattr(Tape, "strict", False)

    def fails(*given: Any) -> None:
        raise KeyError

    for broken in ("_gives_arguments", "_name"):
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
        made._meet(tensor, node)
    assert [*made.begun.values()] == [(16, "o1", 1)]
    tensor.untyped_storage().resize_(64)
    made._meet(tensor, "o3")
    assert [*made.begun.values()] == [(64, "o3", 3)] and [each.bytes for each in made.done] == [16]


def test_results_of_which_one_is_an_argument() -> None:
    """Share memory with it."""
    returns = [SimpleNamespace(alias_info=None), SimpleNamespace(alias_info="a")]
    schema = SimpleNamespace(name="mine::op", returns=returns)
    assert memory._gives_arguments(SimpleNamespace(_schema=schema))
    schema.returns = returns[:1]
    assert not memory._gives_arguments(SimpleNamespace(_schema=schema))


def test_real_tensors_behind_fake_ones() -> None:
    """Their memory is not followed, whoever meets it; what is followed goes on being it."""
    tensor, made = torch.ones(4), watching()
    made._meet(tensor, "o1", shares=True)
    made._meet(tensor, None)
    assert not made.begun and made._alias == {made.values.storages.of(tensor).number}
    other = torch.ones(2)
    made._meet(other, "o1")
    made._meet(other, "o2", shares=True)
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
