"""Module calls that PyTorch does not report to hooks: `DirectCalls`, and ends in `DeferredExits`.

``self.layer.forward(x)`` runs no hooks, nor does a module whose class overrides ``__call__``. Such
a call is found like a region: by the frame of ``forward`` around an op. Its arguments are read from
the frame; its results are unknown.

PyTorch runs the global hook of the recorder before the forward hooks of the module, which belong to
the call and may change its result. It does not report when they are done: the next op or module
call outside the frame in which PyTorch runs them shows it. Nor does it report a call that ends with
an exception such as ``KeyboardInterrupt``, which is no `Exception`.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from traceback import walk_tb
from types import FrameType, GeneratorType
from typing import Any, NamedTuple

from torch.nn import Module

from torchrecorder.capture.hooks.attribute_names import AttributeNames
from torchrecorder.capture.hooks.greenlets import frames_around
from torchrecorder.capture.hooks.source import Region, Sources, first_local
from torchrecorder.capture.internals.access import CALL_CODE, current_graph_task
from torchrecorder.capture.modes.argument_names import ArgumentNames
from torchrecorder.capture.module_registry import RegisteredModule
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tensors.argument_objects import Named
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.events import MODES, ModuleId, ScopeId, SourceLine


class _Suspended(NamedTuple):
    """A call whose output is a generator, and may go on."""

    generator: weakref.ref[GeneratorType[Any, Any, Any]]
    opened: OpenScope
    around: Sequence[OpenScope]
    mode: ScopeId | None


class DirectCalls:
    """Opens the scopes of module calls."""

    def __init__(
        self, sources: Sources, names: AttributeNames, arguments: ArgumentNames
    ) -> None:
        self.registry = names.registry
        self.tape = self.registry.tape
        self.sources = sources
        self.names = names
        self.arguments = arguments
        self._generators: dict[int, _Suspended] = {}  # by the id of the frame

    def open(
        self, entry: RegisteredModule, module: Module, source: SourceLine | None, state: Any
    ) -> OpenScope:
        """Open the scope of a call of *module*, whose entry in the registry is *entry*."""
        if not entry.written:
            self.registry.begin(module)
        path, name = self.registry.path(entry, *self._around())
        return self.tape.enter(
            entry.facts.kind,
            name,
            path,
            entry.facts.name,
            entry.module,
            entry.count_call(),
            source,
            state,
            current_graph_task() != -1,
        )

    def _around(self) -> tuple[str, ModuleId | None]:
        """The path and id of the innermost running module."""
        for opened in reversed(self.tape.stack):
            if opened.event.module is not None:
                return opened.event.path, opened.event.module
        return "", None

    def enter(self, region: Region, source: SourceLine | None, state: Any) -> OpenScope:
        """Open the scope of a direct call of ``forward``."""
        module = region.module
        assert region.forward is not None and module is not None
        name_of = self.names.of_module if self._around()[1] is None else self.names.inner
        name = partial(name_of, module, region.outside, source)
        entry, values = self.registry.find(module, name), self.registry.values
        given = _arguments(region.forward)
        found = [tensor for name, value in given for tensor in tensors_in(value, name)]
        inputs = values.slots_of(found)
        if not self.tape.stack:
            values.early_reads.name_inputs(
                found, self.arguments.of_module(region.outside, given)
            )
        opened = self.open(entry, module, source, state)
        opened.inputs = inputs
        opened.results_unseen = True
        self.registry.complete(module)
        return opened

    def suspend(self, opened: OpenScope, output: Any) -> None:
        """If *output* of the call *opened* is a generator, `resume` opens this scope again; that
        of the innermost call if others only return what it made."""
        if isinstance(output, GeneratorType):
            frame = id(output.gi_frame)
            if frame not in self._generators or self._generators[frame].generator() is not output:
                around = [item for item in self.tape.stack if item is not opened]
                made = _Suspended(weakref.ref(output), opened, around, self._mode(opened))
                self._generators[frame] = made

    def resume(self, region: Region) -> bool:
        """Whether the generator that runs in *region* is the output of a call, whose scope is then
        open again: the call holds all parts of it, from one value to the next.

        A part under another mode, such as ``no_grad``, is a call of its own.
        """
        made = self._generators.get(id(region.forward))
        generator = made.generator() if made is not None else None
        if made is None or generator is None or generator.gi_frame is not region.forward:
            return False
        if made.mode != self._mode():
            return False
        opened = made.opened
        self.tape.reopen(opened, made.around)
        opened.results_unseen = True
        opened.key = region.key
        return True

    def raised(self, error: BaseException | None) -> None:
        """Mark the calls as failed whose generators raised *error* while their scopes were closed:
        before any operation of a part."""
        for frame, _ in walk_tb(error.__traceback__ if error is not None else None):
            made = self._generators.get(id(frame))
            if made is not None and made.opened.left is not None and self._is_of(made, frame):
                made.opened.left = made.opened.left._replace(failed=True)
                self.tape.write(made.opened.left)

    def _is_of(self, made: _Suspended, frame: FrameType) -> bool:
        """Whether *frame* is that of a generator, which may no longer exist, and not another one
        with the id of its frame."""
        entry = self.registry.entries.get(id(first_local(frame)))
        return entry is not None and entry.module == made.opened.event.module

    def _mode(self, inside: OpenScope | None = None) -> ScopeId | None:
        """The innermost scope, without *inside*, if it is that of a mode; else None."""
        around = next((item for item in reversed(self.tape.stack) if item is not inside), None)
        return around.scope if around is not None and around.event.kind in MODES else None

    def without_known(self, regions: Sequence[Region]) -> list[Region]:
        """*regions* without direct calls of a module whose hooks have opened a scope."""
        found = []
        for region in regions:
            if region.module is not None and self._is_open(region.module):
                self.sources.ignore(region)
            else:
                found.append(region)
        return found

    def _is_open(self, module: Module) -> bool:
        entry = self.registry.entries.get(id(module))
        for opened in reversed(self.tape.stack):
            if opened.key is None:
                return entry is not None and opened.event.module == entry.module
        return False


def _arguments(frame: FrameType) -> Named:
    """The arguments of the function that runs in *frame*, without ``self``; those in ``*args`` and
    ``**kwargs`` one by one."""
    names, starred, mapping, held = inspect.getargvalues(frame)
    given = [(name, held[name]) for name in names[1:] if name in held]
    given += [(f"{starred}.{place}", item) for place, item in enumerate(held.get(str(starred), ()))]
    return given + [(f"{mapping}.{key}", item) for key, item in held.get(str(mapping), {}).items()]


class DeferredExit(NamedTuple):
    """The scope of a module whose forward hooks may still run."""

    opened: OpenScope
    frame: FrameType  # of PyTorch, which runs the hooks; its local ``result`` is the output
    since: float
    index: int  # type: ignore[assignment]  # in run order, when the module returned

    @property
    def result(self) -> Any:
        """The output of the call, as the hooks have changed it."""
        return self.frame.f_locals.get("result")

    def failed(self, error: BaseException | None) -> bool:
        """Whether a hook of this call raised *error*."""
        frames = walk_tb(error.__traceback__ if error is not None else None)
        return any(frame is self.frame for frame, _ in frames)


class DeferredExits:
    """The deferred exits, innermost last.

    Args:
        open: The open scopes of module calls.
        finish: Closes the scope of a deferred exit.
        close_last: Closes the innermost scope, whose call failed.
    """

    def __init__(
        self,
        open: list[tuple[int, OpenScope]],
        finish: Callable[[DeferredExit, BaseException | None], None],
        close_last: Callable[[], None],
    ) -> None:
        self.open = open
        self.finish = finish
        self.close_last = close_last
        self.waiting: list[DeferredExit] = []

    def close_finished(self, frame: FrameType | None, error: BaseException | None = None) -> None:
        """Close the scopes whose hooks are done, as code that runs in *frame* shows; None: all."""
        while self.waiting and self._is_over(self.waiting[-1], frame):
            self.finish(self.waiting.pop(), error)

    def close_interrupted(self, frame: FrameType | None) -> None:
        """Close the scopes of module calls that do not run around *frame*."""
        # a scope without a frame is closed by its caller
        running: set[FrameType | None] = {None, *frames_around(frame)}
        while self.open and self.open[-1][1].frame not in running:
            self.close_last()
        self.forget_closed()

    def forget_closed(self) -> None:
        """Remove the exits of scopes that were closed otherwise."""
        still = {id(opened) for _, opened in self.open}
        self.waiting = [last for last in self.waiting if id(last.opened) in still]

    def _is_over(self, last: DeferredExit, frame: FrameType | None) -> bool:
        if self.open[-1][1] is not last.opened:
            return False  # a hook called a module
        calls = (it for it in frames_around(frame) if it is last.frame or it.f_code is CALL_CODE)
        return next(calls, None) is not last.frame
