"""A device in Python, whose grad nodes run in a thread of autograd's engine, as those of a GPU do.

Its tensors hold tensors of the CPU. Run with the name of a device, this program records runs on it
and prints facts about them. It is a program of its own, because a device cannot be taken back, and
the engine starts its threads in the first backward pass of a process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

from torchrecorder import Recorder, Recording

NAME = "threaded"

AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
"""Whether this PyTorch has devices that are written in Python."""

SHARING = "alias", "CheckpointFunctionBackward"
"""Ops for a tensor that shares memory on the CPU; those of the device have memory of their own."""

RUNS: dict[str, Callable[[Any], Recording]] = {}


class OnDevice(Tensor):
    """A tensor of the device, which computes with *held*, a tensor of the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device=f"{NAME}:0",
        )
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, named = tree_map(_held, (args, kwargs or {}))
        result = tree_map(_on_device, func(*given, **named))
        return args[0] if func._schema.name.endswith("_") else result


def _held(item: Any) -> Any:
    if isinstance(item, OnDevice):
        return item.held
    return torch.device("cpu") if isinstance(item, torch.device) else item


def _on_device(item: Any) -> Any:
    return OnDevice(item) if isinstance(item, Tensor) else item


def _install() -> None:
    """Register the device; before the first backward pass."""

    class Module(backend_registration._DummyBackendModule):
        """What ``torch.threaded`` is."""

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.float16]

    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Module())


class Device:
    """Makes models and inputs on the device or, to compare with, on the CPU."""

    def __init__(self, name: str) -> None:
        self.name = name
        torch.manual_seed(0)

    def leaf(self, *shape: int) -> Tensor:
        """A leaf with a gradient."""
        return self._moved(torch.rand(*shape)).requires_grad_()

    def layers(self) -> nn.Sequential:
        """Two layers, and a function between them."""
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        for layer in (model[0], model[2]):
            for name, weight in list(layer.named_parameters()):
                setattr(layer, name, nn.Parameter(self._moved(weight.detach())))
        return model

    def _moved(self, tensor: Tensor) -> Tensor:
        return OnDevice(tensor) if self.name == NAME else tensor.to(self.name)


def run(record: Callable[[Any], Recording]) -> Callable[[Any], Recording]:
    RUNS[record.__name__] = record
    return record


class Blocks(nn.Module):
    """Checkpoints one after the other, which a backward pass recomputes from the last on."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(device.layers() for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        """The blocks, each with the one before."""
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
        return x


@run
def recomputed_in_turn(device: Device) -> Recording:
    """Some nodes are made again with the very number that they had in the other thread.

    As the numbers of both threads must be close to each other, this is the first run.
    """
    model, x = Blocks(device), device.leaf(3, 4)
    with Recorder(model) as recorder:
        for _ in range(12):
            model(x).sum().backward()
            x.exp()  # takes a number in this thread alone
    return recorder.recording


@run
def recomputed(device: Device) -> Recording:
    """A checkpoint."""
    model, x = device.layers(), device.leaf(3, 4)
    with Recorder(model) as recorder:
        checkpoint(model, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
    return recorder.recording


@run
def recomputed_by_a_function(device: Device) -> Recording:
    """A checkpoint, with a backward pass of its own."""
    model, x = device.layers(), device.leaf(3, 4)
    with Recorder(model) as recorder:
        y = checkpoint(model, x, use_reentrant=True, preserve_rng_state=False)
        y.sum().backward()
    return recorder.recording


@run
def hooked(device: Device) -> Recording:
    """Hooks of all kinds; one of them on the root, before any node runs."""
    model, x = device.layers(), device.leaf(3, 4)

    def norms(module: nn.Module, gave: Any, given: Any) -> None:
        """Of the gradients."""
        given[0].norm()

    model[0].register_full_backward_hook(norms)
    model[2].weight.register_hook(lambda gradient: gradient.clamp(-1, 1) * 2)
    with Recorder(model) as recorder:
        y = model(x)
        y.register_hook(lambda gradient: gradient * 3)
        loss = y.logsumexp((0, 1))
        loss.register_hook(lambda gradient: gradient + 1)
        loss.backward()
    return recorder.recording


@run
def optimized_in_backward(device: Device) -> Recording:
    """Each weight is updated as soon as it has its gradient."""
    model, x = device.layers(), device.leaf(3, 4)
    steps = {}
    for weight in model.parameters():
        steps[weight] = torch.optim.SGD([weight], lr=0.1, foreach=False)
        weight.register_post_accumulate_grad_hook(lambda weight: steps[weight].step())
    with Recorder(model) as recorder:
        model(x).sum().backward()
    return recorder.recording


@run
def differentiated_twice(device: Device) -> Recording:
    """A gradient of a gradient."""
    model, x = device.layers(), device.leaf(3, 4)
    with Recorder(model) as recorder:
        (gradient,) = torch.autograd.grad(model(x).sin().sum(), x, create_graph=True)
        (gradient * gradient).sum().backward()
    return recorder.recording


class Doubled(torch.autograd.Function):
    """Calls torch functions in both directions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin() * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos() * 2


