"""Python functions: what they take and read; and whether a ``__call__`` of modules runs hooks."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from torch.nn import Module

from torchrecorder.capture.internals.access import CALL_CODE, INNER_CALL_CODES, WRAPPED_CALL_CODE

_COUNTED = re.compile(r"^<\w+_\d+>\.|(?<=>)\.\d+( from .*)?$")


def unwrapped(function: Any) -> Any:
    """The function that decorators wrap; *function* itself if that is not a Python function, or if
    the wrappers are a cycle."""
    try:
        inner = inspect.unwrap(function)
    except ValueError:
        return function
    return inner if isinstance(inner, FunctionType) else function


def positional_parameters(function: Any) -> tuple[str, ...]:
    """The positional parameters of *function*; empty if it is not a Python function."""
    code = getattr(unwrapped(function), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount]


def uncounted(name: str) -> str:
    """The name of a class, or of a file of code, without a number that the process counts: that of
    a graph of ``torch.fx``, ``<eval_with_key>.4 from net.py:3 in forward`` (its lines are none of
    ``net.py``), or of a package, ``<torch_package_0>``."""
    return _COUNTED.sub("", name) if name.startswith("<") else name


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


# Calls of modules ------------------------------------------------------------------------

CALLERS = frozenset(map(id, (CALL_CODE, *INNER_CALL_CODES)))
"""The ``id()`` of the code objects that run the hooks of a module and call ``forward``."""

_CALLS = frozenset(("__call__", CALL_CODE.co_name, WRAPPED_CALL_CODE.co_name))

_MOST_BETWEEN = 10
"""Maximum number of functions between a ``__call__`` and that of PyTorch."""

_known: WeakKeyDictionary[type[Module], bool] = WeakKeyDictionary()


def has_own_call(cls: type[Module]) -> bool:
    """Whether *cls* overrides ``Module.__call__``."""
    owner = next(base for base in cls.__mro__ if "__call__" in vars(base))
    return owner.__module__.partition(".")[0] != "torch"


def caller_of_own_call(cls: type[Module], frame: FrameType) -> FrameType | None:
    """The frame that calls the overridden ``__call__`` of *cls*, if *frame* is inside it.

    *frame* itself if it is not inside; None if no Python frame calls it.
    """
    own = {id(code) for base in _own_classes(cls) for code in _codes(vars(base).get("__call__"))}
    found: FrameType | None = frame
    for _ in range(_MOST_BETWEEN):
        if found is None:
            return frame
        if id(found.f_code) in own:
            break
        found = found.f_back
    else:
        return frame
    while found is not None and id(found.f_code) in own:
        found = found.f_back
    return found


def _own_classes(cls: type[Module]) -> Iterator[type]:
    """*cls* and its bases up to the first one of PyTorch, in method resolution order."""
    return itertools.takewhile(
        lambda base: base.__module__.partition(".")[0] != "torch", cls.__mro__
    )


def _codes(function: Any) -> Iterator[CodeType]:
    """The code objects of *function* and of all functions that it wraps."""
    for _ in range(_MOST_BETWEEN):
        if hasattr(function, "__code__"):
            yield function.__code__
        function = getattr(function, "__wrapped__", None)


def runs_hooks(cls: type[Module]) -> bool:
    """Whether calls of a module of class *cls* run hooks.

    An overridden ``__call__`` does so only if it mentions that of a base class that does.
    """
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = _reaches_hooks(cls)
    return found


def _reaches_hooks(cls: type[Module]) -> bool:
    for base in _own_classes(cls):
        own = vars(base).get("__call__")
        code = getattr(unwrapped(own), "__code__", None)
        if code is not None and _CALLS.isdisjoint(names_in(code)):
            return False
    return True
