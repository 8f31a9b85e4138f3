"""ModuleScopes: forward hooks that record calls of modules as scopes.

The hooks are global, so that they also see modules kept in plain lists or created during the run,
leave nothing on the user's modules, and keep the fast paths that check a module's own hooks. They
run for all threads; each recorder handles its own. A failed call runs only hooks with
``always_call``, without keyword arguments, which distinguishes it from a call that returned.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Container
from contextlib import ExitStack
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from torchrecorder.capture.hooks.attribute_names import AttributeNames
from torchrecorder.capture.hooks.deferred_exit import DeferredExits, DeferredExit
from torchrecorder.capture.hooks.direct_calls import DirectCalls
from torchrecorder.capture.hooks.other_threads import OtherThreads
from torchrecorder.capture.hooks.regions import Regions, mode_state
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import (
    WRAPPED_CALL_CODE,
    DisableTorchFunction,
    caller_of_module,
    current_graph_task,
    forget_keyword_mark,
    get_frame,
    has_own_hooks,
)
from torchrecorder.capture.modes.argument_names import ArgumentNames
from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.modes.fast_paths import FastPaths
from torchrecorder.capture.module_registry import ModuleRegistry
from torchrecorder.capture.module_tree import weights_of
from torchrecorder.capture.scope import Called, OpenScope
from torchrecorder.capture.tensors.alias import with_aliases, values_to_originals, with_originals
from torchrecorder.capture.tensors.argument_objects import (
    ObjectPlaces, positional_names, tensors_in_objects, variables_of,
)  # fmt: skip
from torchrecorder.capture.tensors.describe import node_behind, tensors_in
from torchrecorder.capture.tensors.entries import Foreign
from torchrecorder.events import (
    FUNCTION, OpId, ScopeKind, ScopeLeft, Slot, ValueId, made,
)  # fmt: skip

NamedTensors = list[tuple[str, Tensor]]  # each with its place in what holds it


class ModuleScopes:
    """Records every call of a module in this thread."""

    def __init__(
        self, regions: Regions, catalog: ModuleRegistry, fast: FastPaths, arguments: ArgumentNames
    ) -> None:
        self.fast = fast
        self.tape = catalog.tape
        self.values = catalog.values
        self.regions = regions
        self.catalog = catalog
        self.open: list[tuple[int, OpenScope]] = []
        self.others = OtherThreads()
        self.threads: Container[int] = ()  # the threads that are recorded together
        self.called: Called | None = None
        self.deferred_exits = regions.deferred_exits = DeferredExits(self.open, self._finish)
        self.direct = regions.direct = DirectCalls(regions.sources, catalog)
        self.names = self.values.names = AttributeNames(catalog)
        self.arguments = arguments

    def __enter__(self) -> ModuleScopes:
        with ExitStack() as stack:
            stack.callback(_remove, register_module_forward_pre_hook(self.before))
            after = register_module_forward_hook(self._after, with_kwargs=True, always_call=True)
            stack.callback(_remove, after)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._exit:
            self.fast.restore()

    # Hooks --------------------------------------------------------------------------

    def before(self, module: Module, args: tuple[Any, ...], frame: FrameType | None = None) -> None:
        """*module* is about to run; PyTorch runs its hooks in *frame*."""
        try:
            tape = self.tape
            if tape.is_elsewhere() or tape.ignores_calls:
                return
            frame = frame or get_frame(1)
            tape.pause()
            with DisableTorchFunction():
                self._enter(module, args, frame)
            tape.resume()
        except InternalWork:
            self.tape.resume()
        except Exception as error:
            self.tape.lose("modules", error)

    def _after(self, module: Module, args: tuple[Any, ...], *rest: Any) -> Any:
        try:
            if self.tape.is_elsewhere():
                self._note_foreign(module, args, rest[-1])
                return None
            if self.tape.ignores_calls:
                return None
            frame = get_frame(1)
            self.tape.pause()
            with DisableTorchFunction():
                result = self._returned(module, rest, frame)
            self.tape.resume()
            return result
        except Exception as error:
            self.tape.lose("modules", error)
            return self._abandon(module, (args, rest[:-1]), rest[-1])

    def _returned(self, module: Module, rest: tuple[Any, ...], frame: FrameType) -> Any:
        """A call is over; *rest* is keyword arguments and result, or only None if it failed."""
        failed = len(rest) == 1
        error = sys.exc_info()[1] if failed else None
        if self.deferred_exits.waiting:
            self.deferred_exits.settle(frame, error)
        if not self._is_open(module):  # its start was not recorded
            return None if self.open else with_originals(self.values, rest[-1])
        self.fast.leave(module, error)
        return self._leave(module, {} if failed else rest[0], rest[-1], failed, frame)

    def _abandon(self, module: Module, given: Any, output: Any) -> Any:
        """The instrument failed when *module* returned: close open scopes, return no alias."""
        if self.tape.is_elsewhere():
            return None
        with DisableTorchFunction(), self.tape.survives_errors("modules"):
            if self.fast.inside == id(module):
                self.fast.restore()
            if self._is_open(module):
                while self.open[-1][0] != id(module):
                    self._close(self.open[-1][1], (), failed=False)
                self._close(self.open[-1][1], (), failed=False)
                self.deferred_exits.forget_closed()
            return with_originals(self.values, output, [item for _, item in tensors_in(given)])
        return None

    def _note_foreign(self, module: Module, args: tuple[Any, ...], output: Any) -> None:
        """A module of the model ran in another thread: note where its results come from."""
        if threading.get_ident() in self.threads:
            return
        self.others.count()
        if id(module) in self.catalog.entries:
            with DisableTorchFunction():
                read = (*tensors_in(args), *weights_of(module))
                given = [(name, weakref.ref(tensor)) for name, tensor in read]
                for _, tensor in tensors_in(output):
                    foreign = Foreign(type(module).__name__, given, weakref.ref(tensor))
                    self.values.foreign[id(tensor)] = foreign

    def _is_open(self, module: Module) -> bool:
        open_ = self.open
        return bool(open_) and (
            open_[-1][0] == id(module) or any(key == id(module) for key, _ in open_)
        )

    def _enter(self, module: Module, args: tuple[Any, ...], frame: Any) -> None:
        outer = frame.f_back.f_back
        outside = outer.f_back if outer.f_code is WRAPPED_CALL_CODE else caller_of_module(frame)
        source = self.regions.locate(outside, in_pass=current_graph_task() != -1)
        self.values.autograd.find_numbering()
        around = self.regions.function
        self.tape.inside = around.inside if around is not None else None
        inner = bool(self.open) and self.open[-1][1].event.kind is not ScopeKind.FUNCTION
        name = functools.partial(self.names.inner, module)
        if not inner:
            name = functools.partial(self.names.of_module, module, outside, source)
        entry = self.catalog.find(module, name)
        found = _arguments(args, entry.arguments)
        kwargs = frame.f_locals.get("kwargs")  # global pre-hooks get no kwargs
        kwargs = kwargs if type(kwargs) is dict else {}
        found += tensors_in(kwargs)
        if not self.open:
            named = [*named_arguments(args, entry.arguments), *kwargs.items()]
            given = self.arguments.of_module(outside, args, named)
            self.catalog.places = ObjectPlaces(given)
        inputs = self.values.slots_of(found)  # what unseen code made of them ran before the call
        if not self.open:
            self.values.early_reads.name_inputs(found, given)
        self.tape.inside = None
        opened = self.direct.open(entry, module, source, self.regions.state)
        self.regions.began(opened.scope)
        self.open.append((id(module), opened))
        if self.called is not None:
            self.called(module, args, kwargs, opened.scope)
        self._take_in(opened, found, inputs)
        self.fast.enter(module, found)
        for observer in self.tape.observers:
            observer.scope_entered(opened)

    def _take_in(
        self, opened: OpenScope, tensors: NamedTensors, inputs: tuple[Slot, ...]
    ) -> None:
        """Record the arguments of a scope."""
        opened.inputs = inputs
        for _, tensor in tensors:
            opened.arguments[id(tensor)] = tensor
        opened.begun = self.tape.index

    def call(
        self, name: str, function: Any, args: Any, kwargs: Any, run: Callable[[], Any] | None = None
    ) -> Any:
        """Call a function, or a module that runs no hooks, in its own scope; through *run* if
        given."""
        with DisableTorchFunction(), self.tape.survives_errors("modules"):
            state = mode_state()
            if isinstance(function, Module) and run is None:
                opened = self.direct.open(self.catalog.find(function), function, None, state)
            else:
                opened = self.tape.enter(ScopeKind.FUNCTION, name, cls=FUNCTION, state=state)
            self._begin(opened, function, args, kwargs)
        result = function(*args, **kwargs) if run is None else run()
        with DisableTorchFunction(), self.tape.survives_errors("modules"):
            self._leave(function, {}, result, False)
        return result

    def _begin(
        self, opened: OpenScope, called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """The outermost call begins."""
        if self.called is not None:
            self.called(called, args, kwargs, opened.scope)
        self.open.append((id(called), opened))
        function = called.__call__ if isinstance(called, Module) else called
        names = positional_names(function)
        given = [*named_arguments(args, names), *kwargs.items()]
        self.catalog.places = ObjectPlaces(given, variables_of(function))
        found = [*_arguments(args, names), *tensors_in(kwargs)]
        self._take_in(opened, found, self.values.slots_of(found))
        self.values.early_reads.name_inputs(found, None)

    def _leave(
        self,
        module: Any,
        kwargs: dict[str, Any],
        output: Any,
        failed: bool,
        frame: FrameType | None = None,
    ) -> Any:
        while self.open and self.open[-1][0] != id(module):
            self._close(self.open[-1][1], (), failed=True)  # left without a hook
        opened = self.open[-1][1]
        for name, tensor in tensors_in(kwargs) if kwargs else ():
            if id(tensor) not in opened.arguments:
                opened.arguments[id(tensor)] = tensor
                opened.inputs += (Slot(name, self.values.read(tensor)),)
        error = sys.exc_info()[1] if failed else None
        if error is not None:
            self.tape.fail(error, None)
        self._trim(opened, failed)
        found = [] if failed else tensors_in(output)
        if not failed and not found:
            found = tensors_in_objects([("", output)], [])
        if found and self.tape.index == opened.begun:
            self._uncover(opened, found)
        own = found if len(self.open) == 1 else None  # also what the user's own stand for
        replaced = self._hand_on(opened, output, found, frame)
        if replaced is not None:
            found = tensors_in(replaced)
        if frame is not None and not failed and has_own_hooks(module):
            waiting = DeferredExit(opened, frame, self.tape.time(), self.tape.index)
            self.deferred_exits.waiting.append(waiting)
        else:
            self._conclude(opened, found, failed, own)
        self.catalog.complete(module)
        return replaced

    def _conclude(
        self, opened: OpenScope, tensors: NamedTensors, failed: bool, own: NamedTensors | None
    ) -> None:
        slots = self.values.slots_of(tensors if own is None else own)
        for observer in self.tape.observers:
            observer.scope_left(opened, tensors)
        self._close(opened, slots, failed=failed)

    def _finish(self, waiting: DeferredExit, error: BaseException | None) -> None:
        """The hooks of a module are done, or one of them raised *error*."""
        failed = waiting.failed(error)
        self._trim(waiting.opened, failed)
        if failed and error is not None:
            self.tape.fail(error, None)
        if self.tape.index == waiting.index:  # what ran after the fast path was not seen
            waiting.opened.started += self.tape.time() - waiting.since
        self._conclude(waiting.opened, [] if failed else tensors_in(waiting.result), failed, None)

    def _trim(self, opened: OpenScope, failed: bool) -> None:
        """Close the scopes that are still open inside *opened*."""
        while self.tape.stack and self.tape.stack[-1] is not opened:
            self.regions.close(self.tape.stack[-1], failed=failed)

    def _close(self, opened: OpenScope, outputs: tuple[Slot, ...], *, failed: bool) -> None:
        self._trim(opened, failed)
        self.open.pop()
        if not self.open:
            self.catalog.places = ObjectPlaces([])
        self.tape.stack.pop()
        seconds = self.tape.time() - opened.started
        left = (opened.scope, opened.inputs, outputs, seconds, failed)
        self.tape.write(made(ScopeLeft, left))
        opened.arguments = {}

    def _hand_on(
        self,
        opened: OpenScope,
        output: Any,
        tensors: NamedTensors,
        frame: FrameType | None,
    ) -> Any | None:
        """The replacement for *output*, with aliases of arguments that are returned unchanged."""
        if len(self.open) == 1:
            if self.values.aliases:
                values_to_originals(self.values, tensors, opened.arguments)
            return with_originals(self.values, output)
        given = [tensor for _, tensor in tensors if id(tensor) in opened.arguments]
        if (given or self.values.aliases) and self._in_function(frame):
            return with_originals(self.values, output, opened.arguments.values())
        if not given or not self.tape.sound:
            return None
        untouched = {slot.value for slot in opened.inputs}
        passed = {id(tensor) for tensor in given if self.values.read(tensor) in untouched}
        return with_aliases(self.values, output, passed) if passed else None

    def _in_function(self, frame: Any) -> bool:
        """Whether a custom function may have called the module that PyTorch runs in *frame*.

        Its result may be the function's result, behind which autograd puts a node.
        """
        sources = self.regions.sources
        return sources.functions.may_run(caller_of_module(frame), sources.custom_functions)

    def _uncover(self, opened: OpenScope, tensors: NamedTensors) -> None:
        """Record hidden ops for results of a scope in which no op was recorded.

        Autograd knows some of the steps, but not all of their inputs: a script, which has many
        steps, becomes one hidden op.
        """
        scripted = opened.event.kind is ScopeKind.SCRIPTED
        unknown = [
            tensor
            for _, tensor in tensors
            if self.values.peek(tensor) is None
            and (scripted or node_behind(tensor) is None)
            and self.values.name_of(tensor) is None
            and self.names.of(tensor) is None
        ]
        if unknown:
            op: OpId = self.tape.next_op()
            self.values.autograd.expect_unrecorded(unknown if scripted else [])
            made: tuple[ValueId, ...] = tuple(self.values.note(item, op) for item in unknown)
            self.values.autograd.begin()  # later nodes do not belong to it
            module = self.catalog.module(opened.event.module)
            weights = self.values.slots_of(weights_of(module) if module is not None else [])
            self.tape.state_op(op, opened.event.cls, opened.inputs + weights, made)

    def settle(self, frame: FrameType) -> None:
        """Close the scopes that have ended, as seen from *frame*."""
        if self.tape.records(threading.get_ident()):
            with DisableTorchFunction():
                self.deferred_exits.settle(frame)

    def leave_all(self, error: BaseException | None) -> None:
        """The run ends: close the scopes that an exception left open."""
        failed = error is not None
        self.deferred_exits.settle(None, error)
        while self.open:
            self._close(self.open[-1][1], (), failed=failed)
        while self.tape.stack:
            self.regions.close(self.tape.stack[-1], failed=failed)


def _remove(handle: RemovableHandle) -> None:
    """Remove a global hook, and its ``with_kwargs`` mark, which torch 2.13 does not remove."""
    handle.remove()
    forget_keyword_mark(handle.id)


def _arguments(args: tuple[Any, ...], names: tuple[str, ...]) -> NamedTensors:
    if len(args) == 1 and isinstance(args[0], Tensor):
        return [(names[0] if names else "0", args[0])]
    found: NamedTensors = []
    for name, value in named_arguments(args, names):
        if isinstance(value, Tensor):
            found.append((name, value))
        elif value is not None:
            found.extend(tensors_in(value, name))
    return found
