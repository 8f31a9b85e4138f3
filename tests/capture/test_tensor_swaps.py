"""``torch.utils.swap_tensors`` works on recorded tensors, and what reads them later is right."""

from __future__ import annotations

import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils import swap_tensors
from torch.utils.weak import WeakIdRef

import torchrecorder as tr
from tests.capture.hooked import called
from torchrecorder.capture.hooks.parameters import _swaps
from torchrecorder.testing.inert import assert_inert


@pytest.fixture
def swaps():
    """Modules swap their parameters instead of setting ``data``."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


def test_both_tensors_have_a_new_value():
    """Each was made by the operation, which reads both."""
    with tr.Recorder() as recorder:
        a, b = torch.ones(2), torch.zeros(3)
        total = b.sum()
        swap_tensors(a, b)
        b * a.sum()
    assert a.shape == (3,) and b.shape == (2,) and total == 0
    recording = recorder.recording
    (swap,) = called(recording, "swap_tensors")
    assert [slot.name for slot in swap.inputs] == ["t1", "t2"]
    assert [recording.values[value].shape for value in swap.outputs] == [(3,), (2,)]
    later = called(recording, "sum")[1], called(recording, "mul")[0]
    assert [op.inputs[0].value for op in later] == [*swap.outputs]


@pytest.mark.parametrize("number", [1, 2])
def test_a_module_that_is_cast(swaps, number):
    """Its weights keep their names; also under nested recorders, each of which records the swap."""
    model = nn.Linear(2, 2)
    recorders = [tr.Recorder(model) for _ in range(number)]
    for recorder in recorders:
        recorder.__enter__()
    model(torch.ones(1, 2))
    model.double()
    model(torch.ones(1, 2).double()).sum().backward()
    for recorder in reversed(recorders):
        recorder.__exit__(None, None, None)
    assert model.weight.grad.dtype is torch.float64
    for recorder in recorders:
        recording = recorder.recording
        assert not recording.run.lost
        assert len(called(recording, "swap_tensors")) == 2
        read = called(recording, "linear")[1].inputs[1]
        assert recording.values[read.value].dtype == "float64"
        assert recording.values[read.value].names == ("weight",)
        assert recording.values[read.value].producer == called(recording, "swap_tensors")[0].id


class LoadsItself(nn.Module):
    """Loads its own state, twice as large, when it is called."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        state = {name: 2 * held for name, held in self.inner.state_dict().items()}
        self.inner.load_state_dict(state)
        return self.inner(x)


def test_a_state_that_is_loaded_in_the_run(swaps):
    """All is as without the recorder, which leaves nothing behind."""
    before = torch.utils.weakref, torch._C._swap_tensor_impl
    assert_inert(lambda: (LoadsItself(), (torch.ones(1, 2),), {}), lasting=True)
    assert (torch.utils.weakref, torch._C._swap_tensor_impl) == before and not _swaps.users


def test_weak_references_of_the_program_are_still_refused():
    """Those that the program can be told by: with a callback, or of a class."""
    for refer in (lambda item: weakref.ref(item, print), WeakIdRef):
        with tr.Recorder():
            a, b = torch.ones(2), torch.zeros(2)
            kept = refer(a)
            with pytest.raises(RuntimeError, match="Cannot swap t1"):
                swap_tensors(a, b)
            del kept
            swap_tensors(a, b)
    assert a.sum() == 0


def test_a_swap_in_another_thread_is_not_recorded():
    """It is no part of the run, and exchanges the tensors all the same."""
    a, b = torch.ones(2), torch.zeros(3)
    with tr.Recorder() as recorder:
        other = threading.Thread(target=swap_tensors, args=(a, b))
        other.start()
        other.join()
    assert a.shape == (3,) and not called(recorder.recording, "swap_tensors")


class Exchanges(torch.Tensor):
    """Its operations exchange two tensors."""

    pair = torch.ones(2), torch.zeros(3)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            swap_tensors(*cls.pair)
            return func(*args, **(kwargs or {}))


def test_a_swap_inside_of_an_operation_is_a_part_of_it():
    """The operation is recorded, and nothing more."""
    with tr.Recorder() as recorder:
        torch.ones(2).as_subclass(Exchanges).sin()
    assert Exchanges.pair[0].shape == (3,)
    assert called(recorder.recording, "sin")
    assert not called(recorder.recording, "swap_tensors")
