"""Aliases: new tensors for inputs that a module returns unchanged.

In ``x + identity(x)`` both operands are the same object, so the output of a module that returns its
input is replaced by an alias with the same memory and gradient. Torch functions still get the
user's tensor, so that autograd never sees the alias: in-place writes through views would change the
last bits of gradients. The outermost module returns the user's tensor too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.internals.access import is_wrapped
from torchrecorder.capture.state.restore import without_modes
from torchrecorder.capture.tensors.describe import (
    fields_of, grad_fn_of, is_a, is_leaf, is_tensor, items_of, tensors_in,
)
from torchrecorder.capture.tensors.tensor_table import TensorTable


def with_aliases(values: TensorTable, output: Any, passed: set[int]) -> Any | None:
    """*output* with new aliases of the tensors *passed*, by ``id()``; None if it has none."""
    return _exchange(output, lambda item: _alias(values, item) if id(item) in passed else None)


def values_to_originals(
    values: TensorTable, tensors: list[tuple[str, Tensor]], given: Container[int]
) -> None:
    """Give the originals of the aliases in *tensors*, the outermost output, the values of these.

    So an identity or inactive dropout at the end of a model is on the path to its output. The
    arguments *given* to the module, by ``id()``, keep their values.
    """
    for _, tensor in tensors:
        source = values.original(tensor)
        if source is not None and id(source) not in given:
            values.read(source)
            values.entries[id(source)].value = values.read(tensor)


def with_originals(values: TensorTable, output: Any, given: Iterable[Tensor] = ()) -> Any | None:
    """*output* with the user's tensors instead of aliases; None if it has none.

    Lists, dicts and dataclasses are the user's objects: their items are replaced in place. If one
    of the arguments *given* to the module is an alias of the same tensor, that object is returned,
    because a custom function must return the very object that it received.
    """
    if not values.aliases:
        return None
    entered = {id(values.source(item)): item for item in given}

    def own(tensor: Tensor) -> Tensor | None:
        original = values.original(tensor)
        return None if original is None else entered.get(id(original), original)

    stack, seen = [output], {id(output)}
    while stack:
        found = stack.pop()
        for key, part in _places(found):
            new = _exchange(part, own)
            if new is not None:
                _put(found, key, new)
            elif id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return _exchange(output, own)


def holds_alias(values: TensorTable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of a call contain an alias."""
    aliases = values.aliases
    for argument in (*args, *kwargs.values()) if kwargs else args:
        if is_tensor(argument):
            if id(argument) in aliases:
                return True
        elif is_a(argument, (tuple, list)):
            if not aliases.isdisjoint([id(tensor) for _, tensor in tensors_in(argument)]):
                return True
    return False


def run_on_originals(
    values: TensorTable, func: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call *func* with the user's tensors instead of aliases.

    If it returns the original of an argument, the result is the argument.
    """
    own, own_kwargs = args, kwargs
    with values.tape.survives_errors("aliases"):
        own, own_kwargs = (
            tuple([_own(values, argument) for argument in args]),
            {name: _own(values, argument) for name, argument in kwargs.items()},
        )
    result = func(*own, **own_kwargs)
    with values.tape.survives_errors("aliases"):
        if is_tensor(result):
            for _, tensor in tensors_in((args, kwargs)):
                if values.source(tensor) is result:
                    return tensor
    return result


def _own(values: TensorTable, value: Any) -> Any:
    """*value* with the user's tensors instead of aliases."""
    if is_a(value, list):
        return list(_own(values, tuple(items_of(value))))
    own = _exchange(value, values.original)
    return value if own is None else own


def _places(value: Any) -> list[tuple[Any, Any]]:
    """The keys and items of a container; none for other objects."""
    if is_a(value, list):
        return list(enumerate(items_of(value)))
    if is_a(value, dict):
        return list(dict.items(value))
    if is_a(value, tuple):
        return [(None, item) for item in items_of(value)]
    if hasattr(type(value), "__dataclass_fields__"):
        return fields_of(value)
    return []


def _put(value: Any, key: Any, new: Any) -> None:
    if is_a(value, (list, dict)):
        value[key] = new
    elif not is_a(value, tuple):  # a tuple is replaced in its container
        object.__setattr__(value, key, new)


def _exchange(output: Any, other: Callable[[Tensor], Tensor | None]) -> Any | None:
    """*output*, a tensor or nested tuple, with tensors replaced by *other*; None if none was."""
    if is_tensor(output):
        return other(output)
    if not is_a(output, tuple):
        return None
    exchanged = [_exchange(item, other) for item in output]
    if all(item is None for item in exchanged):
        return None
    parts = [old if new is None else new for old, new in zip(output, exchanged)]
    if type(output) is tuple:
        return tuple(parts)
    return output._make(parts) if hasattr(output, "_make") else None


def _alias(values: TensorTable, tensor: Tensor) -> Tensor | None:
    """A new tensor with the same memory, version counter and gradient; None if impossible."""
    if type(tensor) is not Tensor and type(tensor).__name__ != "FakeTensor":
        return None
    if isinstance(tensor, Parameter):  # possible for fake tensors
        return None
    if is_wrapped(tensor):  # what is inside has the value
        return None
    if tensor.requires_grad and torch.is_inference_mode_enabled():
        return None  # views created under inference mode cannot require grad
    source = values.source(tensor)
    alias = _view(source)
    if alias is not None:
        alias.__dict__ = source.__dict__  # attributes that the program sets on either of them
        values.add_identity(tensor, alias)
    return alias


def _view(source: Tensor) -> Tensor | None:
    """A view of the whole tensor; None if no view has its gradient."""
    if source.layout is not torch.strided or source.is_nested:
        with without_modes():
            return None if source.requires_grad else source.detach()
    with without_modes():
        without = source.requires_grad and grad_fn_of(source) is None and not is_leaf(source)
        if torch.is_grad_enabled() is not without:
            return source.view_as(source)
        with torch.set_grad_enabled(not without):
            return source.view_as(source)
