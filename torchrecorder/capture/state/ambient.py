"""Ambient: the modes of PyTorch around a call, to make the call again when they are left."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch

from torchrecorder.capture.internals.access import (
    TorchFunctionMode,
    any_autocast,
    function_modes,
    pop_function_mode,
    push_function_mode,
)

_DEVICES = ("cpu", "cuda", "mps", "xpu")


class Ambient(NamedTuple):
    """Grad modes, autocast by device, and function modes such as a default device.

    Attributes:
        autocast: The devices for which it is on, each with its dtype.
        functions: The modes that are not ours, the lowest first.
    """

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    functions: tuple[TorchFunctionMode, ...]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """As it was then; a function mode that is still there stays where it is."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype))
            present = function_modes()
            for mode in self.functions:
                if not any(mode is item for item in present):
                    push_function_mode(mode)
                    stack.callback(pop_function_mode)
            yield


def ambient(ours: type[TorchFunctionMode]) -> Ambient:
    """The modes of this thread, without those of the class *ours*."""
    return Ambient(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        _autocast() if any_autocast() else (),
        tuple(mode for mode in function_modes() if not isinstance(mode, ours)),
    )


def _autocast() -> tuple[tuple[str, torch.dtype], ...]:
    on = filter(torch.is_autocast_enabled, _DEVICES)
    return tuple((device, torch.get_autocast_dtype(device)) for device in on)
