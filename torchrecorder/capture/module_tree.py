"""Traversal of the submodules of a module, and of their tensors; facts about classes of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES, compiled_from
from torchrecorder.capture.modes.python_functions import positional_parameters, uncounted
from torchrecorder.events import Role, ScopeKind

TensorsByName = Mapping[str, "Tensor | None"]
"""The parameters or buffers of a module, without its children."""


class NamedModule(NamedTuple):
    """A module and its dotted path.

    Attributes:
        in_model: Whether it is part of the recorded model.
    """

    module: Module
    path: str
    in_model: bool = False


class ClassFacts(NamedTuple):
    """Names and kind of a class of modules."""

    name: str
    qualname: str
    kind: ScopeKind
    arguments: tuple[str, ...]  # positional parameters of ``forward``


def module_facts(module: Module) -> ClassFacts:
    """The facts about the class of *module*.

    A compiled module has the name and arguments of the module inside, and a scripted one the name
    of the class that it was made from.
    """
    facts, inside = _class_facts(type(module)), compiled_from(module)
    if facts.kind is ScopeKind.COMPILED and inside is not module:
        own = module_facts(inside)
        return facts._replace(name=own.name, arguments=own.arguments)
    if isinstance(module, torch.jit.ScriptModule):
        return facts._replace(name=str(module.original_name))
    return facts


def _class_facts(cls: type[Module]) -> ClassFacts:
    kind = ScopeKind.MODULE
    if issubclass(cls, torch.jit.ScriptModule):
        kind = ScopeKind.SCRIPTED
    elif cls.__name__ == "OptimizedModule":
        kind = ScopeKind.COMPILED
    arguments = positional_parameters(getattr(cls, "forward", None))[1:]
    qualname = uncounted(f"{cls.__module__}.{cls.__qualname__}")
    return ClassFacts(cls.__name__, qualname, kind, arguments)


def parameters_and_buffers(module: Module) -> tuple[tuple[Role, TensorsByName], ...]:
    """The parameters and the buffers of *module*, without its children."""
    return (Role.PARAMETER, module._parameters), (Role.BUFFER, module._buffers)


def tensor_dicts_of(module: Module) -> tuple[tuple[Role, Mapping[str, Any]], ...]:
    """The parameters, buffers and attributes of *module* itself, each dict with its role."""
    return *parameters_and_buffers(module), (Role.CONSTANT, vars(module))


def named_modules(
    root: Module, name: str = "", ends_at: Callable[[Module], bool] | None = None
) -> Iterator[tuple[str, Module]]:
    """Every path to *root* and its submodules; unlike PyTorch's, all paths of a shared module.

    The submodules of a shared module are listed once. Modules that *ends_at* accepts are left out,
    with their submodules.
    """
    stack: list[tuple[str, Module]] = [(name, root)]
    seen: set[int] = set()
    while stack:
        path, module = stack.pop()
        if ends_at is not None and ends_at(module):
            continue
        yield path, module
        if id(module) in seen:
            continue
        seen.add(id(module))
        prefix = f"{path}." if path else ""
        for name, child in reversed(module._modules.items()):
            if child is not None:
                stack.append((prefix + name, child))


def parameters_in(module: Module) -> list[Parameter]:
    """The parameters of *module* and its submodules, also if its class has no ``__hash__``, without
    which ``parameters()`` raises an error. A shared one occurs several times."""
    held = (item for _, part in named_modules(module) for item in part._parameters.values())
    return [item for item in held if item is not None]


def weights_of(module: Module) -> list[tuple[str, Tensor]]:
    """The initialized parameters and buffers of *module* and its submodules, by dotted path."""
    return [
        (f"{path}.{name}" if path else name, tensor)
        for kind in ("_parameters", "_buffers")
        for path, part in named_modules(module)
        for name, tensor in getattr(part, kind).items()
        if tensor is not None and not is_lazy(tensor)
    ]


def is_uninitialized(module: Module) -> bool:
    """Whether *module* is a lazy module with uninitialized parameters or buffers."""
    held = (*module._parameters.values(), *module._buffers.values())
    return any(map(is_uninitialized_tensor, held))


def is_uninitialized_tensor(tensor: Any) -> bool:
    """Whether *tensor* is a lazy parameter or buffer without a shape."""
    return type(tensor) not in PLAIN_TENSOR_TYPES and is_lazy(tensor)
