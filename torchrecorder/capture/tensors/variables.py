"""Variables: the objects that a recorded function reads besides its arguments, by name."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import Any

from torch.nn import Module

from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.python_functions import (
    cells,
    global_variables,
    positional_parameters,
    unwrapped,
)
from torchrecorder.capture.tensors.argument_objects import Named, attributes


def positional_names(function: Any) -> tuple[str, ...]:
    """The names of the positional parameters of *function*, without ``self``."""
    if isinstance(function, functools.partial):
        return positional_names(function.func)[len(function.args) :]
    called, bound = _of_python(function)
    if called is None:
        return ()
    names = positional_parameters(called)
    return names[1:] if bound else names


def variables_of(function: Any) -> Named:
    """The variables of *function*: arguments of a ``partial``, closures, globals, attributes of its
    object; also those of the functions of its file that it uses."""
    found: Named = []
    while isinstance(function, functools.partial):
        found += named_arguments(function.args, positional_names(function.func))
        found += function.keywords.items()
        function = function.func
    called, bound = _of_python(function)
    waiting = [] if called is None else [called]
    seen: set[int] = set()
    for each in waiting:  # grows meanwhile
        if id(each) not in seen:
            seen.add(id(each))
            held = [*cells(each), *global_variables(each)]
            found += held
            beside = (_of_python(value)[0] for _, value in held if type(value) is FunctionType)
            waiting += [item for item in beside if item and item.__globals__ is each.__globals__]
    for owner in bound:
        found += [("", owner)] if issubclass(type(owner), Module) else attributes(owner)
    return found


def _of_python(function: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """The Python function that a call of *function* runs, and the object it is bound to, if any."""
    if isinstance(function, FunctionType):
        return unwrapped(function), ()
    if isinstance(function, MethodType):
        called, _ = _of_python(function.__func__)
        return called, (function.__self__,)
    called = getattr(type(function), "__call__", None)
    return _of_python(called)[0] if isinstance(called, FunctionType) else None, (function,)
