"""Functions that find tensors in arguments, and that describe a tensor.

None of them calls an op. They handle ragged and symbolic shapes, tensors without a storage, and
inference tensors, which have no version counter.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from torchrecorder.capture.internals.access import (
    PLAIN_TENSOR_TYPES, batch_dimension, is_old_batch, is_wrapped, outside_transformations,
    unwrapped, without_old_batch,
)

UNVERSIONED = -1
"""The version of a tensor without a version counter."""

VERSION_PENDING = -2
"""The version of a dispatched result before autograd has set its version and ``grad_fn``."""

ANYWHERE = 1 << 62
"""A byte offset after the end of every storage."""

MAX_WRAPPERS = 16
"""The maximum number of wrapper subclasses around a tensor; attributes may be a circle."""

_NO_PARTS = frozenset((int, float, bool, str, type(None)))
"""Types without tensors; a long list of them, such as the tokens of a text, takes no time."""
_ENDS = ("start", "stop", "step")


def is_a(value: Any, classes: Any) -> bool:
    """``isinstance`` without code of the user, and without believing a ``__class__`` property:
    PyTorch crashes if it is given a proxy or mock for a tensor."""
    return issubclass(type(value), classes)


def is_tensor(value: Any) -> TypeGuard[Tensor]:
    """Whether *value* is a tensor, and no proxy of one; see `is_a`."""
    return issubclass(type(value), Tensor)


def tensors_in(value: Any, name: str = "") -> list[tuple[str, Tensor]]:
    """Every tensor in nested tuples, lists, dicts, dataclasses and slices, with its dotted path.

    Other containers are skipped: reading them could run code of the user.
    """
    if is_tensor(value):
        return [(name, value)]
    tensors: list[tuple[str, Tensor]] = []
    stack = [(name, value)]
    seen: set[int] = set()
    while stack:
        name, value = stack.pop()
        if is_tensor(value):
            tensors.append((name, value))
        elif type(value) not in _NO_PARTS and id(value) not in seen:
            parts = _parts(value, name)
            if parts:
                seen.add(id(value))
                stack.extend(reversed(parts))
    return tensors


def _parts(value: Any, name: str) -> list[tuple[str, Any]]:
    prefix = f"{name}." if name else ""
    if is_a(value, (tuple, list, dict)):
        if _NO_PARTS.issuperset(map(type, items_of(value))):
            return []
        return [(f"{prefix}{key}", item) for key, item in zip(_keys(value), items_of(value))]
    if type(value) is slice:
        return [(prefix + end, getattr(value, end)) for end in _ENDS]
    if hasattr(type(value), "__dataclass_fields__"):
        return [(prefix + field, item) for field, item in fields_of(value)]
    return []


def items_of(value: Any) -> Iterable[Any]:
    """The items of a tuple, list or dict, without methods of a subclass."""
    if is_a(value, dict):
        return dict.values(value)
    return tuple.__iter__(value) if is_a(value, tuple) else list.__iter__(value)


def _keys(value: Any) -> Iterable[Any]:
    """The keys of a tuple, list or dict: field names, numbers, keys."""
    if is_a(value, dict):
        return dict.keys(value)
    return field_names(value) or itertools.count()


def field_names(value: Any) -> tuple[str, ...]:
    """The field names of a named tuple; empty for other sequences."""
    fields = getattr(type(value), "_fields", ()) if is_a(value, tuple) else ()
    if not fields or type(fields) is not tuple or len(fields) != tuple.__len__(value):
        return ()
    return tuple(map(str, fields))


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass object, without those that the user's code fails to compute."""
    found = []
    for field in dataclasses.fields(type(value)):
        try:
            found.append((field.name, object.__getattribute__(value, field.name)))
        except Exception:
            continue
    return found


def innermost(tensor: Tensor) -> Tensor:
    """The tensor inside the wrappers of ``torch.func`` transformations."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor


def memory_owner(tensor: Tensor) -> Tensor:
    """The tensor with a storage: *tensor*, or the one inside a wrapper subclass (DTensor)."""
    for _ in range(MAX_WRAPPERS):
        if type(tensor) in PLAIN_TENSOR_TYPES or not (inner := inside(tensor)):
            break
        tensor = next(iter(inner.values()))
    return tensor


def inside(tensor: Any) -> dict[str, Tensor]:
    """The tensors inside *tensor*, by attribute, if it is a wrapper subclass.

    They are those that ``__tensor_flatten__`` names; without it, all in its attributes, if it has
    no memory of its own.
    """
    cls = type(tensor)
    try:
        if hasattr(cls, "__tensor_flatten__"):
            names, _ = tensor.__tensor_flatten__()
            parts = {name: getattr(tensor, name, None) for name in names}
        elif cls.__torch_dispatch__ is Tensor.__torch_dispatch__ or _has_memory(tensor):
            return {}
        else:
            parts = vars(tensor)
    except Exception:  # the user's own code
        return {}
    return {name: part for name, part in parts.items() if is_tensor(part)}


def other_parts(tensor: Tensor) -> list[tuple[str, Tensor]]:
    """The tensors inside a wrapper subclass other than the first, which has its memory."""
    parts = [] if type(tensor) in PLAIN_TENSOR_TYPES else [*inside(tensor).items()]
    return [(name, part) for name, part in parts[1:] if part is not tensor]


def _has_memory(tensor: Tensor) -> bool:
    """Whether *tensor* has memory, or stands for memory, as on the meta device."""
    try:
        memory = tensor.untyped_storage()
        return memory.device.type == "meta" or memory.data_ptr() != 0
    except (NotImplementedError, RuntimeError):
        return False


def trained_inside(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The tensors with a gradient inside wrapper subclasses without one, such as the factors in a
    weight of LoRA: the function of the subclass, which is not recorded inside, may read them."""
    return [
        (f"{name}.{attribute}", part)
        for name, tensor in tensors
        if type(tensor) not in PLAIN_TENSOR_TYPES and not tensor.requires_grad
        for attribute, part in inside(tensor).items()
        if part.requires_grad
    ]