@run
def with_a_custom_function(device: Device) -> Recording:
    """What its backward calls is no op."""
    x = device.leaf(3, 4)
    with Recorder() as recorder:
        Doubled.apply(x).sum().backward()
    return recorder.recording


@run
def in_a_task(device: Device) -> Recording:
    """A thread of the engine has no context of the task."""
    model, x = device.layers(), device.leaf(3, 4)

    async def train() -> Recording:
        with Recorder(model) as recorder:
            y = model(x)
            y.register_hook(lambda gradient: gradient * 3)
            y.sum().backward()
        return recorder.recording

    return asyncio.run(train())


@run
def trained(device: Device) -> Recording:
    """Steps with checkpoints: nodes made in both threads, with the same numbers."""
    model, x = device.layers(), device.leaf(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    with Recorder(model) as recorder:
        for _ in range(3):
            y = checkpoint(model, x, use_reentrant=False, preserve_rng_state=False)
            optimizer.zero_grad()
            (y * model(x)).sum().backward()
            optimizer.step()
    return recorder.recording


def recomputed_together(device: Device) -> list[tuple[bool, int]]:
    """How many modules ran, and ran again, in two threads that train at the same time."""
    models, inputs = [Blocks(device), Blocks(device)], [device.leaf(3, 4), device.leaf(3, 4)]

    def train(which: int) -> None:
        for _ in range(20):
            models[which](inputs[which]).sum().backward()

    with Recorder(threads=True) as recorder:
        threads = [threading.Thread(target=train, args=(which,)) for which in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    scopes = recorder.recording.scopes.values()
    return sorted(Counter(scope.recompute for scope in scopes if scope.module).items())


def facts(recording: Recording) -> dict[str, Any]:
    """What must not depend on where nodes run.

    Without the ops for memory that tensors share, as those of the device share none.
    """
    names = {None: None, **{op.id: op.name for op in recording.ops.values()}}
    nodes = {None: None, **{node.id: node.name for node in recording.grad_nodes.values()}}
    origins = {id: names[value.producer] for id, value in recording.values.items()}
    origins = {id: None if name in SHARING else name for id, name in origins.items()}
    return {
        "ops": [
            (op.name, op.recompute, op.scope, [origins[slot.value] for slot in op.inputs])
            for op in recording.ops.values() if op.name not in SHARING
        ],
        "scopes": [(scope.path, scope.kind, scope.recompute, scope.parent)
                   for scope in recording.scopes.values()],
        "nodes": sorted((node.name, str(names[node.owner]), str(nodes[node.made_by]))
                        for node in recording.grad_nodes.values()),
        "ran": len(recording.grad_runs),
        "notes": list(recording.run.notes),
        "lost": recording.run.lost,
    }


def main(name: str) -> None:
    """Print the facts of all runs, and whether nodes ran in another thread."""
    if name == NAME:
        _install()
    device, threads = Device(name), set[int]()
    y = device.leaf(2).sin()
    y.register_hook(lambda gradient: threads.add(threading.get_ident()))
    y.sum().backward()
    found = {key: facts(record(Device(name))) for key, record in RUNS.items()}
    found["together"] = recomputed_together(Device(name))  # type: ignore[assignment]
    print(json.dumps({"elsewhere": threads != {threading.get_ident()}, **found}), flush=True)
    os._exit(0)  # at its end, Python may abort if the device still has a thread


if __name__ == "__main__":
    main(sys.argv[1])
