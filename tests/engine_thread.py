"""A device in Python, whose grad nodes run in a thread of autograd's engine, as those of a GPU do.

Its tensors hold tensors of the CPU. Run as a program of its own: a device cannot be taken back,
and the engine starts its threads in the first backward pass of a process.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._pytree import tree_map

NAME = "threaded"

AVAILABLE = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
"""Whether this PyTorch has devices that are written in Python."""


def install() -> None:
    """Register the device; before the first backward pass."""

    class Module(backend_registration._DummyBackendModule):
        """What ``torch.threaded`` is."""

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.float16]

    backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Module())


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
        written = func._schema.name.endswith("_")
        return args[0] if written else result


def _held(item: Any) -> Any:
    if isinstance(item, OnDevice):
        return item.held
    return torch.device("cpu") if isinstance(item, torch.device) else item


def _on_device(item: Any) -> Any:
    return OnDevice(item) if isinstance(item, Tensor) else item


def to_device(item: Tensor) -> Tensor:
    """A leaf on the device that equals *item*."""
    return OnDevice(item.detach().clone()).requires_grad_(item.requires_grad)
