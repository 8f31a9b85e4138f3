"""The arguments of a call by name: tensors, and all others as short text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.modes.python_functions import cells
from torchrecorder.capture.tensors.describe import (
    is_a, is_tensor, items_of, tensors_in, trained_inside,
)

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, slice, range, type(Ellipsis))
_NUMBERS = frozenset((int, bool, float, type(None)))
_MAX_LENGTH, _MAX_ITEMS = 60, 16


def sort_arguments(
    facts: FunctionFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[tuple[str, Tensor]], tuple[tuple[str, str], ...]]:
    """The tensors in the arguments of a call, and its numbers, strings and the like as text.

    Positional arguments have the names of the parameters. Other objects are left out.
    """
    tensors: list[tuple[str, Tensor]] = []
    plain: list[tuple[str, str]] = []
    names = facts.names_of(args, kwargs)
    if facts.name == "deepcopy":
        args = args[:1]  # the argument was copied before: do not read it
    for name, entry in (*named_arguments(args, names), *kwargs.items()):
        cls = type(entry)
        if cls in PLAIN_TENSOR_TYPES:
            tensors.append((name, entry))
        elif cls in _NUMBERS:
            if entry is not None:
                plain.append((name, _repr(entry)))
        elif is_tensor(entry):
            tensors.append((name, entry))
        else:
            _sort(name, entry, tensors, plain)
    tensors += trained_inside(tensors)
    if facts.higher_order:
        given = {id(tensor) for _, tensor in tensors}
        tensors += [item for item in closed_over(args) if id(item[1]) not in given]
    return tensors, tuple(plain)


def named_arguments(args: tuple[Any, ...], names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Positional arguments with the *names* of their parameters, else their positions.

    Integers beyond the last name belong to it: ``x.view(2, -1)`` is ``x.view((2, -1))``.
    """
    if len(args) > len(names):
        last = len(names) - 1
        if names and all(type(item) is int for item in args[last:]):
            args = *args[:last], args[last:]
        else:
            names += tuple(map(str, range(len(names), len(args))))
    return zip(names, args)


def named_tensors(args: tuple[Any, ...], names: tuple[str, ...]) -> list[tuple[str, Tensor]]:
    """The tensors in positional arguments, also inside containers, by parameter name."""
    if len(args) == 1 and is_tensor(args[0]):
        return [(names[0] if names else "0", args[0])]
    found: list[tuple[str, Tensor]] = []
    for name, value in named_arguments(args, names):
        if is_tensor(value):
            found.append((name, value))
        elif value is not None:
            found.extend(tensors_in(value, name))
    return found


def _sort(
    name: str, each: Any, tensors: list[tuple[str, Tensor]], plain: list[tuple[str, str]]
) -> None:
    """Add the argument *each*, neither a tensor nor a number, to *tensors* and *plain*."""
    if is_a(each, tuple) and _NUMBERS.issuperset(map(type, items_of(each))):
        plain.append((name, repr(tuple(items_of(each)))))
    elif is_a(each, (tuple, list, dict)):
        tensors.extend(tensors_in(each, name))
        if _is_plain(each):
            plain.append((name, _text(each)))
    elif is_a(each, _PLAIN):
        tensors.extend(tensors_in(each, name))
        plain.append((name, _text(each)))
    elif (text := _of_numpy(each)) and (text != _ARRAY or name == "index" or name.isdigit()):
        plain.append((name, text))


_ARRAY = "array"
"""The text of a NumPy array, unless it is short and has integers; for indices only."""


def _of_numpy(value: Any) -> str:
    """The text of a NumPy array or number; empty for other objects."""
    numpy = sys.modules.get("numpy")
    numbers: Any = getattr(numpy, "generic", ())
    arrays: Any = getattr(numpy, "ndarray", ())
    if is_a(value, numbers):
        return repr(value.item())
    if not is_a(value, arrays):
        return ""
    is_short = value.size <= _MAX_ITEMS and value.dtype.kind in "iub"
    return repr(value.tolist()) if is_short else _ARRAY


def _is_plain(value: Any) -> bool:
    """Whether *value* is a short container of numbers, strings and the like. An index of several
    dimensions, ``x[:, mask]``, may also have tensors."""
    items = tuple(items_of(value))
    if len(items) > _MAX_ITEMS:
        return False
    is_index = any(is_a(item, (slice, type(Ellipsis))) for item in items)
    return all(
        is_a(item, _PLAIN) or item is None or is_index and is_tensor(item)
        or is_a(item, (tuple, list)) and _is_plain(item) or _of_numpy(item) != ""
        for item in items
    )


def _text(value: Any, *, nested: bool = False) -> str:
    if is_a(value, (tuple, list)):
        is_list = nested and is_a(value, list)
        if not is_list and all(type(item) in _NUMBERS for item in items_of(value)):
            return repr(tuple(items_of(value)))
        text = ", ".join(_text(item, nested=True) for item in items_of(value))
        text = f"[{text}]" if is_list else f"({text})"
    elif isinstance(value, slice):
        ends = ["" if item is None else _text(item) for item in (value.start, value.stop)]
        text = ":".join(ends) + ("" if value.step is None else f":{_text(value.step)}")
    elif is_tensor(value):  # in an index: also an input of the call
        text = "tensor"
    elif isinstance(value, (torch.dtype, torch.device)):
        text = str(value).removeprefix("torch.")
    else:
        text = "..." if value is Ellipsis else _of_numpy(value) or _repr(value)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"


def _repr(value: Any) -> str:
    """The text of a number or string, which may be too long, or of a class of the user."""
    try:
        return repr(value)
    except Exception:
        return type(value).__name__


def closed_over(args: tuple[Any, ...]) -> list[tuple[str, Tensor]]:
    """The tensors that functions among *args* close over, without duplicates.

    These are the tensors in closure cells, and the parameters and buffers of modules in cells whose
    attribute names occur in the code of the function. PyTorch's compiler turns them into inputs.
    """
    found: dict[int, tuple[str, Tensor]] = {}
    stack = [argument for argument in args if type(argument) is FunctionType]
    seen: set[int] = set()
    while stack:
        function = stack.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for name, held in cells(function):
            if type(held) is FunctionType:
                stack.append(held)
            for path, tensor in _held_tensors(name, held, function.__code__.co_names):
                found.setdefault(id(tensor), (path, tensor))
    return list(found.values())


def _held_tensors(name: str, held: Any, mentioned: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    if is_tensor(held):
        yield name, held
    elif is_a(held, Module):
        for path, tensor in (*held.named_parameters(), *held.named_buffers()):
            if path.partition(".")[0] in mentioned:
                yield path, tensor
