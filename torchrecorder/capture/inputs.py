"""The model, and its arguments: those of the caller, or random tensors created from shapes."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.exported import advice
from torchrecorder.capture.internals.access import compiled_from
from torchrecorder.capture.module_tree import parameters_in
from torchrecorder.capture.tensors.describe import fields_of, is_tensor, tensors_in
from torchrecorder.checks import Check, check_one, shown, whole_number
from torchrecorder.errors import ArgumentMismatch, InvalidArgument

MODEL = Check(
    "a module or another callable (not a class)",
    lambda value: callable(value) and not isinstance(value, type),
)

SEVERAL = (
    "give several as torch.nn.ModuleDict({'name': module, ...}), or none, as Recorder() records "
    "all modules that run in its block"
)


def check_model(model: object) -> None:
    """Check that *model* can be recorded.

    Raises:
        InvalidArgument: It is not callable, or is a list, tuple or dict of modules.
    """
    parts = [*model.values()] if isinstance(model, dict) else model
    several = isinstance(parts, (list, tuple)) and parts
    if several and all(isinstance(one, Module) for one in several):
        raise InvalidArgument(f"model must be one module: {SEVERAL}")
    check_one("model", model, MODEL.or_none())


def name_of(model: Any) -> str:
    if model is None:
        return "run"
    if isinstance(model, Module):
        return type(compiled_from(model)).__name__
    return str(getattr(model, "__name__", type(model).__name__))


def module_of(model: Any) -> Module | None:
    """*model* itself if it is a module; the module of a bound method; else None."""
    if isinstance(model, Module):  # its attributes are not read: they may be computed
        return model
    owner = getattr(model, "__self__", None)
    return owner if isinstance(owner, Module) else None


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


def call_arguments(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, input_shapes: Any, dtypes: Any = None
) -> Arguments:
    """The positional and keyword arguments for the call of *model*.

    If *args* is a tuple, it has the positional arguments; if it is a mapping, such as the output of
    a tokenizer, it has keyword arguments; anything else is the only positional argument.

    Raises:
        InvalidArgument: *model* cannot be called, or the arguments contradict each other.
        ArgumentMismatch: ``forward`` does not take these arguments.
    """
    if isinstance(model, type) and issubclass(model, Module):
        raise InvalidArgument(
            f"this is the class {model.__name__}, not a model: create it with {model.__name__}(...)"
        )
    if not callable(model):
        hint = advice(model)
        raise InvalidArgument(
            f"expected an nn.Module or another callable to record, got {type(model).__name__}"
            + f"; {hint}" * bool(hint)
        )
    if args is not None and input_shapes is not None:
        raise InvalidArgument("give either inputs or input_shapes, not both")
    if dtypes is not None and input_shapes is None:
        raise InvalidArgument("dtypes apply to input_shapes: pass input_shapes too")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise InvalidArgument(
            f"kwargs must be a mapping from names, not {shown(kwargs)}; "
            + ("recording.render(path) and render_network(model, x, filename=path) name a file"
               if isinstance(kwargs, (str, os.PathLike))
               else "pass several inputs as a tuple: record(model, (x, y))")
        )
    named = dict(kwargs or {})
    if input_shapes is not None:
        positional, more = _from_shapes(model, input_shapes, dtypes)
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
    except (TypeError, ValueError):  # scripted and built-in callables have no signature
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(model, "__name__", type(model).__name__)
        given = [type(argument).__name__ for argument in args]
        given += [f"{key}={type(argument).__name__}" for key, argument in kwargs.items()]
        raise ArgumentMismatch(
            f"{name} takes {signature}, but was given ({', '.join(given)}): {error}. "
            "Give inputs as a tensor, a tuple, a mapping of keyword arguments (in a tuple, if the "
            f"mapping itself is an argument), or input_shapes{_as_shape(args)}."
        ) from None


def _as_shape(args: tuple[Any, ...]) -> str:
    """``"=(2, 4)"`` if *args* are the sizes of a tensor."""
    return f"={args}" if args and all(type(argument) is int for argument in args) else ""


def _from_shapes(
    model: Any, shapes: Any, dtypes: Any
) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Random inputs with these *shapes*, and the device and dtype of the model."""
    if isinstance(shapes, Mapping):
        chosen = _dtype_of_each(dtypes, [*shapes])
        return (), {str(name): _random(model, shapes[name], chosen.get(name)) for name in shapes}
    if isinstance(shapes, (str, bytes)) or not isinstance(shapes, Sequence):
        raise InvalidArgument(
            f"input_shapes must be a shape such as (1, 3, 224, 224), a list of shapes, "
            f"or a mapping from argument name to shape; got {shapes!r}"
        )
    single = all(isinstance(size, int) for size in shapes) or _has_dtype(shapes)
    listed = [shapes] if single else shapes
    chosen = _dtype_of_each(dtypes, range(len(listed)))
    return tuple(_random(model, one, chosen.get(at)) for at, one in enumerate(listed)), {}


