"""The argument of a recorder: which objects it may be, their name, and their module."""

from __future__ import annotations

from typing import Any

from torch.nn import Module

from torchrecorder.capture.internals.access import compiled_from
from torchrecorder.checks import Check, check_one
from torchrecorder.errors import InvalidArgument

MODEL = Check(
    "a module or another callable, not a class",
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
