"""Leaf dummies: a fresh alias where a module hands on one of its own inputs.

``x + identity(x)`` adds one tensor to itself: by identity alone the two operands cannot
be told apart. There the module's result is replaced by an alias of the same memory, with
the same bits and the same gradient. Torch functions are given the user's own tensor in its
place, so that autograd never meets the alias: a write in place through a view would give
other gradients than a plain one, in their last bits. What leaves the outermost module is
the user's own tensor again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from torchrecorder.capture.state.restore import unheard
from torchrecorder.capture.tensors.describe import node_behind, tensors_in
from torchrecorder.capture.tensors.tensor_table import Values


def hand_on(values: Values, output: Any, passed: set[int]) -> Any | None:
    """*output* with fresh aliases for the inputs that the module left untouched.

    Args:
        values: Where aliases are entered.
        output: What the module returned.
        passed: Identities of those inputs.

    Returns:
        What to return instead; None to leave it as it is.
    """
    return _exchange(
        output, lambda item: _alias(values, item) if id(item) in passed else None
    )


def hand_out(values: Values, found: list[tuple[str, Tensor]], given: Container[int]) -> None:
    """The outermost module returns *found*: tensors that aliases stand for are what these are.

    So what it ends in, an identity or a dropout that is off, lies on the way out. Those
    *given* to it, by identity, are what they were.
    """
    for _, tensor in found:
        source = values.original(tensor)
        entry = values.entries.get(id(source))
        if source is not None and entry is not None and id(source) not in given:
            values.read(source)
            entry.value = values.read(tensor)


def take_back(values: Values, output: Any, given: Iterable[Tensor] = ()) -> Any | None:
    """*output* with the user's own tensors in place of aliases of ours; None to leave it.

    Lists, dicts and dataclasses are the user's objects: they stay, and what they hold is
    put right inside them. What stands for the same tensor as one of those *given* to the
    module is that very one: what a custom function hands on must be what it was given.
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


def holds_alias(values: Values, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an alias of ours is among the arguments of a call."""
    aliases = values.aliases
    for argument in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(argument, Tensor):
            if id(argument) in aliases:
                return True
        elif isinstance(argument, (tuple, list)) and not aliases.isdisjoint(_identities(argument)):
            return True
    return False


def _identities(found: Any) -> list[int]:
    return [id(tensor) for _, tensor in tensors_in(found)]


def run_on_originals(
    values: Values, func: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """Call *func* on the user's own tensors in place of aliases of ours.

    Where it hands back one of its arguments, the result is the very object it was given.
    """
    own, own_kwargs = args, kwargs
    try:
        own, own_kwargs = (
            tuple([_own(values, argument) for argument in args]),
            {name: _own(values, argument) for name, argument in kwargs.items()},
        )
    except Exception as error:
        values.tape.lose("aliases", error)
    result = func(*own, **own_kwargs)
    try:
        if isinstance(result, Tensor):
            for _, tensor in tensors_in((args, kwargs)):
                if values.source(tensor) is result:
                    return tensor
    except Exception as error:
        values.tape.lose("aliases", error)
    return result


def _own(values: Values, found: Any) -> Any:
    """An argument with the user's own tensors."""
    if isinstance(found, list):
        return list(_own(values, tuple(found)))
    return _or(_exchange(found, values.original), found)


def _or(new: Any | None, old: Any) -> Any:
    return old if new is None else new


def _places(found: Any) -> list[tuple[Any, Any]]:
    """The places of a container in which something can be put, and what is there."""
    if isinstance(found, list):
        return list(enumerate(found))
    if isinstance(found, dict):
        return list(found.items())
    if isinstance(found, tuple):
        return [(None, item) for item in found]
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return [
            (field.name, getattr(found, field.name, None)) for field in dataclasses.fields(found)
        ]
    return []


def _put(found: Any, key: Any, new: Any) -> None:
    if isinstance(found, (list, dict)):
        found[key] = new
    elif not isinstance(found, tuple):  # a tuple is made anew by who holds it
        object.__setattr__(found, key, new)


def _exchange(output: Any, other: Callable[[Tensor], Tensor | None]) -> Any | None:
    """A tensor, or a tuple of some, with those exchanged for which there is another."""
    if isinstance(output, Tensor):
        return other(output)
    if not isinstance(output, tuple):
        return None
    exchanged = [_exchange(item, other) for item in output]
    if all(item is None for item in exchanged):
        return None
    parts = [_or(new, old) for old, new in zip(output, exchanged)]
    if type(output) is tuple:
        return tuple(parts)
    return output._make(parts) if hasattr(output, "_make") else None


def _alias(values: Values, tensor: Tensor) -> Tensor | None:
    """A second tensor with the same memory, version counter and gradient."""
    if type(tensor) is not Tensor and type(tensor).__name__ != "FakeTensor":
        return None
    if isinstance(tensor, Parameter):  # as a fake one can be
        return None
    if tensor.requires_grad and torch.is_inference_mode_enabled():
        return None  # a view made there could not require grad
    alias = _view(values.source(tensor))
    if alias is not None:
        values.pass_on(tensor, alias)
    return alias


def _view(source: Tensor) -> Tensor | None:
    """The same memory under another name; None where no view can carry the gradient."""
    if source.layout is not torch.strided or source.is_nested:
        with unheard():
            return None if source.requires_grad else source.detach()
    without = source.requires_grad and node_behind(source) is None and source._is_view()
    with unheard():
        if torch.is_grad_enabled() is not without:
            return source.view_as(source)
        with torch.set_grad_enabled(not without):
            return source.view_as(source)
