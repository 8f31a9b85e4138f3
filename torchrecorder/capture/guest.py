"""Put things back: buffers, gradients and random state, as they were before a look.

Buffers are compared bit for bit and written back only where they differ, without moving
their version counter: an earlier forward of the user's may have saved them for backward.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.catalog import named_modules
from torch.utils._python_dispatch import _disable_current_modes
from torch.nn.parameter import is_lazy


@contextlib.contextmanager
def restored(model: Any) -> Iterator[None]:
    """After the block, buffers, gradients and random state are those from before it."""
    with contextlib.ExitStack() as stack:
        with unheard():
            _keep_random_state(stack)
            if isinstance(model, Module):
                modules = [module for _, module in named_modules(model)]
                holding = [each for each in modules if each._buffers]
                stack.callback(_put_back_buffers, [(each, _snapshot(each)) for each in holding])
                _set_gradients_aside(stack, modules)
        try:
            yield
        finally:
            with unheard():
                stack.close()


def unheard() -> contextlib.AbstractContextManager[Any]:
    """What we ask inside the block is no business of modes that somebody else entered."""
    if torch._C._len_torch_dispatch_stack():
        return _without_modes()
    return torch._C.DisableTorchFunction()


@contextlib.contextmanager
def _without_modes() -> Iterator[None]:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _set_gradients_aside(stack: contextlib.ExitStack, modules: list[Module]) -> None:
    """Start from no gradients: a backward pass inside forward would add to the user's own."""
    parameters = [each for module in modules for each in module._parameters.values()]
    found = [(each, each.grad) for each in parameters if each is not None and each.is_leaf]
    stack.callback(_put_back_gradients, found)
    for parameter, gradient in found:
        if gradient is not None:
            parameter.grad = None


def _keep_random_state(stack: contextlib.ExitStack) -> None:
    stack.callback(torch.set_rng_state, torch.get_rng_state())
    stack.callback(random.setstate, random.getstate())
    numpy_random: Any = sys.modules.get("numpy.random")  # NumPy loads it when it is first used
    if numpy_random is not None:
        stack.callback(numpy_random.set_state, numpy_random.get_state())
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
    if torch.backends.mps.is_available():
        stack.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())


_Buffers = dict[str, tuple[Tensor, "Tensor | None", int]]
"""Each buffer, a copy of its bits, and its version."""


def _snapshot(module: Module) -> _Buffers:
    found: _Buffers = {}
    for name, buffer in module._buffers.items():
        if not isinstance(buffer, Tensor) or is_lazy(buffer):
            continue
        copied = None if buffer.is_meta else buffer.detach().clone()
        found[name] = (buffer, copied, 0 if buffer.is_inference() else buffer._version)
    return found


def _put_back_buffers(buffers: list[tuple[Module, _Buffers]]) -> None:
    with torch.no_grad():
        for module, before in buffers:
            held = module._buffers  # of a scripted module, no dict
            for name, (buffer, copied, version) in before.items():
                if name not in held or held[name] is not buffer:
                    held[name] = buffer
                if copied is not None:
                    _put_back(buffer, copied, version)


def _put_back(buffer: Tensor, copied: Tensor, version: int) -> None:
    inference = buffer.is_inference()
    if not _same_bits(buffer, copied):
        with torch.inference_mode() if inference else contextlib.nullcontext():
            buffer.copy_(copied)
    if not inference and buffer._version != version:
        torch._C._autograd._unsafe_set_version_counter((buffer,), (version,))


def _put_back_gradients(gradients: Sequence[tuple[Tensor, Tensor | None]]) -> None:
    for parameter, gradient in gradients:
        if parameter.grad is not gradient:
            parameter.grad = gradient


def _same_bits(buffer: Tensor, copied: Tensor) -> bool:
    if buffer.shape != copied.shape:
        return False
    try:
        return torch.equal(buffer, copied)
    except (NotImplementedError, RuntimeError):  # sparse and other layouts cannot compare
        return False
