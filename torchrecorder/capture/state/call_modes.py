"""CallModes: the PyTorch modes of a call, to repeat the call in the same modes later."""

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


class CallModes(NamedTuple):
    """Grad mode, inference mode, autocast, and function modes such as the default device.

    Attributes:
        autocast: The device types with autocast enabled, and their dtypes.
        functions: The function modes other than the recorder's, outermost first.
    """

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    functions: tuple[TorchFunctionMode, ...]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """A context with these modes; function modes that are active are not entered again."""
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


def call_modes(ours: type[TorchFunctionMode]) -> CallModes:
    """The modes of this thread, without function modes of the class *ours*."""
    return CallModes(
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        _autocast() if any_autocast() else (),
        tuple(mode for mode in function_modes() if not isinstance(mode, ours)),
    )


def _autocast() -> tuple[tuple[str, torch.dtype], ...]:
    on = filter(torch.is_autocast_enabled, _DEVICES)
    return tuple((device, torch.get_autocast_dtype(device)) for device in on)
