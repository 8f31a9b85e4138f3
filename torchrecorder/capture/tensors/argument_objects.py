"""Tensors inside objects in arguments or results of a model: ``data.x``, ``batch.edge_index``.

Graph batches, tensor dictionaries, detections and plain classes hold their tensors in attributes.
They are searched by identity, to a limited depth, when the run first reads a tensor of unknown
origin. No method or property of the user is called.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

_DEEPEST = 6
_MOST = 4000
"""The maximum depth and number of places of the search."""

_CLOSED = (
    bool, int, float, complex, str, bytes, type(None), type, Module, torch.dtype, torch.device,
    torch.Generator, types.FunctionType, types.MethodType, types.BuiltinFunctionType,
    types.ModuleType,
)


class ArgumentObjects:
    """The objects among the arguments of the outermost call.

    Args:
        arguments: The arguments and their names.
    """

    def __init__(self, arguments: list[tuple[str, Any]]) -> None:
        self._arguments = [
            (name, value) for name, value in arguments if not isinstance(value, (*_CLOSED, Tensor))
        ]
        self._names: dict[int, tuple[weakref.ref[Tensor], str]] | None = None

    def name_of(self, tensor: Tensor) -> str | None:
        """The place of *tensor* in the arguments, such as ``data.x``, or None."""
        if self._names is None:
            self._names = {}
            for name, found in _tensors(self._arguments):
                self._names.setdefault(id(found), (weakref.ref(found), name))
            self._arguments = []
        known = self._names.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None


def tensors_in_objects(
    arguments: list[tuple[str, Any]], known: list[tuple[str, Tensor]]
) -> list[tuple[str, Tensor]]:
    """Every tensor in objects in *arguments*, with its place, without *known* ones."""
    without = {id(tensor) for _, tensor in known}
    return [(name, found) for name, found in _tensors(arguments) if id(found) not in without]


def takes_part(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument that is not a tensor has ``__torch_function__``."""
    values = [*args, *kwargs.values()]
    for value in args:
        if isinstance(value, (tuple, list)):
            values.extend(value)
    return any(
        not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__")
        for value in values
    )


def _tensors(arguments: list[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in *arguments*, breadth first, with its shortest place."""
    queue = [(name, value, 0) for name, value in arguments]
    seen: set[int] = set()
    for place, (name, found, depth) in enumerate(queue):  # grows while it is read
        if isinstance(found, Tensor):
            yield name, found
        elif id(found) not in seen and depth < _DEEPEST and len(queue) < _MOST:
            seen.add(id(found))
            queue.extend((_joined(name, key), value, depth + 1) for key, value in _parts(found))
        queue[place] = ("", None, 0)


def _parts(found: Any) -> list[tuple[str, Any]]:
    """The items of a container or attributes of an object, without running code of its class."""
    if isinstance(found, _CLOSED):
        return []
    if isinstance(found, dict):
        return [(_key(key), value) for key, value in dict.items(found)]
    if isinstance(found, (tuple, list)):
        values = tuple.__iter__(found) if isinstance(found, tuple) else list.__iter__(found)
        return [(str(number), value) for number, value in enumerate(values)]
    return [*_attributes(found), *_slots(found)]


def _attributes(found: Any) -> list[tuple[str, Any]]:
    try:
        held = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return []
    return [(_key(key), value) for key, value in dict.items(held)]


def _slots(value: Any) -> Iterator[tuple[str, Any]]:
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__":
                try:
                    yield name, member.__get__(value)
                except AttributeError:  # not set
                    continue


def _key(key: Any) -> str:
    """A key of a mapping as text; the class name for objects with ``__str__`` of the user."""
    if type(key) is tuple:
        return ".".join(map(_key, key))
    return str(key) if type(key) in (str, int, bool, float) else type(key).__name__


def _joined(name: str, key: str) -> str:
    """*name* and *key* as one place; private attributes are left out of it."""
    return name if key.startswith("_") else f"{name}.{key}" if name else key
