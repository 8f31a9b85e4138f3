"""ModuleScopes: forward hooks that record calls of modules as scopes.

The hooks are global. So they also see modules in plain lists and modules created during the run,
they leave nothing on the user's modules, and they keep the fast paths that check for hooks of a
module. They run for all threads; each recorder handles its own. If a call fails, PyTorch runs only
hooks with ``always_call``, without keyword arguments, which distinguishes it from other calls.
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
from torchrecorder.capture.hooks.other_threads import OtherThreads
from torchrecorder.capture.hooks.regions import Regions, mode_state
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.hooks.unreported_calls import DeferredExit, DeferredExits, DirectCalls
from torchrecorder.capture.internals.access import (
    CALL_CODE, WRAPPED_CALL_CODE, DisableTorchFunction, caller_of_module, current_graph_task,
    forget_keyword_mark, get_frame, has_own_hooks,
)
from torchrecorder.capture.modes.argument_names import ArgumentNames
from torchrecorder.capture.modes.arguments import named_arguments, named_tensors
from torchrecorder.capture.modes.fast_paths import FastPaths
from torchrecorder.capture.module_registry import ModuleRegistry
from torchrecorder.capture.module_tree import weights_of
from torchrecorder.capture.scope import Called, OpenScope
from torchrecorder.capture.tensors.alias import values_to_originals, with_aliases, with_originals
from torchrecorder.capture.tensors.argument_objects import (
    ObjectPlaces, positional_names, tensors_in_objects, variables_of,
)
from torchrecorder.capture.tensors.describe import grad_fn_of, innermost, tensors_in
from torchrecorder.capture.tensors.entries import OtherThreadResult
from torchrecorder.events import FUNCTION, OpId, ScopeKind, Slot, ValueId

NamedTensors = list[tuple[str, Tensor]]
"""Tensors with their paths in arguments or results."""


class ModuleScopes:
    """A context in which every call of a module in this thread is recorded."""

    def __init__(
        self, regions: Regions, registry: ModuleRegistry, fast: FastPaths, arguments: ArgumentNames
    ) -> None:
        self.fast = fast
        self.tape = registry.tape
        self.values = registry.values
        self.regions = regions
        self.registry = registry
        self.open: list[tuple[int, OpenScope]] = []
        self.others = OtherThreads()
        self.threads: Container[int] = ()  # the threads that are recorded together
        self.called: Called | None = None
        close_last = functools.partial(self._close_last, failed=True)
        self.deferred_exits = DeferredExits(self.open, self._finish, close_last)
        regions.deferred_exits = self.deferred_exits
        self.names = self.values.names = AttributeNames(registry)
        self.arguments = arguments
        self.direct = regions.direct = DirectCalls(regions.sources, self.names, arguments)

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
        """The forward pre-hook; PyTorch runs hooks in *frame*, by default the caller's."""
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
            self.tape.record_error("modules", error)

    def _after(self, module: Module, args: tuple[Any, ...], *rest: Any) -> Any:
        """The forward hook; *rest* is kwargs and output, or only None after an exception."""
        try:
            if self.tape.is_elsewhere():
                self._store_results(module, args, rest[-1])
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
            self.tape.record_error("modules", error)
            return self._abandon(module, (args, rest[:-1]), rest[-1])

    def _returned(self, module: Module, rest: tuple[Any, ...], frame: FrameType) -> Any:
        """Record the end of a call; returns the replacement of its output, or None."""
        failed = len(rest) == 1
        error = sys.exc_info()[1] if failed else None
        if self.deferred_exits.waiting:
            self.deferred_exits.close_finished(frame, error)
        if not self._is_open(module):  # its beginning was not recorded
            return None if self.open else with_originals(self.values, rest[-1])
        self.fast.leave(module, error)
        return self._leave(module, {} if failed else rest[0], rest[-1], failed, frame)

    def _abandon(self, module: Module, given: Any, output: Any) -> Any:
        """Close the scope of *module* after an error of the recorder; returns the output without
        aliases, or None to keep it."""
        if self.tape.is_elsewhere():
            return None
        with DisableTorchFunction(), self.tape.survives_errors("modules"):
            if self._is_open(module):
                while self.open[-1][0] != id(module):
                    self._close_last(failed=False)
                self._close_last(failed=False)
                self.deferred_exits.forget_closed()
            return with_originals(self.values, output, [item for _, item in tensors_in(given)])
        return None

    def _store_results(self, module: Module, args: tuple[Any, ...], output: Any) -> None:
        """Store the results of a module that another thread has called."""
        if threading.get_ident() in self.threads:
            return
        self.others.count()
        if id(module) in self.registry.entries:
            with DisableTorchFunction():
                read = (*tensors_in(args), *weights_of(module))
                given = [(name, weakref.ref(tensor)) for name, tensor in read]
                for _, tensor in tensors_in(output):
                    result = OtherThreadResult(type(module).__name__, given, weakref.ref(tensor))
                    self.values.of_other_threads[id(tensor)] = result

    def _is_open(self, module: Module) -> bool:
        return id(module) in [key for key, _ in self.open]

    def _enter(self, module: Module, args: tuple[Any, ...], frame: Any) -> None:
        outer = frame.f_back.f_back
        outside = outer.f_back if outer.f_code is WRAPPED_CALL_CODE else caller_of_module(frame)
        source = self.regions.locate(outside, in_pass=current_graph_task() != -1)
        self.values.autograd.find_numbering()
        around = self.regions.function
        self.tape.inside = around.inside if around is not None else None
        entry = self.registry.written(module)
        if entry is None:
            inner = bool(self.open) and self.open[-1][1].event.kind is not ScopeKind.FUNCTION
            name_of = self.names.inner if inner else self.names.of_module
            name = functools.partial(name_of, module, outside, source)
            entry = self.registry.find(module, name)
        found = named_tensors(args, entry.facts.arguments)
        kwargs = frame.f_locals.get("kwargs")  # global pre-hooks get no kwargs
        kwargs = kwargs if type(kwargs) is dict else {}
        if kwargs:
            found += tensors_in(kwargs)
        if not self.open:
            named = [*named_arguments(args, entry.facts.arguments), *kwargs.items()]
            given = self.arguments.of_module(outside, named, len(args))
            self.registry.places = ObjectPlaces(given)
        inputs = self.values.slots_of(found)  # ops found only now ran before the call
        if not self.open:
            self.values.early_reads.name_inputs(found, given)
        self.tape.inside = None
        opened = self.direct.open(entry, module, source, self.regions.state)
        opened.frame = frame if frame.f_code is CALL_CODE else frame.f_back
        self.regions.module_called(opened.scope)
        self.open.append((id(module), opened))
        if self.called is not None:
            self.called(module, args, kwargs, opened.scope)
        self._record_inputs(opened, found, inputs)
        self.fast.enter(module, found)
        for observer in self.tape.observers:
            observer.scope_entered(opened)

    def _record_inputs(
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
        """Call a function, or a module without hooks, in a scope of its own, and return its result.

        Args:
            name: The name of the scope of a function.
            run: Called instead of *function*, to which the arguments belong.
        """
        with DisableTorchFunction(), self.tape.survives_errors("modules"):
            state = mode_state()
            if isinstance(function, Module) and run is None:
                opened = self.direct.open(self.registry.find(function), function, None, state)
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
        """Record the beginning of the outermost call, and its arguments."""
        if self.called is not None:
            self.called(called, args, kwargs, opened.scope)
        self.open.append((id(called), opened))
        function = called.__call__ if isinstance(called, Module) else called
        names = positional_names(function)
        given = [*named_arguments(args, names), *kwargs.items()]
        self.registry.places = ObjectPlaces(given, variables_of(function))
        found = [*named_tensors(args, names), *tensors_in(kwargs)]
        self._record_inputs(opened, found, self.values.slots_of(found))
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
            self._close_last(failed=True)  # its hook was not called
        opened = self.open[-1][1]
        for name, tensor in tensors_in(kwargs) if kwargs else ():
            if id(tensor) not in opened.arguments:
                opened.arguments[id(tensor)] = tensor
                opened.inputs += (Slot(name, self.values.read(tensor)),)
        error = sys.exc_info()[1] if failed else None
        if error is not None:
            self.tape.fail(error, None)
        self._close_inner(opened, failed)
        if error is not None:
            self.direct.raised(error)
        found = [] if failed else tensors_in(output)
        if not failed and not found:
            found = tensors_in_objects([("", output)], [])
        if found and self.tape.index == opened.begun:
            self._record_hidden(opened, found)
        own = found if len(self.open) == 1 else None  # before aliases are replaced
        replaced = self._replace_output(opened, output, found, frame)
        if replaced is not None:
            found = tensors_in(replaced)
        if frame is not None and not failed and has_own_hooks(module):
            waiting = DeferredExit(opened, frame, self.tape.time(), self.tape.index)
            self.deferred_exits.waiting.append(waiting)
        else:
            self._record_outputs(opened, found, failed, own)
        self.direct.suspend(opened, output)
        self.registry.complete(module)
        return replaced

    def _record_outputs(
        self, opened: OpenScope, tensors: NamedTensors, failed: bool, own: NamedTensors | None
    ) -> None:
        slots = self.values.slots_of(tensors if own is None else own)
        for observer in self.tape.observers:
            observer.scope_left(opened, tensors)
        self._close(opened, slots, failed=failed)

    def _finish(self, waiting: DeferredExit, error: BaseException | None) -> None:
        """Close the scope of a module whose own hooks are done, or raised *error*."""
        failed = waiting.failed(error)
        self._close_inner(waiting.opened, failed)
        if failed and error is not None:
            self.tape.fail(error, None)
        if self.tape.index == waiting.index:  # what ran after the fast path was not seen
            waiting.opened.started += self.tape.time() - waiting.since
        outputs = [] if failed else tensors_in(waiting.result)
        self._record_outputs(waiting.opened, outputs, failed, None)

    def _close_inner(self, opened: OpenScope, failed: bool) -> None:
        """Close the regions that are still open inside *opened*."""
        while self.tape.stack and self.tape.stack[-1] is not opened:
            self.regions.close(self.tape.stack[-1], failed=failed)

    def _close_last(self, *, failed: bool) -> None:
        """Close the innermost call, without results."""
        key, opened = self.open[-1]
        if self.fast.inside == key:
            self.fast.interrupt()
        self._close_inner(opened, failed)
        self._close(opened, (), failed=failed)

    def _close(self, opened: OpenScope, outputs: tuple[Slot, ...], *, failed: bool) -> None:
        self.open.pop()
        if not self.open:
            self.registry.places = ObjectPlaces([])
        self.tape.leave()
        self.tape.end(opened, outputs, failed)
        opened.arguments, opened.frame = {}, None

    def _replace_output(
        self, opened: OpenScope, output: Any, tensors: NamedTensors, frame: FrameType | None
    ) -> Any | None:
        """*output* with aliases of arguments that are returned unchanged, or None to keep it.

        The outermost call, and calls in custom functions, return the user's tensors instead.
        """
        if len(self.open) == 1:
            if not self.values.aliases:
                return None
            values_to_originals(self.values, tensors, opened.arguments)
            return with_originals(self.values, output)
        given = [tensor for _, tensor in tensors if id(tensor) in opened.arguments]
        if (given or self.values.aliases) and self._in_function(frame):
            return with_originals(self.values, output, opened.arguments.values())
        if not given or not self.tape.aliases_work:
            return None
        untouched = {slot.value for slot in opened.inputs}
        passed = {id(tensor) for tensor in given if self.values.read(tensor) in untouched}
        return with_aliases(self.values, output, passed) if passed else None

    def _in_function(self, frame: Any) -> bool:
        """Whether a custom ``autograd.Function`` may call the module that runs in *frame*.

        The result may then be that of the function, to which autograd gives a ``grad_fn``.
        """
        sources = self.regions.sources
        return sources.functions.may_run(caller_of_module(frame), sources.custom_functions)

    def _record_hidden(self, opened: OpenScope, tensors: NamedTensors) -> None:
        """Record one hidden op for the results of a call in which no op was recorded.

        Its inputs are the arguments and weights of the module. A scripted module is one hidden op
        too: its autograd nodes show its operations, but not all of their inputs.
        """
        scripted = opened.event.kind is ScopeKind.SCRIPTED
        unknown = [
            tensor
            for _, tensor in tensors
            if self.values.peek(innermost(tensor)) is None
            and (scripted or grad_fn_of(tensor) is None)
            and self.values.name_of(tensor) is None
            and self.names.of(tensor) is None
        ]
        if unknown:
            op: OpId = self.tape.next_op()
            self.values.autograd.expect_unrecorded(unknown if scripted else [])
            made: tuple[ValueId, ...] = tuple(self.values.add_value(item, op) for item in unknown)
            self.values.autograd.begin()  # nodes created later do not belong to this op
            module = self.registry.module(opened.event.module)
            weights = self.values.slots_of(weights_of(module) if module is not None else [])
            self.tape.write_op(op, opened.event.cls, opened.inputs + weights, made)

    def close_finished(self, frame: FrameType) -> None:
        """Close the scopes of modules whose hooks are done, when code in *frame* runs."""
        if self.tape.records(threading.get_ident()):
            with DisableTorchFunction():
                self.deferred_exits.close_finished(frame)

    def leave_all(self, error: BaseException | None) -> None:
        """Close all open scopes at the end of the run; they failed if there is an *error*."""
        failed = error is not None
        self.deferred_exits.close_finished(None, error)
        while self.open:
            self._close_last(failed=failed)
        while self.tape.stack:
            self.regions.close(self.tape.stack[-1], failed=failed)
        self.direct.raised(error)


def _remove(handle: RemovableHandle) -> None:
    """Remove a global hook, and its ``with_kwargs`` mark, which torch 2.13 does not remove."""
    handle.remove()
    forget_keyword_mark(handle.id)
