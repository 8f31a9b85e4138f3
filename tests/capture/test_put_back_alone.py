"""Each part of the recorder puts back what it changed, also among others of its kind."""

from __future__ import annotations

import sys
import warnings

import pytest
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchrecorder.capture.internals.access import (
    dispatch_modes, function_modes, leave_dispatch_mode, leave_function_mode,
)
from torchrecorder.capture.state.force_eager import ForceEager
from torchrecorder.capture.state.shared_patch import RaisedRecursionLimit


class Mode(TorchFunctionMode):
    """Does nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_is_removed_from_below_others():
    """They stay, in their order; a mode that is not there removes none."""
    one, two, three = Mode(), Mode(), Mode()
    one.__enter__()
    with two, three:
        leave_function_mode(one)
        left = [mode for mode in function_modes() if isinstance(mode, Mode)]
        leave_function_mode(one)
        again = [mode for mode in function_modes() if isinstance(mode, Mode)]
    assert left == again == [two, three]


class Below(TorchDispatchMode):
    """Does nothing either."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_dispatcher_is_removed_from_below_others():
    """They stay, in their order; a mode that is not there removes none."""
    one, two, three = Below(), Below(), Below()
    one.__enter__()
    with two, three:
        leave_dispatch_mode(one)
        left = dispatch_modes()
        leave_dispatch_mode(one)
        again = dispatch_modes()
    assert left == again == [two, three]


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_recursion_limits_of_several_recorders(order):
    """They have one limit, until the last of them ends."""
    before = sys.getrecursionlimit()
    both, limits = (RaisedRecursionLimit(), RaisedRecursionLimit()), [before]
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
    assert before < limits[1] == limits[2] == left and after == before


ABOUT_HOOKS = "Using `torch.compile(module)` when there are global hooks on modules"


@pytest.mark.parametrize("own_hook", [True, False])
def test_the_warning_of_global_hooks(own_hook):
    """Those of the recorder are no reason to warn; those of the user are."""
    import torch._dynamo  # noqa: F401

    eager = ForceEager()  # which lives on, as that of a recorder
    handle = nn.modules.module.register_module_forward_hook(lambda *args: None)
    if not own_hook:
        handle.remove()
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with eager:
                warnings.warn(ABOUT_HOOKS, stacklevel=1)
            warnings.warn(ABOUT_HOOKS, stacklevel=1)
    finally:
        handle.remove()
    assert len(heard) == 1 + own_hook


def test_without_the_compiler(monkeypatch):
    """It waits for its import, and waits no longer at its end."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    with ForceEager() as waiting:
        assert sys.meta_path[0] is waiting
        assert waiting.find_spec("json", None) is None and sys.meta_path[0] is waiting
    assert waiting not in sys.meta_path


def test_without_a_compiler_there_is_nothing_to_wait_for(monkeypatch):
    """Its import fails as it would without a recorder, and no fact is lost by that."""
    lost = []
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with ForceEager(lambda *fact: lost.append(fact)) as waiting:
        assert waiting.find_spec("torch._dynamo", None) is None
    assert lost == []
