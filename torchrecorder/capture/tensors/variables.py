"""Variables: what a recorded function reads without being given it, by the names in its code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch.nn import Module

from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.closures import cells
from torchrecorder.capture.tensors.argument_objects import Named, attributes


def positional_names(function: Any) -> tuple[str, ...]:
    """The names of the positional parameters of *function*, without ``self``."""
    if isinstance(function, functools.partial):
        return positional_names(function.func)[len(function.args) :]
    called, bound = _of_python(function)
    if called is None:
        return ()
    names = called.__code__.co_varnames[: called.__code__.co_argcount]
    return names[1:] if bound else names


def variables_of(function: Any) -> Named:
    """What *function* reads: arguments of a ``partial``, closures, globals, attributes of its
    object; also what other functions of its file read that it uses."""
    found: Named = []
    while isinstance(function, functools.partial):
        found += named_arguments(function.args, positional_names(function.func))
        found += function.keywords.items()
        function = function.func
    called, bound = _of_python(function)
    waiting = [] if called is None else [called]
    seen: set[int] = set()
    for each in waiting:  # grows while it is read
        if id(each) not in seen:
            seen.add(id(each))
            held = [*cells(each), *_globals(each)]
            found += held
            beside = (_of_python(value)[0] for _, value in held if type(value) is FunctionType)
            waiting += [item for item in beside if item and item.__globals__ is each.__globals__]
    for owner in bound:
        found += [("", owner)] if issubclass(type(owner), Module) else attributes(owner)
    return found


def _of_python(function: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """The Python function that a call of *function* runs, and the object it is bound to, if any."""
    if isinstance(function, FunctionType):
        inner = inspect.unwrap(function)
        return inner if isinstance(inner, FunctionType) else function, ()
    if isinstance(function, MethodType):
        called, _ = _of_python(function.__func__)
        return called, (function.__self__,)
    called = getattr(type(function), "__call__", None)
    return _of_python(called)[0] if isinstance(called, FunctionType) else None, (function,)


def _globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The global variables that the code of *function* names."""
    known = function.__globals__
    return ((name, known[name]) for name in _names(function.__code__) if name in known)


def _names(code: CodeType) -> Iterator[str]:
    """The names in *code*, and in the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
