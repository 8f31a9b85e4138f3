"""Small parts of the recorder by themselves: what belongs to which run, write, node and object."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

import torchrecorder
from torchrecorder.capture.autograd.walk import _parents_first
from torchrecorder.capture.state.restore import restored
from torchrecorder.capture.tape import OwnTask, Tape
from torchrecorder.capture.tensors.argument_objects import has_function_objects
from torchrecorder.capture.tensors.entries import BackwardGradients
from torchrecorder.capture.tensors.storage import Storage

# Buffers ----------------------------------------------------------------------------------


class Held(nn.Module):
    """Holds buffers."""

    def __init__(self, *buffers: Any) -> None:
        super().__init__()
        for number, buffer in enumerate(buffers):
            self.register_buffer(f"b{number}", buffer)


def plain(tensor: torch.Tensor) -> list[Any]:
    """All numbers of a tensor."""
    return [part.tolist() for part in tensor.unbind()] if tensor.is_nested else tensor.tolist()


KINDS = {
    "one": lambda: [torch.ones(3)],
    "one of each type": lambda: [torch.ones(3), torch.tensor([4]), torch.ones(2).double()],
    "nested": lambda: [torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), torch.ones(2)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_buffers_that_are_alone_of_their_kind_are_put_back(kind: str) -> None:
    """Whichever of them is written; in the same tensor, without a trace in its version."""
    model = Held(*KINDS[kind]())
    before = [(name, one, plain(one), one._version) for name, one in model.named_buffers()]
    for changed, *_ in before:
        with restored(model), torch.no_grad():
            getattr(model, changed).mul_(3)
        for name, buffer, numbers, version in before:
            assert getattr(model, name) is buffer and plain(buffer) == numbers
            assert buffer._version == version


def test_a_buffer_without_a_version_is_put_back() -> None:
    """One that was made in inference mode."""
    with torch.inference_mode():
        model = Held(torch.ones(3), torch.zeros(2))
    with restored(model), torch.inference_mode():
        model.b0.mul_(3)
    assert plain(model.b0) == [1, 1, 1] and plain(model.b1) == [0, 0]


@pytest.mark.parametrize("size", [6, 100_000])
def test_a_buffer_without_numbers_has_its_shape_again(size: int) -> None:
    """And its version, on the device of tensors without memory."""
    model = Held(torch.empty(size, device="meta"), torch.eye(2).to_sparse().to("meta"))
    with restored(model):
        model.b0.resize_(2, 3).add_(1)
    assert model.b0.shape == (size,) and model.b0._version == 0
    assert model.b1.shape == (2, 2)


def test_a_buffer_that_was_taken_away_is_put_back() -> None:
    """And one that another was put in the place of."""
    model = Held(torch.ones(3), torch.zeros(2))
    first, second = model.b0, model.b1
    with restored(model):
        del model.b0
        model.b1 = torch.ones(2)
    assert model.b0 is first and model.b1 is second and plain(first) == [1, 1, 1]


def test_a_place_without_a_module_is_no_module() -> None:
    """Where one is left out, as for a shortcut without convolution, memory is recorded too."""
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].register_module("shortcut", None)
    memory = torchrecorder.record(model, torch.ones(1, 2), memory=True).memory
    assert sum(one.bytes for one in memory.held(at=0) if one.kind == "parameters") == 24


# Names and writes -------------------------------------------------------------------------


class Taking:
    """Takes part in what PyTorch does."""

    @classmethod
    def __torch_function__(cls, *given: Any, **named: Any) -> Any:
        """Nothing."""


class Own(torch.Tensor):
    """A tensor of a class of its own."""


@pytest.mark.parametrize(
    ("args", "kwargs", "found"),
    [
        ((), {}, False), ((1, "a"), {}, False), ((torch.ones(1), 2), {}, False),
        ((Taking(),), {}, True), ((torch.ones(1), Taking()), {}, True),
        ((), {"other": Taking()}, True), (([1, Taking()], 2), {}, True), (((Taking(),),), {}, True),
        ((torch.ones(1).as_subclass(Own),), {}, False), ((Taking,), {}, False),
    ],
)
def test_objects_that_take_part(args: Any, kwargs: Any, found: bool) -> None:
    """Among the arguments or in a list of them; no tensors, which always do."""
    assert has_function_objects(args, kwargs) == found


def test_gradients_of_leaves() -> None:
    """Of the last pass that was behind a leaf; of the last one at all where none was known."""
    gradients = BackwardGradients()
    assert gradients.named(("v1.grad",)) is None
    gradients.last = "o5"  # type: ignore[assignment]
    gradients.left["v1"] = "o3"  # type: ignore[index, assignment]
    assert gradients.named(("v1.grad",)) == "o3" and gradients.named(("v2.grad",)) == "o5"
    assert gradients.named(()) is gradients.named(("v1",)) is gradients.named(("grad",)) is None


def test_what_a_collective_wrote() -> None:
    """Up to the version at which it was done, the latest of several; who waits is told once."""
    storage = Storage(None, 0)
    assert storage.collective_done(2) == [] and storage.received == 2
    storage.expect_collective()
    assert storage.received > 1 << 40
    storage.waiting.append("one")  # type: ignore[union-attr, arg-type]
    storage.expect_collective()
    assert storage.collective_done(5) == ["one"] and storage.received == 5
    assert storage.collective_done(3) == [] and storage.received == 5
    assert storage.collective_done(7) == [] and storage.received == 7


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40),
       st.integers(0, 40), st.integers(0, 9), st.integers(1, 5))
def test_writes_since(writes: list[tuple[int, int]], seen: int, low: int, size: int) -> None:
    """The last writer of each byte, in order, and whether each byte has one."""
    storage = Storage(None, 0)
    for number, (begin, length) in enumerate(writes):
        storage.write(f"o{number}", begin, begin + length)  # type: ignore[arg-type]
    found, are_all = storage.since(seen, low, low + size)
    last: dict[int, int] = {}
    for number, (begin, length) in [*enumerate(writes)][seen:]:
        written = {*range(begin, begin + length)} & {*range(low, low + size)}
        last.update(dict.fromkeys(written, number))
    assert [int(write.op[1:]) for write in found] == sorted({*last.values()})
    assert are_all == (len(last) == size)


# Nodes and tasks --------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 14), max_size=3), max_size=12), st.data())
def test_nodes_come_after_those_that_they_lead_to(edges: list[list[int]], data: Any) -> None:
    """Each once, whatever the order in which they were found; others are left out."""
    names = [SimpleNamespace(number=number) for number in range(15)]
    found = {
        number: (number, names[number], tuple(
            (names[parent], 0) if parent < number else (None, 0) for parent in parents))
        for number, parents in enumerate(edges)
    }
    order = data.draw(st.permutations(list(found)))
    ordered = _parents_first({number: found[number] for number in order}, lambda node: node.number)
    places = {number: place for place, (number, *_) in enumerate(ordered)}
    assert len(ordered) == len(places) == len(found)
    for number, _, parents in ordered:
        assert all(places[parent.number] < places[number] for parent, _ in parents if parent)


def test_a_task_is_left_while_another_runs() -> None:
    """Not outside of tasks; once the recorder is cut, everything is."""
    whole = OwnTask()
    with whole:
        assert not whole.is_left() and not whole.has_ended() and not whole.others_ran
    whole.end()
    assert whole.has_ended() and whole.is_left()

    async def steps() -> list[bool]:
        seen = []

        async def other() -> None:
            seen.append(own.is_left())

        begun = asyncio.ensure_future(other())
        with OwnTask() as own:
            inner = asyncio.ensure_future(other())
            seen.append(own.is_left())
            await begun
            await inner
            seen.append(own.others_ran)
        assert own.is_left()
        return seen

    assert asyncio.run(steps()) == [False, True, False, True]


def test_a_signal_handler_that_runs_operations():
    """It pauses and resumes the user's clock while an instrument resumes it."""
    handlers, now = [], iter(range(9))

    def clock():
        if handlers:
            handlers.pop()()
        return float(next(now))

    def handle():
        tape.pause()
        tape.resume()

    tape = Tape(clock)
    tape.pause()
    handlers.append(handle)
    tape.resume()
    assert tape.paused is None and handlers == []