def _has_dtype(shape: Any) -> bool:
    """Whether *shape* is a pair of a shape and a dtype."""
    return isinstance(shape, Sequence) and len(shape) == 2 and isinstance(shape[1], torch.dtype)


def _dtype_of_each(dtypes: Any, names: Sequence[Any]) -> Mapping[Any, torch.dtype | None]:
    """The dtype of each input by name, or by position; None for that of the model."""
    if dtypes is None or isinstance(dtypes, torch.dtype):
        return dict.fromkeys(names, dtypes)
    given = dtypes if isinstance(dtypes, Mapping) else None
    if isinstance(dtypes, (tuple, list)) and len(dtypes) == len(names):
        given = dict(zip(names, dtypes))
    kinds = torch.dtype, type(None)
    if given is None or not {*given} <= {*names} or not all(
        isinstance(dtype, kinds) for dtype in given.values()
    ):
        raise InvalidArgument(
            "dtypes must be one dtype such as torch.int64, or a list or mapping of dtypes that "
            f"matches input_shapes, not {shown(dtypes)}"
        )
    return given


def _random(model: Any, shape: Any, dtype: torch.dtype | None) -> Tensor:
    """A random tensor; *shape* is a shape, or a pair of a shape and a dtype."""
    if _has_dtype(shape):
        shape, dtype = shape
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(map(whole_number(0).holds, sizes)):
        raise InvalidArgument(
            "a shape is a sequence of sizes >= 0, or a pair of one and a dtype, as in "
            f"((1, 16), torch.int64); got {shape!r}"
        )
    device, precision = device_and_dtype(model)
    return random_tensor(sizes, dtype or precision, device, torch.Generator().manual_seed(0))


def device_and_dtype(model: Any) -> tuple[torch.device, torch.dtype]:
    """Device and dtype of the first floating-point parameter of *model*, or the defaults."""
    for parameter in parameters_in(model) if isinstance(model, Module) else ():
        if parameter.is_floating_point():
            return parameter.device, parameter.dtype
    return torch.empty(0).device, torch.get_default_dtype()  # also of `with torch.device(...)`


def random_tensor(
    sizes: Sequence[int],
    dtype: torch.dtype,
    device: Any,
    generator: torch.Generator,
    low: float = 0.0,
    high: float = 1.0,
) -> Tensor:
    """A tensor of uniform random numbers in [*low*, *high*); integers include *high*.

    The numbers are drawn from *generator*, so that PyTorch's global random state does not change.
    """
    if str(device) == "meta":
        return torch.empty(sizes, dtype=dtype, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        spread = torch.rand(sizes, generator=generator, dtype=torch.float32, device="cpu")
        return (spread * (high - low) + low).to(device, dtype)
    given = torch.randint(int(low), int(high) + 1, sizes, generator=generator, device="cpu")
    return given.to(device, dtype)


def as_leaf_dummies(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments, with floating-point tensors replaced by leaves that require grad.

    So a frozen model gets an autograd graph. The leaves share memory with the user's tensors.
    """
    return _with_new_leaves(
        (args, kwargs),
        lambda x: (x.is_floating_point() or x.is_complex()) and not x.requires_grad,
    )


def detached(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments, with tensors that have a ``grad_fn`` replaced by leaves.

    So a backward pass of the recorder stops at the inputs of the model.
    """
    return _with_new_leaves((args, kwargs), lambda x: x.grad_fn is not None)


def _with_new_leaves(given: Arguments, chosen: Callable[[Tensor], bool]) -> Arguments:
    """The arguments, with *chosen* tensors replaced by leaves that share their memory."""
    swapped = {id(x): x.detach().requires_grad_() for _, x in tensors_in(given) if chosen(x)}
    exchanged: Arguments = _swap(given, swapped) if swapped else given
    return exchanged


def _swap(value: Any, swapped: dict[int, Tensor]) -> Any:
    """*value* with tensors replaced by ``id()``; containers are copied if they have one of them."""
    if is_tensor(value):
        return swapped.get(id(value), value)
    parts: dict[Any, Any]
    if isinstance(value, (tuple, list)):
        parts = dict(enumerate(value))
    elif isinstance(value, dict):
        parts = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = dict(fields_of(value))
    else:
        return value
    found = {key: _swap(part, swapped) for key, part in parts.items()}
    if all(found[key] is part for key, part in parts.items()):
        return value
    if isinstance(value, tuple):
        make = tuple if type(value) is tuple else getattr(value, "_make", None)
        return value if make is None else make(found.values())  # else unknown
    other = copy.copy(value)
    for key in found:
        if isinstance(other, (list, dict)):
            other[key] = found[key]
        else:
            object.__setattr__(other, key, found[key])
    return other
