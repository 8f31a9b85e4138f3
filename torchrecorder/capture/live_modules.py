"""LiveModules: the modules of a recording while they exist, then stand-ins without tensors.

Styling functions need the class and configuration of a module also when it no longer exists. A
user's ``extra_repr()`` must not change the module, so it runs on a shallow copy.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch
from torch.nn import Module, MultiheadAttention

from torchrecorder.events import ModuleId, new_tuple
from torchrecorder.graph.recording import RecordedRun


class LiveModules:
    """Finds the module of a scope, without strong references."""

    def __init__(self, modules: dict[ModuleId, tuple[weakref.ref[Module], StandIn | None]]) -> None:
        self._modules = modules
        self._made: dict[ModuleId, Module] = {}

    def fn(self, recording: RecordedRun, node: str) -> Any:
        """The module of a scope; for a value, a meta tensor of its shape and dtype; else None.

        A module that no longer exists is replaced by one of the same class, with the same plain
        attributes, and with meta tensors instead of parameters and buffers.
        """
        scopes: Any = recording.scopes
        if node in scopes:
            return self._module(recording, scopes[node].module)
        return _meta(recording, node)

    def _module(self, recording: RecordedRun, number: ModuleId | None) -> Module | None:
        reference, kept = self._modules.get(number, (None, None))  # type: ignore[arg-type]
        module = reference() if reference is not None else None
        if module is not None or kept is None or number is None:
            return module
        made = self._made.get(number)
        if made is None:
            stored = recording.modules[number].stored
            tensors = {slot.name: _meta(recording, slot.value) for slot in stored}
            made = self._made[number] = kept.make(tensors)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles of a recording have no modules."""
        return (LiveModules, ({},))


def _meta(recording: RecordedRun, node: str) -> torch.Tensor | None:
    """A meta tensor with the shape and dtype of a value; None if either is unknown."""
    values: Any = recording.values
    if node not in values:
        return None
    value = values[node]
    dtype = getattr(torch, value.dtype, None)
    if dtype is None or -1 in value.shape:
        return None
    return torch.empty(value.shape, dtype=dtype, device="meta")


# Stand-ins -----------------------------------------------------------------------------

_PLAIN = frozenset((bool, int, float, complex, str, type(None)))
_SIZES = ("embed_dim", "num_heads")
"""Attributes of ``nn.MultiheadAttention``, which has no ``extra_repr``."""

_HELD = ("_parameters", "_buffers", "_modules")

_TABLES = {name for name, value in vars(Module()).items() if type(value) not in _PLAIN}
"""The attributes of every module in which PyTorch keeps parameters, submodules and hooks."""


class StandIn(NamedTuple):
    """The class and plain attributes of a module."""

    cls: type[Module]  # the class of the module
    attributes: dict[str, Any]  # numbers, strings and tuples of them, such as ``kernel_size``
    # names of parameters that are None, such as ``bias`` with ``bias=False``
    absent: tuple[str, ...]

    def make(self, tensors: dict[str, Any]) -> Module:
        """A module of this class with these attributes, and with *tensors* as buffers."""
        made = _empty(self.cls)
        vars(made).update(self.attributes)
        made._parameters.update(dict.fromkeys(self.absent))  # type: ignore[arg-type]
        made._buffers.update(tensors)
        return made


def stand_in(module: Module) -> StandIn:
    """The stand-in of *module*, from its ``__dict__``, so that no code of the user runs."""
    held = vars(module)
    attributes = {}
    for name in held.keys() - _TABLES:
        value = held[name]
        cls = type(value)
        if cls in _PLAIN or cls is tuple and _PLAIN.issuperset(map(type, value)):
            attributes[name] = value
    parameters = held.get("_parameters") or {}  # scripted modules have none there
    absent = tuple([name for name, value in parameters.items() if value is None])
    return new_tuple(StandIn, (type(module), attributes, absent))


def plain_detail(module: Module) -> str | None:
    """``extra_repr()`` of a module of PyTorch; None if the user's class overrides it.

    PyTorch's method may read attributes that a subclass computes. So that no code of the user runs,
    it is called on a copy whose class is the one that defines the method.
    """
    cls = type(module)
    owner = next(base for base in cls.__mro__ if "extra_repr" in vars(base))
    if owner is Module:
        return _attention_detail(module)
    if owner.__module__.partition(".")[0] != "torch":
        return None
    is_usual = owner is cls or cls.__module__.startswith("torch.nn.modules.")
    return _one_line(module if is_usual else _shallow(module, owner))


def _attention_detail(module: Module) -> str:
    """``embed_dim`` and ``num_heads`` of ``nn.MultiheadAttention``; empty for other modules."""
    if not isinstance(module, MultiheadAttention):
        return ""
    held = vars(module)
    return ", ".join(f"{name}={held[name]}" for name in _SIZES if type(held.get(name)) in _PLAIN)


def detail_of(module: Module) -> str:
    """``extra_repr()`` of *module* on one line; empty if it raises.

    It is called on a shallow copy, because a user's method may assign attributes. It may also draw
    random numbers: callers restore the random state.
    """
    return _one_line(_shallow(module, type(module)))


def _one_line(module: Module) -> str:
    try:
        return " ".join(str(module.extra_repr()).split())
    except Exception:
        return ""


def _shallow(module: Module, cls: type[Module]) -> Module:
    """A shallow copy of *module* with class *cls*: its own ``__dict__``, and its own dicts of
    parameters, buffers and submodules."""
    held = vars(module)
    copy = _empty(cls)
    vars(copy).update(held)
    for name in _HELD:
        vars(copy)[name] = dict(held.get(name) or {})
    return copy


def _empty(cls: type[Module]) -> Module:
    """A module of class *cls*, created without calling ``__init__``."""
    made = Module.__new__(cls)
    object.__setattr__(made, "__dict__", dict(vars(Module())))
    return made
