"""Catalog: which modules there are, what they are called, what they hold."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy

from torchrecorder.events import ModuleId, ModuleSeen, Role, ScopeKind, Slot, ValueId, made

if TYPE_CHECKING:
    from torchrecorder.capture.tape import Tape
    from torchrecorder.capture.values import Values

_Held = list[tuple[Role, list[tuple[str, Tensor]]]]
"""The parameters and the buffers that a module itself holds."""

_MOST_NAMES = 16
_USUAL = (Tensor, Parameter)


class ClassFacts(NamedTuple):
    """What all modules of one class have in common."""

    name: str
    qualname: str
    kind: ScopeKind
    arguments: tuple[str, ...]  # positional parameters of ``forward``


class CatalogEntry:
    """One module: its id, its names, how often it was called."""

    __slots__ = (
        "ref",
        "module",
        "names",
        "cls",
        "qualname",
        "kind",
        "arguments",
        "calls",
        "stated",
    )

    def __init__(self, module: Module, number: ModuleId, facts: ClassFacts) -> None:
        self.ref = weakref.ref(module)
        self.module = number
        self.names: list[str] = []
        self.cls, self.qualname, self.kind, self.arguments = facts
        self.calls = 0
        self.stated = False

    def count_call(self) -> int:
        """The number of this call, counted from 0."""
        self.calls = calls = self.calls + 1
        return calls - 1


class Catalog:
    """Every module of the model, and those met besides.

    Args:
        root: The recorded model; its parameters and buffers get their dotted names.
    """

    def __init__(self, tape: Tape, values: Values, root: Module | None, name: str) -> None:
        self.tape = tape
        self.values = values
        self.name = name
        self.entries: dict[int, CatalogEntry] = {}
        self.numbers: dict[ModuleId, CatalogEntry] = {}
        self._classes: dict[type[Module], ClassFacts] = {}
        self._shapeless: dict[int, ValueId] = {}  # what lazy parameters were at first
        if root is not None:
            self._enter_all(root)

    def _enter_all(self, root: Module) -> None:
        """Number and name *root* and all below it, in the order of ``named_modules()``."""
        found = [(path, module, _holdings(module)) for path, module in named_modules(root)]
        for path, module, _ in found:
            entry = self.entries.get(id(module)) or self._new(module)
            if len(entry.names) < _MOST_NAMES:
                entry.names.append(path)
        self._name_tensors(found)
        for _, module, held in found:
            entry = self.entries[id(module)]
            if not entry.stated and not _waits(held):
                self._state(entry, module, held)

    def _name_tensors(self, modules: list[tuple[str, Module, _Held]]) -> None:
        """Give parameters and buffers their names; a tied one has several."""
        named = self.values.named
        for path, _, held in modules:
            prefix = f"{path}." if path else ""
            for role, own in held:
                for name, tensor in own:
                    full, known = prefix + name, named.get(id(tensor))
                    if known is None:
                        named[id(tensor)] = weakref.ref(tensor), role, (full,)
                    elif len(known[2]) < _MOST_NAMES and full not in known[2]:
                        named[id(tensor)] = *known[:2], (*known[2], full)

    def _new(self, module: Module) -> CatalogEntry:
        cls = type(module)
        facts = self._classes.get(cls)
        if facts is None:
            facts = self._classes[cls] = _of_class(cls)
        entry = CatalogEntry(module, self.tape.next_module(), facts)
        self.entries[id(module)] = entry
        self.numbers[entry.module] = entry
        return entry

    def find(self, module: Module) -> CatalogEntry:
        """The entry of *module*, made if it was never met."""
        entry = self.entries.get(id(module))
        if entry is None or entry.ref() is not module:
            entry = self._new(module)
            held = _holdings(module)
            if not _waits(held):
                self._state(entry, module, held)
        return entry

    def module(self, number: ModuleId | None) -> Module | None:
        """The module with this id, while it lives."""
        entry = self.numbers.get(number) if number is not None else None
        return entry.ref() if entry is not None else None

    def living(self) -> Iterator[tuple[ModuleId, Module]]:
        """The modules that still exist."""
        for number, entry in self.numbers.items():
            module = entry.ref()
            if module is not None:
                yield number, module

    def path(self, entry: CatalogEntry, parent: str) -> tuple[str, str]:
        """Dotted path and short name of a module called from the module at *parent*."""
        if not entry.names:
            return "", entry.cls
        path, prefix = entry.names[0], f"{parent}." if parent else ""
        if len(entry.names) > 1:
            path = next((name for name in entry.names if name.startswith(prefix)), path)
        return path, path.removeprefix(prefix) or self.name

    def begin(self, entry: CatalogEntry, module: Module) -> None:
        """A call begins; parameters that take shape in it are values already."""
        if not entry.stated:
            for _, own in _holdings(module):
                for _, tensor in own:
                    if _is_lazy(tensor):
                        self._shapeless[id(tensor)] = self.values.read(tensor)

    def complete(self, module: Module) -> None:
        """State a module whose parameters took shape during its first call."""
        entry = self.entries.get(id(module))
        if entry is not None and not entry.stated:
            self._state(entry, module, _holdings(module))

    def finish(self) -> None:
        """The run ends: state what is still unsaid."""
        for entry in list(self.entries.values()):
            module = entry.ref()
            if not entry.stated and module is not None:
                self._state(entry, module, _holdings(module))

    def _state(self, entry: CatalogEntry, module: Module, held: _Held) -> None:
        entry.stated = True
        slots = {role: self._slots(own, role) for role, own in held}
        event = (
            entry.module,
            tuple(entry.names),
            entry.cls,
            entry.qualname,
            _detail(module),
            slots.get(Role.PARAMETER, ()),
            slots.get(Role.BUFFER, ()),
            bool(getattr(module, "training", False)),  # a frozen script has no mode
        )
        self.tape.write(made(ModuleSeen, event))

    def _slots(self, tensors: list[tuple[str, Tensor]], role: Role) -> tuple[Slot, ...]:
        slots = []
        for name, tensor in tensors:
            if not _is_lazy(tensor):
                value = self._shapeless.get(id(tensor))
                if value is not None:
                    self._shape(tensor, role, value)
                else:
                    value = self.values.peek(tensor)
                if value is None:
                    names = self.values.named.get(id(tensor))
                    value = self.values.note(tensor, None, role, names[2] if names else (name,))
                slots.append(made(Slot, (name, value)))
        return tuple(slots)

    def _shape(self, tensor: Tensor, role: Role, value: ValueId) -> None:
        """State again what a lazy parameter was at first, now that it has a shape."""
        entry = self.values.entries[id(tensor)]
        now = entry.value, entry.role, entry.producer, entry.requires_grad
        entry.value, entry.role, entry.producer = value, role, None
        entry.requires_grad = tensor.requires_grad
        self.values.restate(tensor, entry, None)
        entry.value, entry.role, entry.producer, entry.requires_grad = now

    def attribute(self, module: Module, tensor: Tensor) -> tuple[Role, str] | None:
        """Where *module* itself holds *tensor*, if it does."""
        for role, found in (
            (Role.PARAMETER, module.__dict__.get("_parameters")),
            (Role.BUFFER, module.__dict__.get("_buffers")),
            (Role.CONSTANT, module.__dict__),
        ):
            for name, each in (found or {}).items():
                if each is tensor:
                    return role, str(name)
        return None


def _of_class(cls: type[Module]) -> ClassFacts:
    kind = ScopeKind.MODULE
    if issubclass(cls, torch.jit.ScriptModule):
        kind = ScopeKind.SCRIPTED
    elif cls.__name__ == "OptimizedModule":
        kind = ScopeKind.COMPILED
    forward = getattr(cls, "forward", None)
    code = getattr(inspect.unwrap(forward), "__code__", None) if forward is not None else None
    arguments = () if code is None else code.co_varnames[1 : code.co_argcount]
    return ClassFacts(cls.__name__, f"{cls.__module__}.{cls.__qualname__}", kind, arguments)


def named_modules(root: Module) -> Iterator[tuple[str, Module]]:
    """Every path to every module; what lies below a shared module is walked once."""
    stack: list[tuple[str, Module]] = [("", root)]
    seen: set[int] = set()
    while stack:
        path, module = stack.pop()
        yield path, module
        if id(module) in seen:
            continue
        seen.add(id(module))
        prefix = f"{path}." if path else ""
        for name, child in reversed(module._modules.items()):
            if child is not None:
                stack.append((prefix + name, child))


def _holdings(module: Module) -> _Held:
    found: _Held = []
    for role, held in ((Role.PARAMETER, module._parameters), (Role.BUFFER, module._buffers)):
        if held:
            own = [(name, each) for name, each in held.items() if isinstance(each, Tensor)]
            found.append((role, own))
    return found


def _waits(held: _Held) -> bool:
    """Whether they are those of a lazy module, and have no shape yet."""
    return any(_is_lazy(each) for _, own in held for _, each in own)


def _is_lazy(tensor: Tensor) -> bool:
    return type(tensor) not in _USUAL and is_lazy(tensor)


def _detail(module: Any) -> str:
    """``extra_repr()`` on one line; empty if the user's own version raises."""
    try:
        return " ".join(str(module.extra_repr()).split())
    except Exception:
        return ""
