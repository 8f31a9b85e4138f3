"""Overloads: names of positional arguments, from the overload that PyTorch selects for a call.

``x.to("cpu")``, ``x.to(torch.half)`` and ``x.to(y)`` are three overloads whose second arguments
have different names. PyTorch selects one, once for each combination of types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import resolve_packet
from torchrecorder.capture.tensors.describe import is_a, is_tensor, items_of

_ANY = torch.empty(0, device="cpu")
"""Takes the place of tensors, so that no code of their classes runs."""

_OF_PYTHON = frozenset(("requires_grad",))
"""Keyword arguments that PyTorch removes before it calls an operator."""

_LISTS = list, tuple
_NUMBERS = frozenset((bool, int, float))
_NUMBER_OR_TEXT = int, float, complex, str
_HOME = re.compile(r"(builtins|numpy|torch)\b")
"""The packages with all classes of objects that operators take."""

_TENSORS = "List[Tensor]"

_OBJECT = object()
"""Takes the place of objects that no operator takes: the error would contain their text."""

_SIGNATURE = re.compile(r"\s*\w+\(([^)]*)\)")


@dataclass(frozen=True)
class Overloads:
    """The overloads of an operator whose positional arguments have different names."""

    operator: str  # its name, ``"aten::to"``
    schemas: Mapping[str, Any]  # the schema of each overload, by its name
    # for functions in Python such as ``einsum(equation, *operands)``, the position from which on
    # the arguments are the items of a list; else None
    spread: int | None = None
    _known: dict[Any, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    def names_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of positional arguments for a call; empty if PyTorch selects no overload, as
        when the sizes of ``x.view(2, 3)`` are no list."""
        first = self.spread
        if first is not None and not any(is_a(item, _LISTS) for item in args[first:]):
            names = self._names((*args[:first], [*args[first:]]), kwargs)
            items = (f"{name}.{place}" for name in names[first:] for place in range(len(args)))
            return (*names[:first], *items)[: len(args)]
        return self._names(args, kwargs)

    def _names(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        key: tuple[Any, ...] = *map(type, args), *kwargs, *map(type, kwargs.values())
        known = self._known.get(key)
        if known is None and any(is_a(item, _LISTS) for item in (*args, *kwargs.values())):
            key = *map(_kind, args), *kwargs, *map(_kind, kwargs.values())
            known = self._known.get(key)
        if known is None:
            given = {name: _stand_in(item) for name, item in kwargs.items()
                     if name not in _OF_PYTHON}
            known = self._known[key] = self._resolved([*map(_stand_in, args)], given)
        return known

    def _resolved(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[str, ...]:
        try:
            found = resolve_packet(self.operator, *args, **kwargs)
        except Exception:  # none, or an argument that no operator takes
            return ()
        schema = self.schemas.get(found if found != "default" else "")
        return () if schema is None or _takes_int_for_another(schema, args) else positional(schema)


def overloads_of(operator: str, schemas: Iterable[Any], *, spreads: bool) -> Overloads | None:
    """The `Overloads` of an operator with these *schemas*; None if all of them agree on the names.

    *spreads*: whether its function in Python takes the items of a list as its arguments.
    """
    by_name = {schema.overload_name: schema for schema in schemas}
    if spreads:
        kinds = ([str(item.type) for item in schema.arguments] for schema in by_name.values())
        lists = (kind.index(_TENSORS) for kind in kinds if _TENSORS in kind)
        return Overloads(operator, by_name, next(lists, None))
    names = [*map(positional, by_name.values())]
    longest = max(names, key=len, default=())
    agree = all(item == longest[: len(item)] for item in names)
    return None if agree else Overloads(operator, by_name)


def positional(schema: Any) -> tuple[str, ...]:
    """The names of the positional arguments of a schema."""
    return tuple(argument.name for argument in schema.arguments if not argument.kwarg_only)


def _takes_int_for_another(schema: Any, args: list[Any]) -> bool:
    """Whether an integer is passed for a dtype or flag, which Python does not permit:
    ``x.std(1)`` and ``x.view(1)``."""
    return any(
        type(given) is int and str(item.real_type) in ("bool", "ScalarType")
        for given, item in zip(args, schema.arguments)
    )


def documented(func: Callable[..., Any]) -> tuple[str, ...]:
    """The positional parameters of *func*, a function or method in C without a schema, from the
    signature in its documentation, such as ``new_tensor(data, *, dtype=None) -> Tensor``."""
    found = _SIGNATURE.match(func.__doc__ or "")
    parts = found[1].split(",") if found else []
    names = [part.partition("=")[0].strip() for part in parts]
    end = next((at for at, name in enumerate(names) if not name.isidentifier()), len(names))
    return tuple(names[:end])


def _kind(given: Any) -> Any:
    """What decides between overloads: the class of an argument, and of the items of a list."""
    if is_a(given, _LISTS):
        kinds = dict.fromkeys(map(type, items_of(given)))
        if not _NUMBERS.issuperset(kinds):
            kinds = dict.fromkeys(map(_kind, items_of(given)))
        return list, *kinds
    return Tensor if is_tensor(given) else type(given)


def _stand_in(given: Any) -> Any:
    """*given* with another tensor, or object, in the place of each that has code of the user."""
    if is_a(given, _LISTS):
        return [_stand_in(item) for item in items_of(given)]
    if is_tensor(given):
        return _ANY
    is_known = is_a(given, _NUMBER_OR_TEXT) or _HOME.match(type(given).__module__)
    return given if is_known else _OBJECT
