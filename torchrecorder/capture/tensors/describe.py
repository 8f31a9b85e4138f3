"""Find tensors in arguments, and describe one tensor.

Nothing here calls an op. Shapes may be ragged or symbolic, storages may be missing, and inference
tensors have no version; all functions handle these cases.
"""

from __future__ import annotations

import dataclasses
import functools
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from torchrecorder.capture.internals.access import (
    USUAL_TYPES, is_wrapped, unwrapped, without_dispatch_modes,
)
from torchrecorder.events import Gradient

UNVERSIONED = -1
"""The version of a tensor without version counter."""

UNSETTLED = -2
"""The version of a tensor that autograd has not handled yet."""

ANYWHERE = 1 << 62
"""A position after the end of every storage."""

_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),  # public ones need a coalesced tensor
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}

_NO_PARTS = (int, float, str, type(None))
_ENDS = ("start", "stop", "step")


def tensors_in(value: Any, name: str = "") -> list[tuple[str, Tensor]]:
    """Every tensor in nested tuples, lists, mappings, dataclasses and slices, with its place.

    Containers of other classes are skipped: reading them could run code of the user.
    """
    if isinstance(value, Tensor):
        return [(name, value)]
    tensors: list[tuple[str, Tensor]] = []
    stack = [(name, value)]
    seen: set[int] = set()
    while stack:
        name, value = stack.pop()
        if isinstance(value, Tensor):
            tensors.append((name, value))
        elif id(value) not in seen:
            parts = _parts(value, name)
            if parts:
                seen.add(id(value))
                stack.extend(reversed(parts))
    return tensors


def _parts(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, _NO_PARTS):
        return []
    prefix = f"{name}." if name else ""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(prefix + field, item) for field, item in zip(value._fields, value)]
    if isinstance(value, (tuple, list)):
        return [(f"{prefix}{number}", item) for number, item in enumerate(value)]
    if isinstance(value, dict):
        return [(f"{prefix}{key}", value[key]) for key in list(value)]
    if isinstance(value, slice):
        return [(prefix + end, getattr(value, end)) for end in _ENDS]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return [(prefix + field.name, getattr(value, field.name, None)) for field in fields]
    return []


def innermost(tensor: Tensor) -> Tensor:
    """The tensor inside wrappers of ``torch.func``."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def memory_owner(tensor: Tensor) -> Tensor:
    """The tensor that owns memory: *tensor*, or the one inside a wrapper such as a DTensor."""
    while type(tensor) not in USUAL_TYPES and hasattr(type(tensor), "__tensor_flatten__"):
        inner = _first_inside(tensor)
        if inner is None:
            break
        tensor = inner
    return tensor


def _first_inside(wrapper: Any) -> Tensor | None:
    try:
        names, _ = wrapper.__tensor_flatten__()
        parts = [getattr(wrapper, name, None) for name in names]
    except Exception:  # the user's own code
        return None
    return next((part for part in parts if isinstance(part, Tensor)), None)


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """Sizes; -1 for ragged or symbolic ones."""
    try:
        shape = tuple(tensor.shape)
    except RuntimeError:  # a nested tensor with strided layout, or a lazy parameter
        known = not tensor.is_nested and tensor.numel()
        return tuple(tensor.size()) if known else tuple(-1 for _ in range(tensor.dim()))
    for size in shape:
        if type(size) is not int:
            return tuple(item if type(item) is int else -1 for item in shape)
    return shape


def elements_of(tensor: Tensor, shape: tuple[int, ...]) -> int:
    """The number of elements of *tensor*, also for ragged shapes."""
    if -1 in shape:
        number = tensor.numel()
        return number if type(number) is int else abs(prod(shape))
    return prod(shape)


def form_of(gradient: Tensor) -> Gradient:
    """Shape, dtype and size of a gradient; of a sparse one, the size of its indices and values."""
    (dtype, size), shape = dtype_facts(gradient.dtype), shape_of(gradient)
    parts = _SPARSE_PARTS.get(gradient.layout)
    if parts is None:
        number = abs(prod(shape)) * size
    else:
        with without_dispatch_modes():
            number = sum([getattr(gradient, part)().nbytes for part in parts])
    return Gradient(shape, dtype, device_name(gradient.device), number)


def version_of(tensor: Tensor) -> int:
    """The number of times that *tensor* was written in place."""
    return UNVERSIONED if tensor.is_inference() else tensor._version


def node_behind(tensor: Tensor) -> Any:
    """``grad_fn`` of *tensor*; None also if PyTorch raises an error.

    It does for a view made under no_grad whose base was then written with gradients.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def is_leaf(tensor: Tensor) -> bool:
    """Whether gradients accumulate in *tensor*.

    A view made under no_grad of a tensor that requires grad is no leaf, although its ``is_leaf``
    is True. False also if PyTorch raises an error.
    """
    try:
        if tensor._base is None or not tensor.requires_grad:
            return tensor.requires_grad and tensor.is_leaf
        return tensor.is_leaf and get_gradient_edge(tensor).node is not None
    except (AssertionError, RuntimeError):
        return False


def kind_of(tensor: Tensor) -> str:
    """Its class name, or its layout if that is not strided."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    return type(tensor).__name__


def reach_of(tensor: Tensor) -> tuple[int, int]:
    """The range of bytes of the storage that *tensor* covers."""
    tensor = memory_owner(tensor)
    try:
        low, number = tensor.storage_offset(), tensor.numel()
        if type(number) is not int or type(low) is not int:  # symbolic: reading specializes
            return 0, ANYWHERE
        if not tensor.is_contiguous():
            steps = zip(tensor.shape, tensor.stride())
            number = 1 + sum([(size - 1) * step for size, step in steps])
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors
        return 0, ANYWHERE
    size = tensor.element_size()
    return low * size, (low + number) * size


@functools.cache
def dtype_facts(dtype: torch.dtype) -> tuple[str, int]:
    """The name of a dtype, and the size of an element in bytes."""
    return str(dtype).removeprefix("torch."), dtype.itemsize


@functools.cache
def device_name(device: torch.device) -> str:
    """The name of a device, ``"cuda:0"``."""
    return str(device)
