"""What the model is called with: arguments as given, or made from shapes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.internals.access import compiled_from
from torchrecorder.capture.tensors import tensors_in
from torchrecorder.checks import shown
from torchrecorder.errors import ArgumentMismatch, InvalidArgument


def call_arguments(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, input_shapes: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments for the call of *model*.

    A tuple is the positional arguments; a mapping (a tokenizer's output) is the keyword
    arguments; anything else is the one positional argument.

    Raises:
        InvalidArgument: *model* cannot be called, or the arguments contradict each other.
        ArgumentMismatch: ``forward`` does not take these arguments.
    """
    if isinstance(model, type) and issubclass(model, Module):
        raise InvalidArgument(
            f"this is the class {model.__name__}, not a model: {model.__name__}(...) makes one"
        )
    if not callable(model):
        raise InvalidArgument(
            f"expected an nn.Module or another callable to record, got {type(model).__name__}"
        )
    if args is not None and input_shapes is not None:
        raise InvalidArgument("give either inputs or input_shapes, not both")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidArgument(
            f"kwargs must be a mapping from names, not {shown(kwargs)}; "
            "several inputs go in one tuple: record(model, (x, y))"
        )
    named = dict(kwargs or {})
    if input_shapes is not None:
        positional, more = _from_shapes(model, input_shapes)
        named.update(more)
    elif isinstance(args, Mapping):
        positional = ()
        named = {**{str(key): args[key] for key in args}, **named}
    elif isinstance(args, tuple):
        positional = tuple(args)
    else:
        positional = () if args is None else (args,)
    _check_signature(model, positional, named)
    return positional, named


def _check_signature(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    inner: Any = compiled_from(model)
    called = inner.forward if isinstance(inner, Module) else model
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):  # scripted and built-in callables have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = type(model).__name__ if isinstance(model, Module) else model.__name__
        given = [type(each).__name__ for each in args]
        given += [f"{key}={type(each).__name__}" for key, each in kwargs.items()]
        raise ArgumentMismatch(
            f"{name} takes {signature}, but was given ({', '.join(given)}): {error}. "
            "Give inputs as a tensor, a tuple, a mapping of keyword arguments, or input_shapes."
        ) from None


def _from_shapes(model: Any, shapes: Any) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Random inputs of these shapes, on the model's device and in its precision."""
    if isinstance(shapes, Mapping):
        return (), {str(name): random_input(model, shape) for name, shape in shapes.items()}
    if isinstance(shapes, (str, bytes)) or not isinstance(shapes, Sequence):
        raise InvalidArgument(
            f"input_shapes must be a shape such as (1, 3, 224, 224), a list of shapes, "
            f"or a mapping from argument name to shape; got {shapes!r}"
        )
    if all(isinstance(size, int) for size in shapes):
        return (random_input(model, shapes),), {}
    return tuple(random_input(model, shape) for shape in shapes), {}


def random_input(model: Any, shape: Any) -> Tensor:
    """Uniform numbers in [0, 1) from a generator of our own: no random state is touched."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise InvalidArgument(f"a shape is a sequence of sizes >= 0, got {shape!r}")
    device, dtype = torch.device("cpu"), torch.get_default_dtype()
    if isinstance(model, Module):
        for parameter in model.parameters():
            if parameter.is_floating_point():
                device, dtype = parameter.device, parameter.dtype
                break
    if device.type == "meta":
        return torch.empty(sizes, device=device, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    return torch.rand(sizes, generator=generator, dtype=torch.float32).to(device, dtype)


def as_leaf_dummies(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, with floating-point tensors as fresh leaves that require grad.

    So a frozen model gets an autograd graph. The leaves share memory with the user's
    tensors, which stay as they are. Containers that we do not know are left alone.
    """
    swapped: dict[int, Tensor] = {}
    for _, tensor in tensors_in((args, kwargs)):
        if (tensor.is_floating_point() or tensor.is_complex()) and not tensor.requires_grad:
            swapped[id(tensor)] = tensor.detach().requires_grad_()
    return _swap_all(args, kwargs, swapped)


def detached(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, with those that have an autograd graph behind them as fresh leaves.

    So a backward pass of ours stops at the door of the model.
    """
    swapped: dict[int, Tensor] = {}
    for _, tensor in tensors_in((args, kwargs)):
        if tensor.grad_fn is not None:
            swapped[id(tensor)] = tensor.detach().requires_grad_()
    return _swap_all(args, kwargs, swapped) if swapped else (args, kwargs)


def _swap_all(
    args: tuple[Any, ...], kwargs: dict[str, Any], swapped: dict[int, Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(_swap(each, swapped) for each in args), {
        key: _swap(each, swapped) for key, each in kwargs.items()
    }


def _swap(found: Any, swapped: dict[int, Tensor]) -> Any:
    if isinstance(found, Tensor):
        return swapped.get(id(found), found)
    if type(found) in (tuple, list):
        return type(found)(_swap(each, swapped) for each in found)
    if type(found) is dict:
        return {key: _swap(each, swapped) for key, each in found.items()}
    return found
