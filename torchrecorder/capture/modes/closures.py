"""Tensors that the function arguments of a higher-order operator close over.

PyTorch's compiler turns them into inputs; without the compiler, the functions read tensors that are
not arguments: those in the cells of a function, and attributes of a module in a cell whose names
occur in the function's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.modes.python_functions import cells


def closed_over(args: tuple[Any, ...]) -> list[tuple[str, Tensor]]:
    """The tensors that the functions among *args* close over, without duplicates."""
    found: dict[int, tuple[str, Tensor]] = {}
    stack = [argument for argument in args if isinstance(argument, FunctionType)]
    seen: set[int] = set()
    while stack:
        function = stack.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for name, held in cells(function):
            if isinstance(held, FunctionType):
                stack.append(held)
            for path, tensor in _tensors(name, held, function.__code__.co_names):
                found.setdefault(id(tensor), (path, tensor))
    return list(found.values())


def _tensors(name: str, held: Any, mentioned: tuple[str, ...]) -> Iterator[tuple[str, Tensor]]:
    if isinstance(held, Tensor):
        yield name, held
    elif isinstance(held, Module):
        for path, tensor in (*held.named_parameters(), *held.named_buffers()):
            if path.partition(".")[0] in mentioned:
                yield path, tensor
