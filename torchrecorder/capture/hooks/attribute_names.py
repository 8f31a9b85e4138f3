"""AttributeNames: names for tensors in attributes of running modules (also in lists and objects),
in variables of the script or notebook, and in the state of optimizers."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module, Parameter
from torch.optim import Optimizer

from torchrecorder.capture.hooks.call_names import name_of_call
from torchrecorder.capture.hooks.source import first_local
from torchrecorder.capture.module_registry import ModuleRegistry
from torchrecorder.capture.module_tree import NamedModule, named_modules, tensor_dicts_of
from torchrecorder.capture.tensors.argument_objects import (
    MAX_ATTRIBUTE_DEPTH, MAX_DEPTH, MAX_VARIABLE_DEPTH, ObjectPlaces, SearchLimit, attributes,
    places_in,
)
from torchrecorder.capture.tensors.entries import Entry, TensorNames
from torchrecorder.events import ModuleId, Role, ScopeKind, SourceLine, ValueId
from torchrecorder.graph.nodes import Value

_PathsById = dict[int, tuple["weakref.ref[Any]", str]]
"""Objects with their paths, by ``id()``."""

_DATASET = "dataset"
_OF_PYTORCH = frozenset(vars(Module()))
_OF_IPYTHON = frozenset(("In", "Out"))


class AttributeNames(TensorNames):
    """Finds the name and role of a tensor of unknown origin."""

    def __init__(self, registry: ModuleRegistry) -> None:
        self.tape = registry.tape
        self.registry = registry
        self._limit = SearchLimit()  # of the whole run
        self._globals: Mapping[str, Any] = {}
        self._models, self._moved = _Searched(), _Searched()
        self._dataset = _Searched(MAX_DEPTH)  # datasets may contain others
        self._optimizer: weakref.ref[Optimizer] | None = None
        self._state: _PathsById = {}
        self._held: dict[ModuleId, _PathsById] = {}
        self._begun = 0  # the number of events when the step began
        self._with_names: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def enter(self, frame: FrameType) -> None:
        """Use the global variables of *frame*, which enters the recorder, if it is no function.

        The variables of a function are not read, because Python would keep their values alive.
        """
        if not frame.f_code.co_flags & inspect.CO_NEWLOCALS:
            self._globals = frame.f_globals

    def step_of(self, optimizer: Optimizer) -> None:
        """Search the state of *optimizer*, whose step begins, for tensors of unknown origin."""
        self._optimizer, self._state = weakref.ref(optimizer), {}
        self._begun = len(self.tape.events)

    def step_ended(self, optimizer: Optimizer) -> None:
        """Name the values of state that the step of *optimizer* has made; its later values have
        these names too. The constants that it has updated are parameters."""
        if self._with_names.get(optimizer) == len(optimizer.state):
            return
        self._with_names[optimizer] = len(optimizer.state)
        entries, made = self.registry.values.entries, dict[int, Entry]()
        for group in optimizer.param_groups:
            for weight in group["params"]:
                self.registry.values.early_reads.train(weight)
        for ref, name in self._places_of_state(optimizer).values():
            entry = entries.get(id(ref()))
            if entry is not None and entry.role is Role.INNER and not entry.names:
                entry.names = (name,)
                made[entry.storage.number] = entry
        for row in self.tape.events[self._begun :] if made else ():
            if type(row) is Value and row.storage in made and not row.names:
                entry = made[row.storage]
                tensor = entry()
                if tensor is not None and row.shape == tuple(tensor.shape):
                    self.tape.write(row.replace(names=entry.names))

    def of(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor*, or None.

        Searched in this order: attributes of running modules; arguments and variables of the
        outermost call; objects in attributes of running modules; state of the last optimizer;
        variables of the script; the dataset of a running data loader; objects in variables; the
        module that is being moved, copied or saved.
        """
        known = self.of_running(tensor) or self.registry.places.of(tensor)
        if known is not None:
            return known
        held = self.in_objects(tensor)
        if held:
            return _role_of(tensor), held[0]
        state = self._of_state(tensor)
        if state is not None:
            return Role.CONSTANT, state
        return (
            self._variable(tensor) or self._in_dataset(tensor) or self._in_variables(tensor)
            or self._in_moved(tensor)
        )

    def in_objects(self, tensor: Tensor) -> tuple[str, ...]:
        """The name of *tensor* in an object that a running module has, or one that FSDP prepares;
        else an empty tuple."""
        for prefix, module in [*self._running()] or self._being_sharded():
            inside = self._inside(module, tensor)
            if inside is not None:
                return (prefix + inside,)
        return ()

    def of_running(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The role and name of *tensor* as parameter, buffer or attribute of a running module."""
        for prefix, module in self._running():
            for role, held in tensor_dicts_of(module):
                for name, item in held.items():
                    if item is tensor:
                        return role, f"{prefix}{name}"
        return None

    def _in_dataset(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The path of *tensor* in the dataset of the running data loader."""
        running = self._given_to(ScopeKind.DATA_LOADER)
        if running is None:
            return None
        held = {key.strip("_"): value for key, value in attributes(running)}
        return self._dataset.of(tensor, {_DATASET: held.get(_DATASET)})

    def _in_moved(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The path of *tensor* in the module that is being moved, copied or saved."""
        running = self._given_to(ScopeKind.TRANSFER)
        return self._moved.of(tensor, {"": running}) if isinstance(running, Module) else None

    def _given_to(self, kind: ScopeKind) -> object:
        """The first argument of the function that runs in the innermost region, if it is a region
        of this *kind*; else None."""
        frame = self.tape.stack[-1].key if self.tape.stack else None
        if isinstance(frame, FrameType) and self.tape.stack[-1].event.kind is kind:
            return first_local(frame)
        return None

    def _of_state(self, tensor: Tensor) -> str | None:
        """The path of *tensor* in the state of the optimizer, such as ``0.weight.exp_avg``."""
        if self._optimizer is None:
            self._find_running_step()
        optimizer = self._optimizer() if self._optimizer is not None else None
        if optimizer is not None and not self._state:
            self._state = self._places_of_state(optimizer)
        known = self._state.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def _places_of_state(self, optimizer: Optimizer) -> _PathsById:
        """The tensors in the state of *optimizer* with their paths, by ``id()``."""
        entries, places = self.registry.values.entries, _PathsById()
        for weight, held in optimizer.state.items():
            entry = entries.get(id(weight))
            name = entry.names[0] if entry is not None and entry.names else ""
            for place, found in places_in([(name, held)], MAX_ATTRIBUTE_DEPTH):
                places[id(found)] = weakref.ref(found), place
        return places

    def _find_running_step(self) -> None:
        """Find the optimizer of a step that began before the recording, in the frame that runs it.
        """
        for opened in self.tape.stack:
            if opened.event.kind is ScopeKind.OPTIMIZER and isinstance(opened.key, FrameType):
                optimizer = next(iter(opened.key.f_locals.get("args", ())), None)
                if isinstance(optimizer, Optimizer):
                    self.step_of(optimizer)

    def _running(self) -> Iterator[tuple[str, Module]]:
        """The running modules, innermost first, with the prefix of names in each."""
        for opened in reversed(self.tape.stack):
            module = self.registry.module(opened.event.module)
            if module is not None:
                yield f"{opened.event.path}." if opened.event.path else "", module

    def _being_sharded(self) -> Iterator[tuple[str, Module]]:
        """The registered module that FSDP prepares before its call, as ``no_sync`` does."""
        known = self.registry.entries.get(id(self._given_to(ScopeKind.SHARDING)))
        module = known.ref() if known is not None else None
        if known is not None and module is not None:
            yield f"{known.names[0]}." if known.names and known.names[0] else "", module

    def _variable(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The variable of the script that is *tensor*, also when the run has searched enough."""
        named = (name for name, value in self._public().items() if value is tensor)
        name = next(named, None)
        return (_role_of(tensor), name) if name is not None else None

    def _in_variables(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The path of *tensor* in a variable of the script."""
        models: dict[str, Module] = {}
        for name, found in self._places(self._public(), MAX_VARIABLE_DEPTH):
            if found is tensor:
                return _role_of(tensor), name
            if isinstance(found, Module):
                models[name] = found
        return self._models.of(tensor, models)

    def _public(self) -> dict[str, Any]:
        """The public variables of the script that entered the recorder."""
        return {
            name: value
            for name, value in list(self._globals.items())
            if not name.startswith("_") and name not in _OF_IPYTHON
        }

    def living(self) -> dict[ValueId, str]:
        """The values of the tensors that exist, each with its path in the variables of the script.
        """
        entries = self.registry.values.entries
        values = {key: entry.value for key, entry in [*entries.items()] if entry() is not None}
        found = dict.fromkeys(values.values(), "")
        for name, item in self._places(self._public(), MAX_VARIABLE_DEPTH) if values else ():
            value = values.get(id(item))
            if value is not None and not found[value]:
                found[value] = name
        return found

    def of_module(
        self, module: Module, frame: FrameType | None, source: SourceLine | None
    ) -> NamedModule | None:
        """*module* with its name in the call that *frame* makes; or a model in a variable of the
        script that contains it, with the name of the variable; or None."""
        called = name_of_call(module, frame, source)
        models = {
            name: value for name, value in self._public().items() if issubclass(type(value), Module)
        }
        named = [name for name, model in models.items() if model is module]
        if named:
            return NamedModule(module, called if called in named else named[0])
        for name, model in models.items() if self._limit.left > 0 else ():
            inside = {id(item) for _, item in named_modules(model)}
            self._limit.left -= len(inside)
            if id(module) in inside:
                return NamedModule(model, name)
        return NamedModule(module, called) if called is not None else None

    def inner(
        self, module: Module, frame: FrameType | None, source: SourceLine | None
    ) -> NamedModule | None:
        """*module* with its path if the innermost running module has registered it during the run,
        or in a list, dict or object of a running module: ``heads.a``; or with its name in the call
        that *frame* makes."""
        found = self._registered(module)
        if found is not None:
            return found
        for prefix, running in self._running():
            inside = self._inside(running, module)
            if inside is not None:
                return NamedModule(module, prefix + inside)
        called, (prefix, _) = name_of_call(module, frame, source), next(self._running(), ("", None))
        return NamedModule(module, prefix + called) if called is not None else None

    def _registered(self, module: Module) -> NamedModule | None:
        """*module* with its path if it is a submodule of the innermost running module."""
        prefix, running = next(self._running(), ("", None))
        if running is None or self._limit.left <= 0:
            return None
        for path, found in named_modules(running):
            self._limit.left -= 1
            if found is module:
                in_model = self.registry.entries[id(running)].in_model
                return NamedModule(module, prefix + path, in_model)
        return None

    def _inside(self, holder: Module, wanted: Tensor | Module) -> str | None:
        """The path of *wanted* in the lists, dicts and objects of *holder*, which are searched
        again only for what was not there before."""
        found = self._held.setdefault(self.registry.entries[id(holder)].module, {})
        known = found.get(id(wanted))
        if known is None or known[0]() is not wanted:
            found.clear()
            for name, item in self._places(vars(holder), MAX_ATTRIBUTE_DEPTH):
                found.setdefault(id(item), (weakref.ref(item), name))
            known = found.get(id(wanted))
        return known[1] if known is not None else None

    def _places(
        self, holder: Mapping[str, Any], deepest: int
    ) -> Iterator[tuple[str, Tensor | Module]]:
        """The tensors and modules in *holder*, with paths, up to the limit of the run."""
        held = [(str(key), value) for key, value in holder.items() if key not in _OF_PYTORCH]
        return places_in(held, deepest, self._limit)


def _role_of(tensor: Tensor) -> Role:
    """The role of a tensor that no module has registered."""
    return Role.PARAMETER if isinstance(tensor, Parameter) else Role.CONSTANT


class _Searched:
    """Paths in objects; the objects are searched again only if others are given."""

    def __init__(self, deepest: int = MAX_VARIABLE_DEPTH) -> None:
        self._deepest = deepest
        self._objects: dict[str, int] = {}
        self._places = ObjectPlaces([])

    def of(self, tensor: Tensor, objects: Mapping[str, Any]) -> tuple[Role, str] | None:
        """The role and path of *tensor* in *objects*; without objects, in the previous ones."""
        now = {name: id(item) for name, item in objects.items()}
        if now and now != self._objects:
            self._objects = now
            self._places = ObjectPlaces([], [*objects.items()], self._deepest)
        return self._places.of(tensor)
