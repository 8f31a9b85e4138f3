"""ModuleScopes: forward hooks that turn calls of modules into scopes.

The hooks are the global ones, which PyTorch runs for every module: so they also see
modules kept in plain lists or made during the run, leave nothing on the user's modules,
and do not switch off the fast paths that look at a module's own hooks. They run for all
threads; ours listen to one. A failed call runs only hooks with ``always_call``, and gives
those no keyword arguments, which tells it from a call that returned.
"""

from __future__ import annotations

import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Container
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from torchrecorder.capture.tensors.argument_objects import ArgumentObjects, tensors_in_objects
from torchrecorder.capture.tensors.alias import hand_on, hand_out, take_back
from torchrecorder.capture.modes.arguments import named_arguments
from torchrecorder.capture.module_registry import weights_of
from torchrecorder.capture.tensors.entries import Foreign
from torchrecorder.capture.internals.access import (
    WRAPPED_CALL_CODE,
    DisableTorchFunction,
    caller_of_module,
    current_graph_task,
    forget_keyword_mark,
    get_frame,
    has_own_hooks,
)
from torchrecorder.capture.hooks.deferred_exit import Lingering, Waiting
from torchrecorder.capture.hooks.other_threads import OtherThreads
from torchrecorder.capture.hooks.regions import mode_state
from torchrecorder.capture.hooks.source import Pretended
from torchrecorder.capture.tensors.describe import node_behind, tensors_in
from torchrecorder.events import PLAIN_FUNCTION as FUNCTION
from torchrecorder.events import OpId, Role, ScopeKind, ScopeLeft, Slot, ValueId, made

if TYPE_CHECKING:
    from torchrecorder.capture.module_registry import Catalog
    from torchrecorder.capture.modes.fast_paths import FastPaths
    from torchrecorder.capture.hooks.regions import Regions
    from torchrecorder.capture.scope import Called, OpenScope
    from torchrecorder.capture.tape import Tape
    from torchrecorder.capture.tensors.tensor_table import Values


