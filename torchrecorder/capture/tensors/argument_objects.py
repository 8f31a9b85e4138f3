"""Tensors inside objects in arguments or results of a model: ``data.x``, ``batch.edge_index``.

Graph batches, tensor dictionaries, detections and plain classes have their tensors in attributes,
and trainers their models. When the run reads a tensor or calls a module of unknown origin, it is
searched by identity in the arguments of the outermost call and in the variables of a recorded
function, to a limited depth. No method or property of the user is called.
"""

from __future__ import annotations

import functools
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.python_functions import (
    cells, global_variables, positional_parameters, unwrapped,
)
from torchrecorder.capture.module_tree import named_modules, tensor_dicts_of
from torchrecorder.capture.tensors.describe import field_names, is_a, is_tensor, items_of
from torchrecorder.events import Role
from torchrecorder.graph.recording import RecordedRun

MAX_DEPTH = 6
_MAX_PLACES = 4000
"""The maximum depth of the search, and the number of places from which nothing is opened."""

_MAX_OBJECTS = 100_000
"""The maximum number of objects that a search looks at."""

_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_MAX_PLAIN = 1000
"""The maximum number of plain objects in a row before the rest of a container is skipped."""

MAX_ATTRIBUTE_DEPTH = 3
"""The maximum depth of the search in attributes of modules, which usually have no inputs."""

MAX_VARIABLE_DEPTH = 4
"""The maximum depth in variables; a list of batches may have lists of dicts in its items."""

# code that runs has variables, also those of its file, and no results
_CLOSED = (
    *_PLAIN, type, Module, Optimizer, torch.dtype, torch.device, torch.Generator,
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType,
    types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType,
    RecordedRun,
)

Named = list[tuple[str, Any]]
"""Names in the code, with the objects that they refer to."""


class ObjectPlaces:
    """Finds tensors and modules in the arguments and variables of the outermost call."""

    def __init__(
        self, arguments: Named, variables: Named | None = None, deepest: int = MAX_VARIABLE_DEPTH
    ) -> None:
        arguments = [item for item in arguments if not is_a(item[1], Tensor)]
        self._waiting = [(arguments, MAX_DEPTH), (variables or [], deepest)]
        self._models: list[tuple[str, weakref.ref[Module]]] = []
        self._found: dict[int, tuple[weakref.ref[Any], Role, str]] = {}

    def of(self, item: Tensor | Module) -> tuple[Role, str] | None:
        """The role and dotted path of *item*, such as ``data.x``; None if it is not found."""
        if self._waiting:
            self._search()
        known = self._found.get(id(item))
        if known is None and self._models:
            self._search_models()
            known = self._found.get(id(item))
        return None if known is None or known[0]() is not item else known[1:]

    def _search(self) -> None:
        """Search the arguments and variables."""
        role = Role.INPUT
        for named, deepest in self._waiting:
            for name, found in places_in(named, deepest):
                is_weight = role is not Role.INPUT and isinstance(found, Parameter)
                self._add(found, Role.PARAMETER if is_weight else role, name)
                if isinstance(found, Module):
                    self._models.append((name, weakref.ref(found)))
            role = Role.CONSTANT
        self._waiting = []

    def _search_models(self) -> None:
        """Search the modules found in arguments and variables, which takes longer."""
        for name, ref in self._models:
            model = ref()
            for path, module in () if model is None else named_modules(model, name):
                self._add(module, Role.CONSTANT, path)
                for role, held in tensor_dicts_of(module):
                    for key, value in held.items():
                        if is_tensor(value):
                            self._add(value, role, f"{path}.{key}" if path else key)
        self._models = []

    def _add(self, found: Tensor | Module, role: Role, name: str) -> None:
        self._found.setdefault(id(found), (weakref.ref(found), role, name))


def tensors_in_objects(
    arguments: list[tuple[str, Any]], known: list[tuple[str, Tensor]]
) -> list[tuple[str, Tensor]]:
    """Every tensor in *arguments*, also in objects, with its path; without *known* ones."""
    without = {id(tensor) for _, tensor in known}
    return [
        (name, found)
        for name, found in places_in(arguments, MAX_DEPTH)
        if is_tensor(found) and id(found) not in without
    ]


