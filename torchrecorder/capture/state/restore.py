"""Restore buffers, gradients and random state after a run.

Buffers are compared bit by bit, and written back only if they differ. Their version counters are
restored too, because an earlier forward of the user may have saved them for backward.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy

from torchrecorder.capture.internals.access import (
    DisableTorchFunction, count_dispatch_modes, flatten_tensors, set_version_counter,
    without_dispatch_modes,
)
from torchrecorder.capture.module_tree import named_modules, tensor_dicts_of
from torchrecorder.capture.state.interrupts import interrupts_held
from torchrecorder.capture.tensors.describe import UNVERSIONED, shape_of, version_of
from torchrecorder.events import new_tuple


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """A context that restores the random states of PyTorch, Python and NumPy at its end."""
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        stack.callback(random.setstate, random.getstate())
        numpy_random: Any = sys.modules.get("numpy.random")  # NumPy loads it at its first use
        if numpy_random is not None:
            stack.callback(numpy_random.set_state, numpy_random.get_state())
        if torch.cuda.is_initialized():
            stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        if torch.backends.mps.is_available():
            stack.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
        yield


_SMALL_BUFFER = 1 << 14
"""The maximum number of elements of a buffer that is copied and compared together with others."""


@contextlib.contextmanager
def restored(model: Any) -> Iterator[None]:
    """A context that restores buffers, gradients and random state at its end."""
    with contextlib.ExitStack() as stack:
        with without_modes():
            stack.enter_context(random_state_kept())
            if isinstance(model, Module):
                modules = [module for _, module in named_modules(model)]
                stack.callback(_Buffers(modules).put_back)
                _keep_attributes(stack, modules)
        try:
            yield
        finally:
            with interrupts_held(), without_modes():
                stack.close()


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """A context without function and dispatch modes, for calls of the recorder."""
    if count_dispatch_modes():
        return _without_all_modes()
    return DisableTorchFunction()


@contextlib.contextmanager
def _without_all_modes() -> Iterator[None]:
    with DisableTorchFunction(), without_dispatch_modes():
        yield


def _keep_attributes(stack: contextlib.ExitStack, modules: list[Module]) -> None:
    """Restore the states of random generators in *modules*, and the gradients of their tensors, at
    the end. Gradients are None in the run: a backward pass in forward would add to the user's."""
    parts = [part.values() for module in modules for _, part in tensor_dicts_of(module)]
    held: list[Any] = list(itertools.chain.from_iterable(parts))
    classes = [*map(type, held)]
    wanted = {cls for cls in set(classes) if issubclass(cls, (Tensor, Generator))}
    found: list[tuple[Tensor, Tensor | None]] = []
    for item in itertools.compress(held, map(wanted.__contains__, classes)):
        if issubclass(type(item), Generator):
            stack.callback(Generator.set_state, item, Generator.get_state(item))
        elif item.is_leaf:
            found.append((item, item.grad))
    stack.callback(_put_back_gradients, found)
    for tensor, _ in found:
        tensor.grad = None


class _BufferPlace(NamedTuple):
    """A buffer with the dict that contains it, its name and metadata."""

    held: dict[str, Tensor]
    name: str
    buffer: Tensor
    version: int
    shape: tuple[int, ...]
    usual: bool


