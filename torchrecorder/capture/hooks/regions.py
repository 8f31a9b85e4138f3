"""Regions: ``no_grad``, autocast, checkpoint, custom functions, optimizer steps.

PyTorch has no hooks for them, so they are detected when an op runs inside: by the frames between
the op and its module (functions such as ``checkpoint``), and by modes that differ from those at the
start of the module's call (grad mode, inference mode, autocast). A region ends when an op or module
outside it runs, or when its module returns. A mode that changes inside another is a nested region.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

import torch

from torchrecorder.capture.hooks.call_names import enters_result, name_of_call
from torchrecorder.capture.hooks.custom_functions import class_of
from torchrecorder.capture.hooks.python_calls import PythonCall, PythonCalls
from torchrecorder.capture.hooks.source import InternalWork, Region, Sources, first_local
from torchrecorder.capture.hooks.unreported_calls import DeferredExits, DirectCalls
from torchrecorder.capture.internals.access import (
    CHECKPOINT_FUNCTION, PIPELINE_SCALING, any_autocast, autocast_dtypes, current_graph_task,
)
from torchrecorder.capture.internals.region_functions import SHARDING_NAMES
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import dtype_facts
from torchrecorder.events import ScopeId, ScopeKind, SourceLine
from torchrecorder.graph.nodes import Scope


class ModeState(NamedTuple):
    """Grad mode, inference mode and autocast."""

    grad: bool
    inference: bool
    autocast: str  # "" if off, otherwise "cpu bfloat16"


_grad = torch.is_grad_enabled
_inference = torch.is_inference_mode_enabled
_GRAD_SWITCH = torch.set_grad_enabled
_PLAIN_STATES = {grad: ModeState(grad, False, "") for grad in (True, False)}


def mode_state() -> ModeState:
    """The current modes of this thread."""
    if not _inference() and not any_autocast():
        return _PLAIN_STATES[_grad()]
    found = [f"{device} {dtype_facts(dtype)[0]}" for device, dtype in autocast_dtypes()]
    return ModeState(_grad(), _inference(), ", ".join(found) or ("on" if any_autocast() else ""))


class Regions:
    """Opens and closes the scopes of regions."""

    def __init__(self, tape: Tape, sources: Sources) -> None:
        self.tape = tape
        self.sources = sources
        self.calls = PythonCalls(tape, sources)
        self.function: PythonCall | None = None  # the innermost call
        self.deferred_exits: DeferredExits
        self.direct: DirectCalls
        self._in_pass = False
        self._around_switch: list[Any] = []  # direct calls that ran when grad mode was switched
        self.outside = self.state = mode_state()
        self._synced: tuple[OpenScope | None, ModeState] = None, self.state
        self.entered: Callable[[Scope, Any], None] = lambda event, key: None

    def locate(self, frame: FrameType | None, *, in_pass: bool = False) -> SourceLine | None:
        """The user's line at *frame*; opens and closes regions, so that those around it are open.

        *in_pass*: a backward pass runs there, and not a hook of the user.
        """
        self._in_pass = in_pass
        if self.deferred_exits.waiting:
            self.deferred_exits.close_finished(frame)
        line, found, frames, end = self.sources.walk(frame)
        calls = self.deferred_exits.open
        if calls and calls[-1][1].frame is not end:
            if self.tape.thread == threading.get_ident():  # the stack of others begins elsewhere
                self.deferred_exits.close_interrupted(frame)
        for region in found:
            if region.forward is not None:
                found = self.direct.without_known(found)
                break
        stack = self.tape.stack
        state = self.state = mode_state()
        opened: list[tuple[Region, ScopeId | None]] = []
        if stack and stack[-1].key is None:  # no region is open
            if found or state is not stack[-1].state and state != stack[-1].state:
                opened = self._sync(found, state)
        elif (found or stack or state != self.outside) and not self._is_current(found, state):
            opened = self._sync(found, state)
        self.function = self.calls.innermost(frames, found) if frames else None
        for region, scope in opened:
            around = frames[region.inside :] if scope is not None else []
            caller = self.calls.last_in(around[0]) if around else None
            if caller is not None and scope is not None:
                caller.inside.append(scope)
        if line is None:  # use that of an open scope
            for outer in reversed(stack):
                if outer.event.source is not None:
                    return outer.event.source
        return line

    def module_called(self, scope: ScopeId) -> None:
        """Add the *scope* of a module to the Python function that the last `locate` found."""
        if self.function is not None:
            self.function.inside.append(scope)

    def grad_mode_switched(self, frame: FrameType, on: bool) -> None:
        """Grad mode is set to *on* in *frame*: close the blocks that end here.

        An open block does not end where a block inside it begins or ends; it has ended if its
        autocast or inference mode is off.
        """
        self._synced = None, self.state
        try:
            found = self.sources.walk(frame)[1]
        except InternalWork:
            return
        running = [region.key for region in found]
        self._around_switch = [region.key for region in found if region.forward is not None]
        begins, now = _begins_grad_block(frame), mode_state()
        opened = self._open()
        while opened:
            last = opened.pop()
            key = last.key
            if any(key is one for one in running):
                break
            if isinstance(key, ModeState) and (begins or last.around_other or key.grad is on):
                modes = (item.key for item in reversed(opened) if isinstance(item.key, ModeState))
                around = next(modes, None) or self._modes_at_entry()
                if not _has_ended(key, around, now._replace(grad=key.grad)):
                    last.around_other = key.grad is not on
                    break
            self.close(last)

    def _modes_at_entry(self) -> ModeState:
        """The modes at the beginning of the innermost module call."""
        for opened in reversed(self.tape.stack):
            if opened.key is None:
                return opened.state  # type: ignore[no-any-return]
        return self.outside

    def _is_current(self, regions: list[Region], state: ModeState) -> bool:
        """Whether regions and modes are those of the last `_sync`, so that nothing changes."""
        stack = self.tape.stack
        top, before = self._synced
        if state is not before or len(regions) > 1 or not stack or stack[-1] is not top:
            return False
        if top.key is not (regions[0].key if regions else state):
            return False
        return len(stack) == 1 or stack[-2].key is None

    def _sync(self, regions: list[Region], state: ModeState) -> list[tuple[Region, ScopeId | None]]:
        """Close and open regions until *regions* and modes are open; returns the opened regions.

        Their scopes are new, or None for a generator that goes on.
        """
        wanted: list[Any] = [item for item in reversed(regions) if _is_shown(item)]
        at_entry, opened = self._modes_at_entry(), self._open()
        loads = bool(wanted) and wanted[0].kind is ScopeKind.DATA_LOADER
        switched = self._in_hook() or not loads and any(item.forward is None for item in wanted)
        around = _still_on(opened, at_entry, state, switched)
        at_entry = around[-1] if around else at_entry
        kind = _mode_kind(at_entry, state, switched)
        mode = [state] if kind is not None else []
        if loads:
            wanted = [*_around(wanted[0], opened, [*around, *mode]), *wanted]
        else:
            place = self._place_of_mode(wanted, opened)
            wanted = [*around, *wanted[:place], *mode, *wanted[place:]]
        same = 0
        while same < min(len(opened), len(wanted)) and _is_of(opened[same], wanted[same]):
            same += 1
        for entry in reversed(opened[same:]):
            self.close(entry)
        begun = []
        for item in wanted[same:]:
            if isinstance(item, ModeState):
                assert kind is not None
                detail = _mode_detail(kind, at_entry, state)
                self.tape.enter(kind, kind.value, cls=detail).key = state
            else:
                begun.append((item, self._enter(item)))
        self._synced = self.tape.stack[-1] if self.tape.stack else None, state
        return begun

    def _place_of_mode(self, wanted: list[Region], opened: list[OpenScope]) -> int:
        """The number of regions around a new mode; direct calls that began in it are inside."""
        known = [*self._around_switch, *(item.key for item in opened)]
        for place, item in enumerate(wanted):
            if item.forward is not None and not any(item.key is key for key in known):
                return place
        return len(wanted)

    def _in_hook(self) -> bool:
        """Whether a hook of a backward pass runs, for which the engine has set grad mode."""
        stack = self.tape.stack
        return current_graph_task() != -1 and not (stack and stack[-1].event.recompute)

    def _open(self) -> list[OpenScope]:
        """The regions that are open in the innermost module call, outermost first."""
        opened: list[OpenScope] = []
        for item in reversed(self.tape.stack):
            if item.key is None:
                break
            opened.append(item)
        return opened[::-1]

    def _enter(self, region: Region) -> ScopeId | None:
        kind, key, source = region.kind, region.key, self.sources.walk(region.outside)[0]
        if self.direct.resume(region):
            return None
        if region.forward is not None:
            opened = self.direct.enter(region, source, self.state)
        else:
            name = self.sources.steps.get(id(key)) or _name_of(region, source)
            place = len(self.tape.events)
            opened = self.tape.enter(kind, name, cls=name, source=source, recompute=self._in_pass)
        opened.key = key
        self.entered(opened.event, key)
        if kind is ScopeKind.SHARDING:
            self.tape.sharding.add(opened.scope)
        if kind is ScopeKind.CUSTOM_FUNCTION:
            self.tape.functions.add(opened.scope)
            self.tape.last_functions[opened.event.name] = opened.scope, place
        return opened.scope

    def close(self, opened: OpenScope, *, failed: bool = False) -> None:
        """Close a region, which must be the innermost scope."""
        left = self.tape.leave()
        assert left is opened
        if opened.ends is not None:
            opened.ends()
        opened.key = None
        self.tape.end(opened, None if opened.results_unseen else (), failed)

    def exit(self, frame: FrameType) -> None:
        """Close the region of the function that runs in *frame*, and the regions inside it."""
        opened = self._open()
        while any(item.key is frame for item in opened):
            self.close(opened.pop())


def _begins_grad_block(frame: FrameType) -> bool:
    """Whether *frame*, or the frame around it, enters a block such as ``no_grad``.

    ``set_grad_enabled`` sets the mode in ``__init__``, before its block is entered.
    """
    around = frame.f_back
    if around is None:
        return False
    made = frame.f_code is _GRAD_SWITCH.__init__.__code__
    maker = around.f_back if around.f_code is _GRAD_SWITCH.clone.__code__ else around
    if made and maker is not None and enters_result(maker):
        return True
    return "__enter__" in (frame.f_code.co_name, around.f_code.co_name)


def _name_of(region: Region, source: SourceLine | None = None) -> str:
    """The name of *region*; that of an average, if *source* is the line that updates it, has the
    name of the averaged model."""
    kind, key = region.kind, region.key
    if kind is ScopeKind.CUSTOM_FUNCTION:
        return str(getattr(class_of(key), "__name__", kind.value))
    if kind is ScopeKind.OPTIMIZER:
        return str(type(key.f_locals["args"][0]).__name__)
    if kind is ScopeKind.CONSTRUCTION:
        return f"{type(first_local(key)).__name__}.__init__"
    if kind is ScopeKind.SHARDING:
        return SHARDING_NAMES[key.f_code.co_name]
    if kind in (ScopeKind.CHECKPOINT, ScopeKind.PIPELINE_SETUP):
        return str(kind.value)
    name = str(key.f_code.co_name)
    if kind is ScopeKind.AVERAGING:
        model: Any = first_local(key)
        average = name_of_call(model, key, source)
        return f"{average}.{name}" if average else name
    if kind is ScopeKind.SCALER and name != PIPELINE_SCALING:
        return f"GradScaler.{name}"
    if kind is ScopeKind.DATA_LOADER:
        return "DataLoader" if name == "__next__" else f"DataLoader.{name}"
    return name


def _is_shown(region: Region) -> bool:
    """Whether *region* gets a scope: not the custom function that implements checkpointing, and not
    ``zero_grad(set_to_none=True)``, which runs no op."""
    if region.kind is ScopeKind.ZEROING:
        return not region.key.f_locals.get("set_to_none", True)
    return region.kind is not ScopeKind.CUSTOM_FUNCTION or _name_of(region) != CHECKPOINT_FUNCTION


def _mode_kind(at_entry: ModeState, state: ModeState, switched: bool) -> ScopeKind | None:
    """The mode that differs from those *at_entry* of the module call, or None.

    *switched*: PyTorch, and not the program, may have switched gradients off.
    """
    if state.inference and not at_entry.inference:
        return ScopeKind.INFERENCE_MODE
    if state.autocast != at_entry.autocast and state.autocast:
        return ScopeKind.AUTOCAST
    if state.grad and not at_entry.grad:
        return ScopeKind.ENABLE_GRAD
    if at_entry.grad and not state.grad and not switched:
        return ScopeKind.NO_GRAD
    return None


def _mode_detail(kind: ScopeKind, at_entry: ModeState, state: ModeState) -> str:
    """The dtypes of autocast, and another mode that differs from those *at_entry*."""
    if kind is ScopeKind.INFERENCE_MODE and state.autocast not in ("", at_entry.autocast):
        return f"{ScopeKind.AUTOCAST.value} {state.autocast}"
    if kind is not ScopeKind.AUTOCAST:
        return ""
    if state.grad == at_entry.grad:
        return state.autocast
    grad = ScopeKind.ENABLE_GRAD if state.grad else ScopeKind.NO_GRAD
    return f"{state.autocast}, {grad.value}"


def _still_on(
    opened: list[OpenScope], at_entry: ModeState, state: ModeState, switched: bool
) -> list[ModeState]:
    """The open modes around all other regions that are still on.

    *switched*: PyTorch may have switched gradients off inside.
    """
    found: list[ModeState] = []
    for item in opened:
        mode = item.key
        if not isinstance(mode, ModeState):
            break
        other = item.around_other or switched and not state.grad
        now = state._replace(grad=mode.grad) if other else state
        if _has_ended(mode, at_entry, now):
            break
        found.append(mode)
        at_entry = mode
    return found


def _has_ended(mode: ModeState, around: ModeState, now: ModeState) -> bool:
    """Whether a setting in which *mode* differs from the modes *around* it is off *now*."""
    return any(own not in (before, later) for own, before, later in zip(mode, around, now))


def _around(loader: Region, opened: list[OpenScope], modes: list[ModeState]) -> list[ModeState]:
    """The modes around a call of a data loader: those at its beginning."""
    if any(item.key is loader.key for item in opened):
        return [item.key for item in opened if isinstance(item.key, ModeState)]
    return modes


def _is_of(opened: OpenScope, wanted: Region | ModeState) -> bool:
    """Whether the scope *opened* is that of the region or mode *wanted*."""
    if isinstance(wanted, ModeState):
        return isinstance(opened.key, ModeState) and opened.key == wanted
    return opened.key is wanted.key
