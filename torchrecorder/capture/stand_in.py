"""Stand-ins: copies of modules without their tensors.

A recording outlives its model, and people still ask what kind of module a box was and how it
was configured. And a method of the user's that describes a module must not change the module:
it runs on a copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch.nn import Module

_PLAIN = (bool, int, float, complex, str, type(None))
_HELD = ("_parameters", "_buffers", "_modules")


class StandIn(NamedTuple):
    """What is kept of a module: its class and its plain attributes.

    Attributes:
        cls: The class of the module.
        attributes: Numbers, text and tuples of them, such as ``kernel_size``.
        absent: Names of parameters that are None, such as ``bias`` of a layer without one.
    """

    cls: type[Module]
    attributes: dict[str, Any]
    absent: tuple[str, ...]

    def make(self, tensors: dict[str, Any]) -> Module:
        """A module of the same class that answers ``isinstance`` and has these attributes.

        Args:
            tensors: Its parameters and buffers, by name; meta tensors.
        """
        made = _empty(self.cls)
        vars(made).update(self.attributes)
        made._parameters.update(dict.fromkeys(self.absent))  # type: ignore[arg-type]
        made._buffers.update(tensors)
        return made


def stand_in(module: Module) -> StandIn:
    """What to keep of *module*. Only its ``__dict__`` is read: nothing of the user's runs."""
    held = vars(module)
    attributes = {name: value for name, value in held.items() if _is_plain(value)}
    absent = tuple(name for name, value in _parameters(held) if value is None)
    return StandIn(type(module), attributes, absent)


def plain_detail(module: Module) -> str | None:
    """What PyTorch's ``extra_repr()`` says of *module*; None if the class has one of its own.

    No code of the user's runs: PyTorch's method may read attributes that a subclass computes, so
    it is given a copy of the class that it belongs to.
    """
    cls = type(module)
    owner = next(base for base in cls.__mro__ if "extra_repr" in vars(base))
    if owner is Module:
        return ""
    if owner.__module__.partition(".")[0] != "torch":
        return None
    is_usual = owner is cls or cls.__module__.startswith("torch.nn.modules.")
    return _one_line(module if is_usual else _shallow(module, owner))


def detail_of(module: Module) -> str:
    """``extra_repr()`` of *module* on one line; empty if it raises.

    A method of the user's may do anything, even draw random numbers or count its calls. It is
    called on a shallow copy; who calls this keeps the random state.
    """
    return _one_line(_shallow(module, type(module)))


def _one_line(module: Module) -> str:
    try:
        return " ".join(str(module.extra_repr()).split())
    except Exception:
        return ""


def _shallow(module: Module, cls: type[Module]) -> Module:
    """A copy of *module*, of this class, that shares its attributes.

    Setting one on it leaves *module* alone.
    """
    held = vars(module)
    copy = _empty(cls)
    vars(copy).update(held)
    for name in _HELD:
        vars(copy)[name] = dict(held.get(name) or {})
    return copy


def _empty(cls: type[Module]) -> Module:
    """A module of class *cls* whose ``__init__`` did not run."""
    made = Module.__new__(cls)
    object.__setattr__(made, "__dict__", dict(vars(Module())))
    return made


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(type(part) in _PLAIN for part in value)
    return type(value) in _PLAIN


def _parameters(held: dict[str, Any]) -> list[tuple[str, Any]]:
    """The parameters of a module, given its ``__dict__``; a scripted module has none there."""
    return list((held.get("_parameters") or {}).items())