class ModuleScopes:
    """Hears every call of a module in this thread."""

    def __init__(
        self, tape: Tape, values: Values, regions: Regions, catalog: Catalog, fast: FastPaths
    ) -> None:
        self.fast = fast
        self.tape = tape
        self.values = values
        self.regions = regions
        self.catalog = catalog
        self.open: list[tuple[int, OpenScope]] = []
        self._objects = ArgumentObjects([])
        self.others = OtherThreads()
        self.family: Container[int] = ()  # the threads that are recorded together
        self._exit = ExitStack()
        self.called: Called | None = None
        self.lingering = regions.lingering = Lingering(self.open, self._finish)
        values.search_names = self._name_of

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

    def before(
        self, module: Module, args: tuple[Any, ...], frame: FrameType | None = None
    ) -> None:
        """*module* is about to run; *frame* is that in which PyTorch runs its hooks."""
        try:
            tape = self.tape
            if tape.is_elsewhere() or tape.deaf:
                return
            frame = frame or get_frame(1)
            tape.pause()
            with DisableTorchFunction():
                self._enter(module, args, frame)
            tape.resume()
        except Pretended:
            self.tape.resume()
        except Exception as error:
            self.tape.lose("modules", error)

    def _after(self, module: Module, args: tuple[Any, ...], *rest: Any) -> Any:
        try:
            if self.tape.is_elsewhere():
                self._note_foreign(module, args, rest[-1])
                return None
            if self.tape.deaf:
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
        """A call is over; *rest* is keyword arguments and result, or None alone if it failed."""
        failed = len(rest) == 1
        error = sys.exc_info()[1] if failed else None
        if self.lingering.waiting:
            self.lingering.settle(frame, error)
        if not self._is_open(module):  # its beginning was lost
            return None if self.open else take_back(self.values, rest[-1])
        self.fast.leave(module, error)
        return self._leave(module, {} if failed else rest[0], rest[-1], failed, frame)

    def _abandon(self, module: Module, given: Any, output: Any) -> Any:
        """The instrument failed when *module* returned: close what is open, give no alias."""
        if self.tape.is_elsewhere():
            return None
        with DisableTorchFunction(), self.tape.losing("modules"):
            if self.fast.inside == id(module):
                self.fast.restore()
            if self._is_open(module):
                while self.open[-1][0] != id(module):
                    self._close(self.open[-1][1], (), failed=False)
                self._close(self.open[-1][1], (), failed=False)
            return take_back(self.values, output, [item for _, item in tensors_in(given)])
        return None

    def _note_foreign(self, module: Module, args: tuple[Any, ...], output: Any) -> None:
        """A module ran elsewhere: if it is ours, remember where its results come from."""
        if threading.get_ident() in self.family:
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
        door = frame.f_back.f_back
        outside = door.f_back if door.f_code is WRAPPED_CALL_CODE else caller_of_module(frame)
        source = self.regions.locate(outside)
        entry = self.catalog.find(module)
        if not entry.stated:
            self.catalog.begin(module)
        path, name = self.catalog.path(entry, self.open[-1][1].event.path if self.open else "")
        opened = self.tape.enter(
            entry.kind,
            name,
            path,
            entry.cls,
            entry.module,
            entry.count_call(),
            source,
            self.regions.state,
            current_graph_task() != -1,
        )
        self.regions.began(opened.scope)
        self.open.append((id(module), opened))
        found = _arguments(args, entry.arguments)
        kwargs = frame.f_locals.get("kwargs")  # PyTorch has no global pre-hook that is given them
        if not kwargs or type(kwargs) is not dict:
            kwargs = {}
        found += tensors_in(kwargs)
        if len(self.open) == 1:
            named = named_arguments(args, entry.arguments)
            self._objects = ArgumentObjects([*named, *kwargs.items()])
        if self.called is not None:
            self.called(module, args, kwargs, opened.scope)
        self._take_in(opened, found)
        self.fast.enter(module, found)
        for observer in self.tape.observers:
            observer.scope_entered(opened)

    def _take_in(self, opened: OpenScope, found: list[tuple[str, Tensor]]) -> None:
        """These are the arguments of a scope."""
        opened.inputs = self.values.slots_of(found)
        for _, tensor in found:
            opened.arguments[id(tensor)] = tensor
        opened.begun = self.tape.index

    def call_function(
        self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
        run: Callable[[], Any] | None = None,
    ) -> Any:
        """Call a plain function, by *run* if that is how it is called, in a scope of its own."""
        with DisableTorchFunction(), self.tape.losing("modules"):
            code = getattr(inspect.unwrap(function), "__code__", None)
            names = code.co_varnames[: code.co_argcount] if code is not None else ()
            names = names[1:] if inspect.ismethod(function) else names
            opened = self.tape.enter(ScopeKind.FUNCTION, name, cls=FUNCTION, state=mode_state())
            if self.called is not None:
                self.called(function, args, kwargs, opened.scope)
            self.open.append((id(function), opened))
            self._objects = ArgumentObjects([*named_arguments(args, names), *kwargs.items()])
            self._take_in(opened, [*_arguments(args, names), *tensors_in(kwargs)])
        result = function(*args, **kwargs) if run is None else run()
        with DisableTorchFunction(), self.tape.losing("modules"):
            self._leave(function, {}, result, False)
        return result

    def _leave(
        self,
        module: Any,
        kwargs: dict[str, Any],
        output: Any,
        failed: bool,
        frame: FrameType | None = None,
    ) -> Any:
        while self.open and self.open[-1][0] != id(module):
            self._close(self.open[-1][1], (), failed=True)  # left without a word
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
        replaced = self._hand_on(opened, output, found, frame)
        if replaced is not None:
            found = tensors_in(replaced)
        if frame is not None and not failed and has_own_hooks(module):
            waiting = Waiting(opened, frame, self.tape.time(), self.tape.index)
            self.lingering.waiting.append(waiting)
        else:
            self._conclude(opened, found, failed)
        self.catalog.complete(module)
        return replaced

    def _conclude(self, opened: OpenScope, found: list[tuple[str, Tensor]], failed: bool) -> None:
        slots = self.values.slots_of(found)
        for observer in self.tape.observers:
            observer.scope_left(opened, found)
        self._close(opened, slots, failed=failed)

    def _finish(self, waiting: Waiting, error: BaseException | None) -> None:
        """The hooks of a module are done, or one of them raised *error*."""
        failed = waiting.failed(error)
        self._trim(waiting.opened, failed)
        if failed and error is not None:
            self.tape.fail(error, None)
        if self.tape.index == waiting.index:  # what came after was not seen, and is not its own
            waiting.opened.started += self.tape.time() - waiting.since
        self._conclude(waiting.opened, [] if failed else tensors_in(waiting.result), failed)

    def _trim(self, opened: OpenScope, failed: bool) -> None:
        """Close what is still open inside *opened*."""
        while self.tape.stack and self.tape.stack[-1] is not opened:
            self.regions.close(self.tape.stack[-1], failed=failed)

    def _close(self, opened: OpenScope, outputs: tuple[Slot, ...], *, failed: bool) -> None:
        self._trim(opened, failed)
        self.open.pop()
        if not self.open:
            self._objects = ArgumentObjects([])
        if opened.cleanup is not None:
            opened.cleanup()
        self.tape.stack.pop()
        seconds = self.tape.time() - opened.started
        left = (opened.scope, opened.inputs, outputs, seconds, failed)
        self.tape.write(made(ScopeLeft, left))
        opened.arguments = {}

    def _hand_on(
        self,
        opened: OpenScope,
        output: Any,
        found: list[tuple[str, Tensor]],
        frame: FrameType | None,
    ) -> Any | None:
        """What to return instead of *output*: aliases of the arguments left untouched."""
        if len(self.open) == 1:
            if self.values.aliases:
                hand_out(self.values, found, opened.arguments)
            return take_back(self.values, output)
        given = [tensor for _, tensor in found if id(tensor) in opened.arguments]
        if (given or self.values.aliases) and self._in_function(frame):
            return take_back(self.values, output, opened.arguments.values())
        if not given or not self.tape.sound:
            return None
        untouched = {slot.value for slot in opened.inputs}
        passed = {id(tensor) for tensor in given if self.values.read(tensor) in untouched}
        return hand_on(self.values, output, passed) if passed else None

    def _in_function(self, frame: Any) -> bool:
        """Whether a custom function may have called the module that PyTorch runs in *frame*.

        What it returns may be the function's result, behind which autograd puts a node.
        """
        sources = self.regions.sources
        return sources.functions.may_run(caller_of_module(frame), sources.custom_functions)

    def _uncover(self, opened: OpenScope, found: list[tuple[str, Tensor]]) -> None:
        """Results that nobody saw being made, of a scope in which nothing was seen.

        Autograd knows of steps on the way to some of them, but not of all that these read:
        of a script, which has many, the whole is one step.
        """
        scripted = opened.event.kind is ScopeKind.SCRIPTED
        unknown = [
            tensor
            for _, tensor in found
            if self.values.peek(tensor) is None
            and (scripted or node_behind(tensor) is None)
            and id(tensor) not in self.values.named
            and self._name_of(tensor) is None
        ]
        if unknown:
            op: OpId = self.tape.next_op()
            self.values.autograd.open_box(unknown if scripted else [])
            made: tuple[ValueId, ...] = tuple(self.values.note(item, op) for item in unknown)
            self.values.autograd.begin()  # all that is made from here on is not its own
            module = self.catalog.module(opened.event.module)
            weights = self.values.slots_of(weights_of(module) if module is not None else [])
            self.values.write_hidden(op, opened.event.cls, opened.inputs + weights, made)

    def _name_of(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The name of a tensor that a running module, or an argument, holds as an attribute."""
        for _, opened in reversed(self.open):
            module = self.catalog.module(opened.event.module)
            found = self.catalog.attribute(module, tensor) if module is not None else None
            if found is not None:
                role, name = found
                return role, f"{opened.event.path}.{name}".lstrip(".")
        place = self._objects.name_of(tensor)
        return (Role.INPUT, place) if place is not None else None

    def settle(self, frame: FrameType) -> None:
        """Close what is over, as seen from *frame*."""
        if threading.get_ident() == self.tape.thread:
            with DisableTorchFunction():
                self.lingering.settle(frame)

    def leave_all(self, error: BaseException | None) -> None:
        """The run ends: close what an exception left open."""
        failed = error is not None
        self.lingering.settle(None, error)
        while self.open:
            self._close(self.open[-1][1], (), failed=failed)
        while self.tape.stack:
            self.regions.close(self.tape.stack[-1], failed=failed)


def _remove(handle: RemovableHandle) -> None:
    """Remove a global hook; torch 2.13 forgets to remove its mark of ``with_kwargs``."""
    handle.remove()
    forget_keyword_mark(handle.id)


def _arguments(args: tuple[Any, ...], names: tuple[str, ...]) -> list[tuple[str, Tensor]]:
    if len(args) == 1 and isinstance(args[0], Tensor):
        return [(names[0] if names else "0", args[0])]
    found: list[tuple[str, Tensor]] = []
    for name, value in named_arguments(args, names):
        if isinstance(value, Tensor):
            found.append((name, value))
        elif value is not None:
            found.extend(tensors_in(value, name))
    return found
