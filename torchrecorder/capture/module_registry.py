"""ModuleRegistry: the modules of a run, with their names, parameters and buffers."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor
from torch.nn import Module, Parameter

from torchrecorder.capture.internals.access import is_wrapped
from torchrecorder.capture.live_modules import StandIn, detail_of, plain_detail, stand_in
from torchrecorder.capture.module_tree import (
    ClassFacts, NamedModule, TensorsByName, is_uninitialized, is_uninitialized_tensor, module_facts,
    named_modules, parameters_and_buffers,
)
from torchrecorder.capture.state.restore import random_state_kept
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.argument_objects import ObjectPlaces
from torchrecorder.capture.tensors.describe import innermost, is_leaf
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import ModuleId, Role, ScopeKind, Slot, ValueId, new_tuple
from torchrecorder.graph import nodes

_MAX_NAMES = 16
"""The maximum number of names of a shared module or tied tensor."""


def no_name() -> None:
    """Returns None, as a search for a name that finds none."""


@dataclass(eq=False, slots=True)
class RegisteredModule:
    """A module of the run."""

    in_model: bool  # whether it is part of the recorded model
    ref: weakref.ref[Module]
    module: ModuleId
    facts: ClassFacts
    names: list[str] = field(default_factory=list)  # its dotted paths; several if it is shared
    calls: int = 0  # the number of its calls
    written: bool = False  # whether its event is written
    stand_in: StandIn | None = None  # replaces the module in a recording when it no longer exists

    def count_call(self) -> int:
        """Count a call, and return its number, from 0."""
        self.calls = calls = self.calls + 1
        return calls - 1


class ModuleRegistry:
    """The modules of the model *root*, and all other modules that the run calls."""

    def __init__(self, tape: Tape, values: TensorTable, root: Module | None, name: str) -> None:
        self.tape = tape
        self.values = values
        self.name = name
        self.entries: dict[int, RegisteredModule] = {}
        self.numbers: dict[ModuleId, RegisteredModule] = {}
        self._classes: dict[type[Module], ClassFacts] = {}
        self._shapeless: dict[int, ValueId] = {}  # lazy parameters before their initialization
        self._held: dict[int, tuple[Entry, ValueId]] = {}  # first values of parameters and buffers
        self._undescribed: list[tuple[weakref.ref[Module], nodes.Module]] = []
        self._paths: dict[str, int] = {}  # how many modules were given each path in the run
        # finds modules in the arguments and variables of the outermost call
        self.places = ObjectPlaces([])
        self._running = False
        if root is not None:
            with tape.survives_errors("names of modules"):
                self._add_tree(NamedModule(root, "", in_model=True))
                self._describe()
        self._running = True

    def shared(self, tape: Tape, values: TensorTable) -> ModuleRegistry:
        """A registry of the same modules, for another recorded thread."""
        registry = ModuleRegistry(tape, values, None, self.name)
        registry.entries, registry.numbers = self.entries, self.numbers
        registry._paths, registry._held = self._paths, self._held
        return registry

    def _add_tree(self, root: NamedModule) -> None:
        """Add *root*, and its submodules, in the order of ``named_modules()``.

        If *root* wraps the recorded model, the modules of the model keep their names.
        """
        ends_at = self._is_in_model if self._running else None
        found = list(named_modules(root.module, root.path, ends_at))
        for path, module in found:
            entry = self._known(module) or self._new(module, root.in_model)
            if len(entry.names) < _MAX_NAMES and path not in entry.names:
                entry.names.append(path)
                self._paths[path] = self._paths.get(path, 0) + 1
            prefix = f"{path}." if path else ""
            for role, held in parameters_and_buffers(module):
                self._name_tensors(prefix, role, held)
        for module in {id(module): module for _, module in found}.values():
            if not is_uninitialized(module):
                self._write(self.entries[id(module)], module)

    def _name_tensors(self, prefix: str, role: Role, held: TensorsByName) -> None:
        """Add the names of parameters or buffers; a tied one has several."""
        named = self.values.named
        for name, tensor in held.items():
            if isinstance(tensor, Tensor):
                tensor = innermost(tensor)
                if not self._owns(role, tensor):
                    continue
                full, known = prefix + name, self.values.name_of(tensor)
                if known is None:
                    named[id(tensor)] = weakref.ref(tensor), role, (full,)
                elif len(known[1]) < _MAX_NAMES and full not in known[1]:
                    named[id(tensor)] = named[id(tensor)][0], known[0], (*known[1], full)

    def _new(self, module: Module, in_model: bool = False) -> RegisteredModule:
        cls = type(module)
        facts = self._classes.get(cls)
        if facts is None:
            facts = module_facts(module)
            if facts.kind is ScopeKind.MODULE:
                self._classes[cls] = facts
        number = self.tape.next_module()
        entry = RegisteredModule(in_model, weakref.ref(module), number, facts)
        self.entries[id(module)] = entry
        self.numbers[entry.module] = entry
        return entry

    def written(self, module: Module) -> RegisteredModule | None:
        """The entry of *module* if its event is written, after names for tensors that it got since
        then; else None."""
        entry = self._known(module)
        if entry is None or not entry.written:
            return None
        if module._parameters:
            self._name_new_tensors(entry, module._parameters)
        if module._buffers:
            self._name_new_tensors(entry, module._buffers)
        return entry

    def find(
        self, module: Module, name: Callable[[], NamedModule | None] = no_name
    ) -> RegisteredModule:
        """The entry of *module*, which is added if it is new.

        If nothing else names a new module, *name* is called: it returns the module, or one that
        contains it, with the name of that in the program.
        """
        entry = self.written(module)
        if entry is not None:
            return entry
        entry, in_construction = self._known(module), self._in_construction()
        if entry is not None and (entry.names or in_construction):
            return entry
        place = self.places.of(module)
        found = name() if place is None else NamedModule(module, place[1])
        if found is None and module._modules and not in_construction:
            found = NamedModule(module, type(module).__name__)
        if found is not None:
            self._add_tree(found._replace(path=self._numbered(found.path)))
            return self.entries[id(module)]
        entry = entry or self._new(module)
        if not in_construction and not is_uninitialized(module):
            self._write(entry, module)
        return entry

    def _in_construction(self) -> bool:
        """Whether the ``__init__`` of a module runs: it may register the module that is called,
        which then gets its name from there."""
        return any(opened.event.kind is ScopeKind.CONSTRUCTION for opened in self.tape.stack)

    def _is_in_model(self, module: Module) -> bool:
        entry = self._known(module)
        return entry is not None and entry.in_model

    def _known(self, module: Module) -> RegisteredModule | None:
        entry = self.entries.get(id(module))
        return entry if entry is not None and entry.ref() is module else None

    def _numbered(self, path: str) -> str:
        """*path*, with a number if another module has it."""
        number, free = self._paths.get(path, 0), path
        while free in self._paths:
            free, number = f"{path}_{number}", number + 1
        self._paths[path] = number
        return free

    def module(self, number: ModuleId | None) -> Module | None:
        """The module with this id, if it still exists."""
        entry = self.numbers.get(number) if number is not None else None
        return entry.ref() if entry is not None else None

    def references(self) -> dict[ModuleId, tuple[weakref.ref[Module], StandIn | None]]:
        """A weak reference and a stand-in for each module."""
        return {number: (entry.ref, entry.stand_in) for number, entry in self.numbers.items()}

    def clear(self) -> None:
        """Remove all modules."""
        self.entries.clear()
        self.numbers.clear()
        self._held.clear()

    def path(
        self, entry: RegisteredModule, parent: str, around: ModuleId | None
    ) -> tuple[str, str]:
        """The dotted path of a module, and its path relative to *parent*, the path of the module
        *around* that calls it; relative to what is around the innermost module that has both, if
        it is elsewhere: ``attn.lora.down`` in ``blocks.3.attn.norm``."""
        if not entry.names:
            return "", entry.facts.name
        path, prefix = entry.names[0], f"{parent}." if parent else ""
        if not path.startswith(prefix):
            below = (name for name in entry.names if name.startswith(prefix))
            path = next(below, None) or self._moved(path, prefix, around)
        if not path.startswith(prefix):
            same = len(os.path.commonprefix([path.split("."), parent.split(".")]))
            return path, ".".join(path.split(".")[max(same - 1, 0):]) or self.name
        return path, path.removeprefix(prefix) or self.name

    def _moved(self, path: str, prefix: str, around: ModuleId | None) -> str:
        """*path* with *prefix*, if the module *around* is shared: paths of its submodules begin
        with the first of its own paths."""
        holder = self.numbers.get(around) if around is not None else None
        for place in holder.names if holder is not None else ():
            if path.startswith(f"{place}."):
                return prefix + path.removeprefix(f"{place}.")
        return path

    def begin(self, module: Module) -> None:
        """Before a call of *module*, add its parameters and buffers if some are lazy: the call
        initializes these, and may write to the others, such as a count of batches."""
        held = [one for _, held in parameters_and_buffers(module) for one in held.values()]
        lazy = [one is not None and is_uninitialized_tensor(one) for one in held]
        for tensor, shapeless in zip(held, lazy if any(lazy) else ()):
            value = self.values.read(tensor) if tensor is not None else None
            if value is None:
                continue
            if shapeless:
                self._shapeless[id(tensor)] = value
            elif entry := self.values.entries.get(id(tensor)):
                self._held[id(tensor)] = entry, value

    def complete(self, module: Module) -> None:
        """After a call, write *module* if the call has initialized its lazy parameters."""
        entry = self.entries.get(id(module))
        if entry is not None and not entry.written and not self._in_construction():
            self._write(entry, module)

    def finish(self) -> None:
        """At the end of the run, write the remaining modules, and the names of new buffers."""
        for entry in list(self.entries.values()):
            module = entry.ref()
            if module is None:
                continue
            if not entry.written:
                self._write(entry, module)
            elif module._buffers:
                self._name_new_tensors(entry, module._buffers)
        self._describe()

    def _write(self, entry: RegisteredModule, module: Module) -> None:
        detail = plain_detail(module)
        row = nodes.Module(
            entry.module,
            tuple(entry.names),
            entry.facts.name,
            entry.facts.qualname,
            detail or "",
            self._slots(module._parameters, Role.PARAMETER),
            self._slots(module._buffers, Role.BUFFER),
            _is_training(module, entry.facts.kind),
            (),
            not entry.in_model,
        )
        entry.stand_in = stand_in(module)
        self.tape.write(row)
        if detail is None:
            self._undescribed.append((entry.ref, row))
        entry.written = True

    def _describe(self) -> None:
        """Call ``extra_repr()`` of the user's classes; never while the model runs, because it may
        draw random numbers or call modules."""
        if self._undescribed:
            with random_state_kept():
                for ref, row in self._undescribed:
                    module = ref()
                    if module is not None:
                        self.tape.write(row.replace(detail=detail_of(module)))
            self._undescribed.clear()

    def _slots(self, held: TensorsByName, role: Role) -> tuple[Slot, ...]:
        values, slots = self.values, []
        entries, running = values.entries, self._running
        for name, tensor in held.items():
            if not isinstance(tensor, Tensor) or is_uninitialized_tensor(tensor):
                continue
            wrapped = is_wrapped(tensor)
            if wrapped and isinstance(inside := innermost(tensor), Parameter):
                tensor, wrapped = inside, False  # ``functional_call`` under ``torch.func.grad``
            key = id(tensor)
            value = shapeless = self._shapeless.get(key) if self._shapeless else None
            if shapeless is not None:
                self._set_shape(tensor, role, shapeless, name)
            elif key in entries or wrapped:
                value = self._first_value(tensor)
                value = value or values.early_reads.name(tensor, role, self._names(tensor, name))
                value = value or values.peek(tensor)
            if value is None and running:
                value = values.alias_of_known(tensor)
            if value is not None:
                if shapeless is None:
                    self._rename(tensor, role, name, value)
            elif running and not self._owns(role, innermost(tensor)):
                value = values.read(tensor)
            else:
                value = values.add_held(tensor, role, name)
            if key in entries:
                self._held[key] = entries[key], value
            slots.append(new_tuple(Slot, (name, value)))
        return tuple(slots)

    def _first_value(self, tensor: Tensor) -> ValueId | None:
        """The value of *tensor* when a module was written with it, before any in-place writes."""
        entry, value = self._held.get(id(tensor), (None, None))
        return value if entry is not None and entry is self.values.entries.get(id(tensor)) else None

    def _name_new_tensors(self, entry: RegisteredModule, held: TensorsByName) -> None:
        """Name the parameters or buffers *held* that were assigned to a module since it was
        written, such as an average that each call replaces, or a weight that FSDP has gathered."""
        values = self.values
        for name, tensor in held.items():
            known = values.entries.get(id(tensor))
            if known is None or known.names or known.role is not Role.INNER:
                continue
            assert tensor is not None  # it has an entry
            gathered = known.scope in self.tape.sharding
            if (tensor.is_leaf or gathered) and self._first_value(tensor) is None:
                paths = (f"{path}.{name}" if path else name for path in entry.names)
                known.names = tuple(paths) or (name,)
                known.requires_grad = tensor.requires_grad
                made_by = known.producer if gathered else None
                node = values.autograd.edge_of(tensor, made_by) if made_by is not None else None
                values.record_again(tensor, known, node)

    def _rename(self, tensor: Tensor, role: Role, name: str, held: ValueId) -> None:
        """Update role and names of *tensor*, which the run created or which had other names; only
        the names if it was written since it had the value *held*, which has the role."""
        entry, names = self.values.entries.get(id(tensor)), self._names(tensor, name)
        if entry is None or entry.names == names or not self._owns(role, tensor):
            return
        if entry.value != held:
            entry.names = names
        elif entry.role is role or entry.role is Role.INNER and not entry.names:
            entry.role, entry.names, entry.requires_grad = role, names, tensor.requires_grad
        else:
            return
        self.values.record_again(tensor, entry, None)

    def _owns(self, role: Role, tensor: Tensor) -> bool:
        """Whether *tensor* belongs to the module that holds it: what was computed for a call, as
        for ``functional_call``, does not. Buffers may be computed, without gradients."""
        if tensor.requires_grad:
            return is_leaf(tensor)
        entry = self.values.entries.get(id(tensor))
        made_here = entry is not None and entry.role is Role.INNER
        return role is Role.BUFFER or not made_here or isinstance(tensor, Parameter)

    def _names(self, tensor: Tensor, name: str) -> tuple[str, ...]:
        """The full names of *tensor*; (*name*,), that in its module, if it has none."""
        known = self.values.name_of(tensor)
        return known[1] if known is not None else (name,)

    def _set_shape(self, tensor: Tensor, role: Role, value: ValueId, name: str) -> None:
        """Write the value of a lazy parameter again, after its initialization."""
        entry = self.values.entries[id(tensor)]
        if not entry.names:  # it was added at the call of its module
            entry.names = self._names(tensor, name)
            self.values.record_again(tensor, entry, None)
        now = entry.value, entry.role, entry.producer, entry.requires_grad
        entry.value, entry.role, entry.producer = value, role, None
        entry.requires_grad = tensor.requires_grad
        self.values.record_again(tensor, entry, None)
        entry.value, entry.role, entry.producer, entry.requires_grad = now


def _is_training(module: Module, kind: ScopeKind) -> bool:
    """``training`` of *module*; scripted modules keep it in C++, and frozen ones have none."""
    if kind is ScopeKind.SCRIPTED:
        return bool(getattr(module, "training", False))
    return bool(vars(module).get("training", False))
