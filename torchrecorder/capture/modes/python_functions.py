"""The parameters, closure cells and global variables of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def unwrapped(function: Any) -> Any:
    """The function that decorators wrap; *function* itself if that is not a Python function."""
    inner = inspect.unwrap(function)
    return inner if isinstance(inner, FunctionType) else function


def positional_parameters(function: Any) -> tuple[str, ...]:
    """The positional parameters of *function*; empty if it is not a Python function."""
    code = getattr(unwrapped(function), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values of the closure cells of *function*, without empty ones."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue


def global_variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The names and values of the globals that the code of *function* names."""
    known = function.__globals__
    return ((name, known[name]) for name in names_in(function.__code__) if name in known)


def names_in(code: CodeType) -> Iterator[str]:
    """The global names and attributes in *code* and in nested functions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)