def has_function_objects(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument other than a tensor has ``__torch_function__``."""
    values = [*args, *kwargs.values()]
    for value in args:
        if is_a(value, (tuple, list)):
            values.extend(items_of(value))
    return any(
        not is_tensor(value) and hasattr(type(value), "__torch_function__")
        for value in values
    )


class SearchLimit:
    """How many objects a search may still look at; several searches may share it."""

    def __init__(self) -> None:
        self.left = _MAX_OBJECTS

    def without_plain(self, named: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """The items of *named* that may be or have tensors; what follows many numbers or strings
        in a row, such as the tokens of a text, is taken to be more of them."""
        in_a_row = 0
        for name, value in named:
            if type(value) not in _PLAIN:
                in_a_row = 0
                yield name, value
            elif in_a_row == _MAX_PLAIN or self.left <= 0:
                break
            else:
                in_a_row += 1
                self.left -= 1


def places_in(
    arguments: Named, deepest: int, limit: SearchLimit | None = None
) -> Iterator[tuple[str, Tensor | Module]]:
    """Every tensor and module in *arguments*, breadth first, with its shortest path, up to the
    *limit*. Tensors and modules are not searched."""
    limit = limit or SearchLimit()
    queue = [(name, value, 0) for name, value in limit.without_plain(arguments)]
    seen: set[int] = set()
    for place, (name, found, depth) in enumerate(queue):  # grows while it is read
        if limit.left <= 0:
            break
        limit.left -= 1
        if is_a(found, (Tensor, Module)):
            yield name, found
        elif depth < deepest and len(queue) < _MAX_PLACES and id(found) not in seen:
            seen.add(id(found))
            ahead = len(queue) - place - 1  # what else is looked at before, up to the limit
            parts = itertools.islice(
                limit.without_plain(_parts(found)), max(limit.left - ahead, 0)
            )
            queue.extend([(_joined(name, key, value), value, depth + 1) for key, value in parts])
        queue[place] = ("", None, 0)


def _parts(found: Any) -> Iterable[tuple[str, Any]]:
    """The items of a container or the attributes of an object, without code of its class."""
    if is_a(found, _CLOSED):
        return ()
    if is_a(found, dict):
        return ((_key(key), value) for key, value in dict.items(found))
    if is_a(found, (tuple, list)):
        return zip(field_names(found) or map(str, itertools.count()), items_of(found))
    return attributes(found)


def attributes(found: Any) -> Named:
    """The attributes of an object by name, without code of its class."""
    return [*_attributes(found), *_slots(found)]


def _attributes(found: Any) -> list[tuple[str, Any]]:
    try:
        held = object.__getattribute__(found, "__dict__")
    except Exception:  # there is none, or a property of the user
        return []
    if type(held) is types.MappingProxyType:  # of a class
        held = dict(held)
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


def _joined(name: str, key: str, value: Any) -> str:
    """The path of the item *key* of *name*; private attributes, except modules, add nothing."""
    is_hidden = key.startswith("_") and not is_a(value, Module)
    return name if is_hidden else f"{name}.{key}" if name else key


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
    """The variables that *function* may read: arguments of a ``partial``, closure cells, globals,
    and attributes of its object; also those of the functions in its file that it names."""
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
            held = [*cells(each), *global_variables(each)]
            found += held
            beside = (_of_python(value)[0] for _, value in held if type(value) is FunctionType)
            waiting += [item for item in beside if item and item.__globals__ is each.__globals__]
    for owner in bound:
        found += [("", owner)] if issubclass(type(owner), Module) else attributes(owner)
    return found


def _of_python(function: Any) -> tuple[FunctionType | None, tuple[Any, ...]]:
    """The Python function that a call of *function* runs, and its ``self`` in a tuple, if any."""
    if isinstance(function, FunctionType):
        return unwrapped(function), ()
    if isinstance(function, MethodType):
        called, _ = _of_python(function.__func__)
        return called, (function.__self__,)
    called = getattr(type(function), "__call__", None)
    return _of_python(called)[0] if isinstance(called, FunctionType) else None, (function,)
