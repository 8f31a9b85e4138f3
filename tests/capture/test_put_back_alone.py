"""Each part of the recorder puts back what it changed, also among others of its kind."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import torchrecorder
from torchrecorder.capture.internals.access import function_modes, leave_function_mode
from torchrecorder.capture.state.force_eager import RunEagerly
from torchrecorder.capture.state.recursion_limit import Headroom
from torchrecorder.capture.tensors.argument_objects import Places
from torchrecorder.events import Role


class Mode(TorchFunctionMode):
    """Does nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_is_removed_from_below_others():
    """They stay, in their order; a mode that is not there removes none."""
    one, two, three = Mode(), Mode(), Mode()
    with one, two, three:
        leave_function_mode(one)
        left = [mode for mode in function_modes() if isinstance(mode, Mode)]
        leave_function_mode(one)
        again = [mode for mode in function_modes() if isinstance(mode, Mode)]
        one.__enter__()  # for the with statement, which leaves three
    assert left == again == [two, three]


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_recursion_limits_of_several_recorders(order):
    """The highest of those that are active counts, whichever ends first."""
    before = sys.getrecursionlimit()
    both, limits = (Headroom(), Headroom()), [before]
    try:
        for headroom in both:
            headroom.__enter__()
            limits.append(sys.getrecursionlimit())
        both[order[0]].__exit__()
        left = sys.getrecursionlimit()
        both[order[1]].__exit__()
        after = sys.getrecursionlimit()
    finally:
        sys.setrecursionlimit(before)
    assert limits == sorted({*limits}) and after == before
    assert left == limits[1 + order[1]]


ABOUT_HOOKS = "Using `torch.compile(module)` when there are global hooks on modules"


@pytest.mark.parametrize("own_hook", [True, False])
def test_the_warning_of_global_hooks(own_hook):
    """Those of the recorder are no reason to warn; those of the user are."""
    import torch._dynamo  # noqa: F401

    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    if not own_hook:
        handle.remove()
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with RunEagerly():
                warnings.warn(ABOUT_HOOKS, stacklevel=1)
            warnings.warn(ABOUT_HOOKS, stacklevel=1)
    finally:
        handle.remove()
    assert len(heard) == 1 + own_hook


def test_without_the_compiler(monkeypatch):
    """It waits for its import, and waits no longer at its end."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    with RunEagerly() as waiting:
        assert sys.meta_path[0] is waiting
    assert waiting not in sys.meta_path


def test_gradients_from_before_the_run():
    """They are constants; those of a backward pass in the run are made by it."""
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    recording = torchrecorder.record(lambda: weight.grad * 2)
    (op,) = [op for op in recording.ops.values() if op.name == "mul"]
    (read,) = op.inputs
    assert recording.values[read.value].role is Role.CONSTANT

    def step():
        weight.grad = None
        weight.sum().backward()
        return weight.grad * 2

    recording = torchrecorder.record(step)
    (last,) = [op for op in recording.ops.values() if op.name == "mul"]
    value = recording.values[last.inputs[0].value]
    assert value.role is Role.INNER
    assert recording.ops[value.producer].name == "backward"


def nested(depth, item):
    """*item* in so many lists."""
    return nested(depth - 1, [item]) if depth else item


def test_how_deep_places_are_searched():
    """Arguments to the sixth level, variables to the third; a tensor that is gone is nowhere."""
    near, far, held, lost = (torch.ones(1) for _ in range(4))
    places = Places(
        [("near", nested(6, near)), ("far", nested(7, far))],
        [("held", nested(3, held)), ("lost", nested(4, lost))],
    )
    assert places.of(near) == (Role.INPUT, "near" + 6 * ".0")
    assert places.of(held) == (Role.CONSTANT, "held.0.0.0")
    assert places.of(far) is None and places.of(lost) is None and places.of(torch.ones(1)) is None


def test_memory_that_is_written_in_place_is_allocated_once():
    """Whichever part of it is written, and also where it was there before."""
    x = torch.zeros(100)

    def run():
        y = torch.zeros(1000)
        y.add_(1).mul_(2)
        y[:10].add_(x[:10].add_(1))
        return y

    with torchrecorder.Recorder(memory=True) as recorder:
        y = run()
    sizes = sorted(item.bytes for item in recorder.recording.allocations)
    assert sizes == [400, 4000] and y[0] == 3.0