class _Buffers:
    """Copies of the buffers of some modules, to restore them.

    Small buffers of one dtype on one device are copied and compared together, because most models
    have hundreds of them.
    """

    def __init__(self, modules: list[Module]) -> None:
        self.places: list[_BufferPlace] = []
        kinds: dict[Any, list[_BufferPlace]] = {}
        for module in modules:
            held: Any = module._buffers  # not a dict for scripted modules
            for name, buffer in held.items():
                if type(buffer) is not Tensor and (buffer is None or is_lazy(buffer)):
                    continue
                usual = _is_usual(buffer)
                shape = buffer.shape if usual else shape_of(buffer)
                facts = held, name, buffer, version_of(buffer), shape, usual
                place = new_tuple(_BufferPlace, facts)
                self.places.append(place)
                kind = (buffer.dtype, buffer.device) if usual else id(buffer)
                kinds.setdefault(kind, []).append(place)
        with torch.no_grad():
            self.copies = [(places, _copied(places)) for places in kinds.values()]

    def put_back(self) -> None:
        """Write back the buffers that differ, and restore their versions."""
        with torch.no_grad():
            for places, before in self.copies:
                if any(_is_reshaped(place) for place in places) or not _same_bits(places, before):
                    for place, part in zip(places, _parts(places, before)):
                        _write(place, part)
        for held, name, buffer, version, *_ in self.places:
            if name not in held or held[name] is not buffer:
                held[name] = buffer
            if version != UNVERSIONED and buffer._version != version:
                set_version_counter(buffer, version)


def _is_usual(buffer: Tensor) -> bool:
    """Whether *buffer* is a small plain tensor, which is copied together with others."""
    if type(buffer) is not Tensor or buffer.layout is not torch.strided:
        return False
    return not buffer.is_nested and not buffer.is_quantized and buffer.numel() <= _SMALL_BUFFER


def _numbers(places: list[_BufferPlace]) -> Tensor:
    """The buffers, concatenated if they are plain."""
    buffers = [place.buffer for place in places]
    if not places[0].usual:
        return buffers[0]
    return flatten_tensors(buffers)  # type: ignore[no-any-return]


def _copied(places: list[_BufferPlace]) -> Tensor:
    """A copy of `_numbers`."""
    numbers = _numbers(places)
    return numbers if len(places) > 1 and places[0].usual else numbers.clone()


def _parts(places: list[_BufferPlace], numbers: Tensor) -> list[Tensor]:
    """The buffers in *numbers*, a result of `_copied`."""
    if not places[0].usual:
        return [numbers]
    parts = numbers.split([prod(place.shape) for place in places])
    return [part.view(place.shape) for part, place in zip(parts, places)]


def _is_reshaped(place: _BufferPlace) -> bool:
    return (place.buffer.shape if place.usual else shape_of(place.buffer)) != place.shape


def _write(place: _BufferPlace, before: Tensor) -> None:
    buffer = place.buffer
    if _is_reshaped(place):
        buffer.data = before.clone()
    elif not _same_bits([place], before.flatten() if place.usual else before):
        with torch.inference_mode() if buffer.is_inference() else contextlib.nullcontext():
            stored = _stored(buffer)
            buffer[stored].copy_(before[stored]) if stored else buffer.copy_(before)


def _stored(buffer: Tensor) -> tuple[slice, ...]:
    """The index of the elements that an expanded *buffer* stores; empty if it is not expanded."""
    if buffer.layout is not torch.strided or buffer.is_nested or 0 not in buffer.stride():
        return ()
    return tuple(slice(1) if step == 0 else slice(None) for step in buffer.stride())


_SAME_SIZE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtypes by the bytes of an element."""


def _bits(numbers: Tensor) -> Tensor:
    """*numbers* as integers with the same bits: negative zeros differ from zeros, and a NaN equals
    itself. Those that no integer has the size of are returned as they are."""
    same_size = _SAME_SIZE.get(numbers.element_size())
    if same_size is None or not (numbers.is_floating_point() or numbers.is_complex()):
        return numbers
    return numbers.view(same_size)


def _same_bits(places: list[_BufferPlace], before: Tensor) -> bool:
    try:
        return torch.equal(_bits(_numbers(places)), _bits(before))
    except (NotImplementedError, RuntimeError):  # sparse and other layouts cannot be compared
        return False


def _put_back_gradients(gradients: Sequence[tuple[Tensor, Tensor | None]]) -> None:
    for tensor, gradient in gradients:
        if (tensor.is_leaf or tensor.retains_grad) and tensor.grad is not gradient:
            tensor.grad = gradient