def shape_of(tensor: Tensor) -> tuple[int, ...]:
    """The shape of *tensor*; -1 for ragged and symbolic sizes."""
    try:
        shape = tuple(tensor.shape)
    except RuntimeError:  # a nested tensor with strided layout, or a lazy parameter
        known = not tensor.is_nested and tensor.numel()
        return tuple(tensor.size()) if known else tuple(-1 for _ in range(tensor.dim()))
    for size in shape:
        if type(size) is not int:
            return tuple(item if type(item) is int else -1 for item in shape)
    return shape


def version_of(tensor: Tensor) -> int:
    """``_version`` of *tensor*: how often it was written in place; -1 for inference tensors."""
    return UNVERSIONED if tensor.is_inference() else tensor._version


def grad_fn_of(tensor: Tensor) -> Any:
    """``grad_fn`` of *tensor*; None also where reading it raises an error.

    This is a view created under ``no_grad`` whose base was then written in place with gradients.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def is_leaf(tensor: Tensor) -> bool:
    """Whether autograd accumulates gradients into *tensor*.

    It does not for a view, created under ``no_grad``, of a tensor that requires grad, although its
    ``is_leaf`` is True. False also if PyTorch raises an error.
    """
    try:
        if tensor._base is None or not tensor.requires_grad:
            return tensor.requires_grad and tensor.is_leaf
        return tensor.is_leaf and get_gradient_edge(tensor).node is not None
    except (AssertionError, RuntimeError):
        return False


def class_or_layout(tensor: Tensor) -> str:
    """The class name of *tensor*, or its layout if that is not strided."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    return type(tensor).__name__


def byte_range(tensor: Tensor) -> tuple[int, int]:
    """The range of bytes that *tensor* occupies in its storage."""
    if type(tensor) not in PLAIN_TENSOR_TYPES:
        tensor = memory_owner(tensor)
    try:
        low, number = tensor.storage_offset(), tensor.numel()
        if type(number) is not int or type(low) is not int:  # symbolic: int() would specialize
            return 0, ANYWHERE
        if not tensor.is_contiguous():
            steps = zip(tensor.shape, tensor.stride())
            number = 1 + sum([(size - 1) * step for size, step in steps])
    except (RuntimeError, NotImplementedError):  # sparse and nested tensors
        return 0, ANYWHERE
    size = tensor.element_size()
    return low * size, (low + number) * size


def layout_of(tensor: Tensor) -> tuple[object, ...] | None:
    """The shape, strides and offset of *tensor* in its storage; None for one without memory."""
    try:
        return tensor.shape, tensor.stride(), tensor.storage_offset()
    except (NotImplementedError, RuntimeError):
        return None


@functools.cache
def dtype_facts(dtype: torch.dtype) -> tuple[str, int]:
    """The name of *dtype* (``float32``), and the bytes of an element."""
    return str(dtype).removeprefix("torch."), dtype.itemsize


@functools.cache
def device_name(device: torch.device) -> str:
    """The name of *device*: ``cuda:0``."""
    return str(device)


# Transformations ------------------------------------------------------------------------
#
# A tensor of `vmap`, `grad` and others of ``torch.func``, or of the older batches of
# ``torch.autograd.grad(is_grads_batched=True)``, is a wrapper that nobody can use when the
# transformation is over. The one inside has one dimension more for each `vmap`, at any place; here
# these come first, outermost first, as they do in the result of `vmap`.

InsideT = TypeVar("InsideT")

_MAX_LEVELS = 64
"""The maximum number of nested batches in PyTorch."""


def is_transformed(tensor: Tensor) -> bool:
    """Whether *tensor* is a wrapper of a transformation."""
    return is_wrapped(tensor) or is_old_batch(tensor)


def on_inside(work: Callable[[Tensor], InsideT], tensor: Tensor) -> InsideT:
    """What *work* gives for *tensor*, or for the plain one inside of it."""
    if not is_transformed(tensor):
        return work(tensor)
    with outside_transformations():
        if is_old_batch(tensor):
            return work(_inside_old_batch(tensor))
        order = order_inside(tensor)
        tensor = innermost(tensor)
        return work(tensor if order is None else tensor.permute(order))


def order_inside(tensor: Tensor) -> tuple[int, ...] | None:
    """The dimensions of the tensor inside *tensor*, hidden ones first; None if none is hidden."""
    hidden = list[int]()
    while is_wrapped(tensor):
        place = batch_dimension(tensor)
        if place >= 0:
            hidden.append(place)
        tensor = unwrapped(tensor)
    if not hidden:
        return None
    left, first = list(range(tensor.dim())), list[int]()
    while hidden:
        first.append(left.pop(hidden.pop()))
    return (*first, *left)


def _inside_old_batch(tensor: Tensor) -> Tensor:
    """The tensor inside an older batch, which has a dimension for each of its levels.

    PyTorch does not tell the levels; without one of them, it only adds a dimension of the size that
    is asked for.
    """
    found = 0
    for level in range(1, _MAX_LEVELS):
        without, other = (without_old_batch(tensor, level, size, 0) for size in (1, 2))
        if not is_old_batch(without):
            return without.permute(*range(found, -1, -1), *range(found + 1, without.dim()))
        if without.shape == other.shape:
            tensor, found = without, found + 1
    raise RuntimeError("the levels of a batch of gradients are unknown")
