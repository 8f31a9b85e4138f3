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

from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes

from torchrecorder.capture.catalog import named_modules
from torchrecorder.capture.tensors import UNVERSIONED, version_of


@contextlib.contextmanager
def restored(model: Any) -> Iterator[None]:
    """After the block, buffers, gradients and random state are those from before it."""
    with contextlib.ExitStack() as stack:
        with unheard():
            _keep_random_state(stack)
            if isinstance(model, Module):
                modules = [module for _, module in named_modules(model)]
                stack.callback(_Buffers(modules).put_back)
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


class _Buffers:
    """The buffers of some modules as they are now, to be put back.

    Those of one data type on one device are copied and compared in one piece: most models
    have hundreds, of a few numbers each.
    """

    def __init__(self, modules: list[Module]) -> None:
        self.places: list[tuple[dict[str, Tensor], str, Tensor, int]] = []
        kinds: dict[Any, list[Tensor]] = {}
        for module in modules:
            held: Any = module._buffers  # of a scripted module, no dict
            for name, buffer in held.items():
                if type(buffer) is not Tensor and (buffer is None or is_lazy(buffer)):
                    continue
                self.places.append((held, name, buffer, version_of(buffer)))
                if not buffer.is_meta:
                    kinds.setdefault(_kind(buffer), []).append(buffer)
        with torch.no_grad():
            self.copies = [
                (each, [one.detach() for one in each], _flat(each)) for each in kinds.values()
            ]

    def put_back(self) -> None:
        """Write what differs, and only that."""
        with torch.no_grad():
            for buffers, wholes, before in self.copies:
                for buffer, whole in zip(buffers, wholes):
                    if buffer.layout is torch.strided and not buffer.is_set_to(whole):
                        buffer.data = whole  # its memory, or its shape in it, is another one
                if not _same_bits(buffers, before):
                    _copy_back(buffers, before)
        for held, name, buffer, version in self.places:
            if name not in held or held[name] is not buffer:
                held[name] = buffer
            if version != UNVERSIONED and buffer._version != version:
                torch._C._autograd._unsafe_set_version_counter((buffer,), (version,))


def _kind(buffer: Tensor) -> Any:
    """What buffers must have in common to be copied in one piece; odd ones are copied alone."""
    if type(buffer) is not Tensor or buffer.layout is not torch.strided:
        return id(buffer)
    if buffer.is_nested or buffer.is_quantized:
        return id(buffer)
    return buffer.dtype, buffer.device


def _flat(buffers: list[Tensor]) -> Tensor:
    """The numbers of all *buffers*, copied one after the other."""
    if len(buffers) == 1:
        return buffers[0].detach().clone()
    return torch._C._nn.flatten_dense_tensors(buffers)  # type: ignore[no-any-return]


def _same_bits(buffers: list[Tensor], before: Tensor) -> bool:
    try:
        return torch.equal(buffers[0] if len(buffers) == 1 else _flat(buffers), before)
    except (NotImplementedError, RuntimeError):  # sparse and other layouts cannot compare
        return False


def _copy_back(buffers: list[Tensor], before: Tensor) -> None:
    parts = [before]
    if len(buffers) > 1:
        parts = list(torch._C._nn.unflatten_dense_tensors(before, buffers))
    for buffer, part in zip(buffers, parts):
        if len(buffers) == 1 or not _same_bits([buffer], part):
            with torch.inference_mode() if buffer.is_inference() else contextlib.nullcontext():
                buffer.copy_(part)


def _put_back_gradients(gradients: Sequence[tuple[Tensor, Tensor | None]]) -> None:
    for parameter, gradient in gradients:
        if parameter.grad is not gradient:
            parameter.grad = gradient
