"""More small parts by themselves: generators, files, waits, time and what is released."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.zoo.case import net
from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.state.restore import random_state_kept
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import memory_owner
from torchrecorder.capture.tensors.storage import Storages

# Random numbers ---------------------------------------------------------------------------


def test_generators_are_put_back() -> None:
    """Of PyTorch, Python and NumPy, whatever was drawn."""
    import random

    numpy = pytest.importorskip("numpy")

    def draw() -> list[float]:
        return [float(torch.rand(1)), random.random(), float(numpy.random.rand())]

    with random_state_kept():
        first = [draw(), draw()]
    assert [draw(), draw()] == first


@pytest.mark.parametrize("used", [False, True])
def test_a_gpu_is_asked_only_where_it_is_used(used: bool, monkeypatch: Any) -> None:
    """Its generators are put back; asking for them would begin to use it."""
    told: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: used)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: told.append("get") or "state")
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", told.append)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: used)
    monkeypatch.setattr(torch, "mps", SimpleNamespace(
        get_rng_state=lambda: "of mps", set_rng_state=told.append))
    with random_state_kept():
        before = list(told)
    assert before == ["get"] * used
    assert told[used:] == ["of mps", "state"] * used


# Where things are -------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["", str(Path("/nowhere/at/all"))])
def test_files_are_named_from_where_they_are_imported(where: str, monkeypatch: Any) -> None:
    """From the nearest folder; by their name alone outside of all."""
    monkeypatch.setattr(sys, "path", [where, "/nowhere", *sys.path])
    sources = Sources(AppliedFunctions(Tape()))
    assert sources.file("/nowhere/at/all/inner/one.py") == (
        "inner/one.py" if where else "at/all/inner/one.py")
    assert sources.file("/elsewhere/inner/one.py") == "one.py"
    assert sources.file(torch.__file__) is None


def helper(x: Tensor) -> Tensor:
    """A function between a module and its operation."""
    return x.exp()


def test_a_function_is_in_the_innermost_call_or_region() -> None:
    """Of modules inside each other, and of a region inside a module."""
    inner = net(lambda self, x: helper(x) + checkpoint(helper, x, use_reentrant=False))
    x = torch.ones(2, requires_grad=True)
    recording = torchrecorder.record(nn.Sequential(nn.Sequential(inner)), x)
    scopes = [recording.scopes[call.scope] for call in recording.function_calls.values()
              if call.name == "helper" and call.scope is not None]
    assert [scope.kind.value for scope in scopes] == ["module", "checkpoint"]
    assert scopes[0].path == "0.0"


# Time and what is released ----------------------------------------------------------------


def test_time_before_the_first_operation_is_the_modules() -> None:
    """Nothing of it is the recorder's."""

    def forward(self: Any, x: Tensor) -> Tensor:
        time.sleep(0.03)
        return x

    recording = torchrecorder.record(net(forward), torch.ones(1))
    assert (recording.scopes[recording.roots[0]].seconds or 0.0) >= 0.03


class Held:
    """An object with a tensor."""

    def __init__(self) -> None:
        self.x = torch.ones(2)


def test_objects_among_arguments_are_released_after_the_call() -> None:
    """Although the block goes on; what was not used of them as well."""
    model = net(lambda self, held: torch.ones(1) + 1)
    with torchrecorder.Recorder(model):
        held = Held()
        gone = weakref.ref(held)
        model(held)
        del held
        assert gone() is None


def test_a_recorder_inside_another_leaves_its_profile_function() -> None:
    """Both share one, which is there until the outer one ends."""
    before = threading.getprofile()
    with torchrecorder.Recorder():
        outer = threading.getprofile()
        with torchrecorder.Recorder():
            pass
        assert threading.getprofile() is outer is not before
    assert threading.getprofile() is before


# Memory -----------------------------------------------------------------------------------


def test_what_a_collective_writes_is_looked_at_when_it_arrived() -> None:
    """Others at once; what died meanwhile never."""
    seen: list[Tensor] = []
    storages = Storages()
    one, other, dead = torch.ones(1), torch.ones(2), torch.ones(3)
    storages.when_arrived(one, seen.append)
    assert seen.pop() is one
    for each in (one, dead):
        storages.expect_collective(each)
        storages.when_arrived(each, seen.append)
    storages.when_arrived(other, seen.append)
    assert len(seen) == 1 and seen.pop() is other
    storages.collective_done(one)
    assert len(seen) == 1 and seen.pop() is one
    storages.when_arrived(one, seen.append)
    assert len(seen) == 1
    held = storages.of(dead)
    del each, dead
    assert [ref() for ref, _ in held.waiting or []] == [None]


class Wrapper(Tensor):
    """Holds its parts in attributes."""

    parts: tuple[str, ...] = ()

    def __tensor_flatten__(self) -> Any:
        return self.parts, None


@pytest.mark.parametrize("parts", [("inside",), ("missing", "inside"), ("number", "inside")])
def test_the_tensor_that_owns_the_memory_of_a_wrapper(parts: tuple[str, ...]) -> None:
    """The first part that is a tensor, also of wrappers in each other."""
    memory = torch.ones(2)
    wrapper = torch.zeros(2).as_subclass(Wrapper)
    outer = torch.zeros(2).as_subclass(Wrapper)
    assert memory_owner(wrapper) is wrapper and memory_owner(memory) is memory
    vars(wrapper).update(parts=parts, inside=memory, number=3)
    vars(outer).update(parts=parts, inside=wrapper, number=3)
    assert memory_owner(outer) is memory_owner(wrapper) is memory


# Names ------------------------------------------------------------------------------------


def test_a_weight_with_very_many_names_has_the_first_ones() -> None:
    """Of a module that is in the model very often, too."""
    weight, again = nn.Parameter(torch.ones(2, 2)), nn.ReLU()
    layers = [nn.Linear(2, 2, bias=False) for _ in range(20)]
    for layer in layers:
        layer.weight = weight
    model = nn.Sequential(*(part for layer in layers for part in (layer, again)))
    recording = torchrecorder.record(model, torch.ones(1, 2))
    names = next(value.names for value in recording.values.values() if value.role == "parameter")
    assert names == tuple(f"{2 * number}.weight" for number in range(16))
    relu = next(module for module in recording.modules.values() if module.cls == "ReLU")
    assert relu.names == tuple(str(2 * number + 1) for number in range(16))
