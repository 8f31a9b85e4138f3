"""PythonCalls: the calls of Python functions between a module (or the block) and its operations.

The stack frames show which functions are running; a `FrameMark` shows whether a frame was seen
before. The frame of a generator is identified by its address.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from traceback import walk_stack
from types import CodeType, FrameType
from typing import Any, NamedTuple

from torchrecorder.capture.hooks.frame_marks import GENERATOR_FLAGS, OUTSIDE, FrameMark, mark_of
from torchrecorder.capture.hooks.source import Region, Sources, first_local
from torchrecorder.capture.internals.access import get_frame
from torchrecorder.capture.modes.call_site import is_call_site
from torchrecorder.capture.modes.python_functions import unwrapped
from torchrecorder.capture.tape import Tape
from torchrecorder.events import (
    OF_CLASS, FunctionCall, FunctionId, OpId, ScopeId, ScopeKind, SourceLine,
)

_UNSURE: Any = object()
"""Marks frames `OUTSIDE` until it is known whether a later step runs in them, too."""

_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>"))
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_INSTALLED = ("site-packages", "dist-packages")
_BACKPORT = f"{os.sep}typing_extensions.py"
"""A backport of the standard library, whose ``deprecated`` wraps functions of PyTorch."""


class FunctionPlace(NamedTuple):
    """A Python function, and the file and line of its definition."""

    name: str
    file: str
    line: int


@dataclass(eq=False, slots=True)
class PythonCall:
    """A call of a Python function, and the ops and scopes directly in it."""

    id: FunctionId
    parent: PythonCall | None
    scope: ScopeId | None
    function: FunctionPlace
    source: SourceLine | None
    is_unsure: bool  # began before the recording
    inside: list[str] = field(default_factory=list)  # ids of ops and scopes

    def event(self, parent: FunctionId | None) -> FunctionCall:
        """The event of the call, in the call *parent*."""
        ops = tuple([OpId(item) for item in self.inside if item[0] == "o"])
        scopes = tuple([ScopeId(item) for item in self.inside if item[0] == "s"])
        return FunctionCall(self.id, parent, self.scope, *self.function, self.source, ops, scopes)


class _UnmarkedFrame(NamedTuple):
    """The frame of a generator, as it was last seen."""

    code: CodeType
    running: PythonCall | None


class PythonCalls:
    """A context that records the calls of Python functions inside it."""

    def __init__(self, tape: Tape, sources: Sources) -> None:
        self.tape = tape
        self.sources = sources
        self.found: list[PythonCall] = []
        self._functions: dict[int, FunctionPlace | None] = {}
        self._codes: list[CodeType] = []  # keeps the code objects, and so their ids, alive
        self._unmarked: dict[int, _UnmarkedFrame] = {}
        self._has_begun = False
        self._around_steps: set[Any] | None = None  # the calls that run when the last step begins

    def __enter__(self) -> PythonCalls:
        entered = get_frame(1)
        if not self.sources.is_in_region(entered):  # else regions around the block count
            self.sources.calls = self
        for frame, _ in walk_stack(entered):
            self._mark(frame, OUTSIDE)
        return self

    def step_begins(self, frame: FrameType) -> None:
        """One of several steps begins in *frame*; the recording began inside the first.

        The functions that ran then are calls of the first step if they end before the last step
        begins: later steps call them again. The others, around all steps, are outside.
        """
        is_first, self._has_begun = not self._has_begun, True
        around: set[Any] = set()
        for outer, _ in walk_stack(frame):
            if is_first and outer.f_back is not None:
                mark = mark_of(outer)
                if mark is None:
                    break  # it, and frames around it, would not be found again
                mark[self] = _UNSURE
            around.add(self._last_in(outer))
        self._around_steps = None if is_first else around

    def __exit__(self, *error: object) -> None:
        for frame, _ in walk_stack(get_frame(1)):
            mark = frame.f_trace
            if type(mark) is FrameMark:
                mark.remove(frame, self)
        self._unmarked.clear()

    def finish(self) -> None:
        """Write the events of the calls with ops or scopes."""
        wanted: set[PythonCall] = set()
        for running in self.found:
            around: PythonCall | None = running if running.inside else None
            while around is not None and around not in wanted:
                wanted.add(around)
                around = around.parent
        for running in self.found:
            if running in wanted and not self._is_outside(running):
                around = running.parent
                inside = around is not None and not self._is_outside(around)
                self.tape.write(running.event(around.id if around and inside else None))
        self.found.clear()

    def _is_outside(self, running: PythonCall) -> bool:
        """Whether this call began before the recording, and is not one of its first step."""
        around = self._around_steps
        return running.is_unsure and (around is None or running in around)

    def innermost(
        self, frames: Sequence[FrameType], regions: Sequence[Region]
    ) -> PythonCall | None:
        """The call of the innermost function in *frames*; new calls are recorded.

        Args:
            frames: Frames of the user's code, innermost first.
            regions: The regions among them, innermost first.
        """
        new: list[int] = []
        for place, frame in enumerate(frames):
            known = self._known(frame)
            if known is not None:
                running = known[0]
                break
            new.append(place)
        else:
            running, new = None, self._inside_forward(frames)
        if running is OUTSIDE:
            running = None
            if new and self._is_function():
                self._mark(frames[new.pop()], None)
        for place in reversed(new):
            running = self._begin(frames, place, regions, running)
        return running

    def last_in(self, frame: FrameType) -> PythonCall | None:
        """The call of *frame* when `innermost` last saw it, or None."""
        running = self._last_in(frame)
        return running if type(running) is PythonCall else None

    def _last_in(self, frame: FrameType) -> PythonCall | None:
        mark = frame.f_trace
        if type(mark) is FrameMark:
            return mark.get(self)
        seen = self._unmarked.get(id(frame))
        return seen.running if seen is not None and seen.code is frame.f_code else None

    def _known(self, frame: FrameType) -> tuple[PythonCall | None] | None:
        """The call of *frame* in a tuple; None if the frame is new.

        Every ``next`` may resume a generator from another call, so generators count as new, except
        those around the block.
        """
        if frame.f_code.co_flags & GENERATOR_FLAGS:
            return (OUTSIDE,) if self._last_in(frame) is OUTSIDE else None
        mark = frame.f_trace
        if type(mark) is FrameMark:
            running = mark.get(self, _UNSURE)
            return (running,) if running is not _UNSURE else None
        return None

    def _inside_forward(self, frames: Sequence[FrameType]) -> list[int]:
        """The indices of the frames inside the outermost ``forward``."""
        names = [frame.f_code.co_name for frame in frames]
        first = len(names) - 1 - (names[::-1].index("forward") if "forward" in names else 0)
        for frame in frames[first:]:
            self._mark(frame, None)
        return list(range(first))

    def _is_function(self) -> bool:
        """Whether the innermost call is that of a recorded function, not of a module."""
        calls = [opened for opened in self.tape.stack if opened.key is None]
        return bool(calls) and calls[-1].event.kind is ScopeKind.FUNCTION

    def _begin(
        self,
        frames: Sequence[FrameType],
        place: int,
        regions: Sequence[Region],
        parent: PythonCall | None,
    ) -> PythonCall | None:
        frame = frames[place]
        function = self._function(frame.f_code)
        running = parent
        if function is not None:
            caller = frames[place + 1] if place + 1 < len(frames) else None
            source = self.sources.line_of(caller) if caller is not None else None
            scope = self._scope(place, regions)
            name = _name_for(frame, function.name)
            if name != function.name:
                function = function._replace(name=name)
            number, unsure = self.tape.next_function(), self._last_in(frame) is _UNSURE
            running = PythonCall(number, parent, scope, function, source, unsure)
            self.found.append(running)
        self._mark(frame, running)
        return running

    def _mark(self, frame: FrameType, running: PythonCall | None) -> None:
        mark = mark_of(frame)
        if mark is not None:
            mark[self] = running
        else:
            self._unmarked[id(frame)] = _UnmarkedFrame(frame.f_code, running)

    def _scope(self, place: int, regions: Sequence[Region]) -> ScopeId | None:
        """The innermost module call or region around the frame at index *place*."""
        keys = [region.key for region in regions if region.inside > place]
        for opened in reversed(self.tape.stack):
            if opened.key is None or any(opened.key is key for key in keys):
                return opened.scope
        return self.tape.outer_scope

    def _function(self, code: CodeType) -> FunctionPlace | None:
        """The function of *code*; None for code that is not shown as a function."""
        key = id(code)
        if key not in self._functions:
            self._codes.append(code)
            self._functions[key] = _function_of(code, self.sources.file(code.co_filename))
        return self._functions[key]


def _name_for(frame: FrameType, name: str) -> str:
    """*name*; for the method that runs when an object or a class is called, with the class that the
    program calls, not the base class or metaclass that defines the method.

    A method that another one calls by ``super()`` has the class that defines it.
    """
    method = name.rpartition(".")[2]
    if method not in OF_CLASS:
        return name
    called: Any = first_local(frame)
    own: Any = getattr(type(called), method, None)
    if getattr(unwrapped(own), "__code__", None) is not frame.f_code:
        return name
    cls = called if issubclass(type(called), type) else type(called)
    return f"{cls.__qualname__}.{method}"


def _function_of(code: CodeType, file: str | None) -> FunctionPlace | None:
    """The function of *code*; None for comprehensions, generators, and the standard library."""
    if code.co_filename.endswith(_BACKPORT):
        return None
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & GENERATOR_FLAGS
    if not is_function or file is None or code.co_name in _COMPREHENSIONS or is_call_site(code):
        return None
    if code.co_filename.startswith(_STANDARD_LIBRARY) and not any(
        folder in code.co_filename for folder in _INSTALLED
    ):
        return None
    return FunctionPlace(getattr(code, "co_qualname", code.co_name), file, code.co_firstlineno)
