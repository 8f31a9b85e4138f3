"""PythonCalls: which Python functions run between a module, or the block, and its operations.

Frames tell which functions are running, but not whether a frame is the one seen before: two calls
from one loop often have their frames at the same address, and to hold frames would keep alive the
tensors in them. So a frame that was met is marked where debuggers keep its trace function, which
Python calls for frames that are being traced, and drops with the frame. The mark traces nothing.
Where a debugger has a frame, the positions in the code have to tell.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from torchrecorder.capture.internals.access import get_frame
from torchrecorder.capture.modes.call_site import is_call_site
from torchrecorder.events import FunctionCall, FunctionId, OpId, ScopeId, ScopeKind, SourceLine

if TYPE_CHECKING:
    from torchrecorder.capture.hooks.source import Region, Sources
    from torchrecorder.capture.tape import Tape

_OUTSIDE: Any = object()
"""In place of the call that a frame is, where it ran before everything that is recorded."""

_COMPREHENSIONS = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>"))
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
_INSTALLED = ("site-packages", "dist-packages")


class Function(NamedTuple):
    """Where a Python function is defined."""

    name: str
    file: str
    line: int


class Running:
    """A call of a Python function, and what ran directly in it."""

    __slots__ = ("id", "parent", "scope", "function", "source", "inside")

    def __init__(
        self,
        call: FunctionId,
        parent: Running | None,
        scope: ScopeId | None,
        function: Function,
        source: SourceLine | None,
    ) -> None:
        self.id = call
        self.parent = parent
        self.scope = scope
        self.function = function
        self.source = source
        self.inside: list[str] = []  # ids of ops and scopes

    def event(self) -> FunctionCall:
        """What the run states of it."""
        parent = self.parent.id if self.parent is not None else None
        ops = tuple(OpId(item) for item in self.inside if item[0] == "o")
        scopes = tuple(ScopeId(item) for item in self.inside if item[0] == "s")
        return FunctionCall(
            self.id, parent, self.scope, *self.function, self.source, ops, scopes
        )


class Mark(dict[object, Any]):
    """What each recorder knows of a frame: the call that it is, None if it is none of its own."""

    def __call__(self, *event: object) -> None:
        """Asked by Python whether to trace the frame, when tracing begins meanwhile: no."""


class _Seen(NamedTuple):
    """A frame that a debugger has, when it was last met."""

    code: CodeType
    parent: Running | None
    position: int
    running: Running | None


class PythonCalls:
    """A context that knows the calls of Python functions from when it was entered."""

    def __init__(self, tape: Tape, sources: Sources) -> None:
        self.tape = tape
        self.sources = sources
        self.found: list[Running] = []
        self._functions: dict[int, Function | None] = {}
        self._codes: list[CodeType] = []  # so that no other code gets the id of one of these
        self._traced: dict[int, _Seen] = {}

    def __enter__(self) -> PythonCalls:
        frame: FrameType | None = get_frame(1)
        while frame is not None:
            self._mark(frame, _OUTSIDE, None)
            frame = frame.f_back
        return self

    def __exit__(self, *error: object) -> None:
        frame: FrameType | None = get_frame(1)
        while frame is not None:
            mark = frame.f_trace
            if type(mark) is Mark:
                mark.pop(self, None)
                frame.f_trace = mark or None
            frame = frame.f_back
        self._traced.clear()

    def finish(self) -> None:
        """State the calls in which something ran."""
        wanted: set[Running] = set()
        for running in self.found:
            around: Running | None = running if running.inside else None
            while around is not None and around not in wanted:
                wanted.add(around)
                around = around.parent
        for running in self.found:
            if running in wanted:
                self.tape.write(running.event())
        self.found.clear()

    def innermost(
        self, frames: Sequence[FrameType], regions: Sequence[Region]
    ) -> Running | None:
        """The innermost call of a function among *frames*, which may have begun since.

        Args:
            frames: Those of the user and of libraries, innermost first.
            regions: The regions that run around some of them, which are open; innermost first.
        """
        fresh: list[int] = []
        for place, frame in enumerate(frames):
            known = self._known(frame)
            if known is not None:
                running = known[0]
                break
            fresh.append(place)
        else:
            running, fresh = None, self._inside_forward(frames)
        if running is _OUTSIDE:
            running = None
            if fresh and self._is_function():
                self._mark(frames[fresh.pop()], None, None)
        for place in reversed(fresh):
            running = self._begin(frames, place, regions, running)
        return running

    def _known(self, frame: FrameType) -> tuple[Running | None] | None:
        """The call that *frame* is, in a tuple; None if the frame was not met before."""
        mark = frame.f_trace
        if type(mark) is Mark:
            return (mark[self],) if self in mark else None
        seen = self._traced.get(id(frame)) if mark is not None else None
        if seen is None or seen.code is not frame.f_code:
            return None
        if seen.running is not None and frame.f_lasti <= seen.position:
            return None
        self._traced[id(frame)] = seen._replace(position=frame.f_lasti)
        return (seen.running,)

    def _inside_forward(self, frames: Sequence[FrameType]) -> list[int]:
        """The places of frames of a module's call that are not its ``forward`` or around that."""
        names = [frame.f_code.co_name for frame in frames]
        first = len(names) - 1 - (names[::-1].index("forward") if "forward" in names else 0)
        for frame in frames[first:]:
            self._mark(frame, None, None)
        return list(range(first))

    def _is_function(self) -> bool:
        """Whether it is a plain function that is recorded as if it were a module."""
        calls = [opened for opened in self.tape.stack if opened.key is None]
        return bool(calls) and calls[-1].event.kind is ScopeKind.FUNCTION

    def _begin(
        self,
        frames: Sequence[FrameType],
        place: int,
        regions: Sequence[Region],
        parent: Running | None,
    ) -> Running | None:
        frame = frames[place]
        function = self._function(frame.f_code)
        running = parent
        if function is not None:
            caller = frames[place + 1] if place + 1 < len(frames) else None
            source = self.sources.line_of(caller) if caller is not None else None
            scope = self._scope(place, regions)
            running = Running(self.tape.next_function(), parent, scope, function, source)
            self.found.append(running)
        self._mark(frame, running, parent)
        return running

    def _mark(
        self, frame: FrameType, running: Running | None, parent: Running | None
    ) -> None:
        mark = frame.f_trace
        if mark is None:
            mark = frame.f_trace = Mark()
        if type(mark) is Mark:
            mark[self] = running
        else:
            self._traced[id(frame)] = _Seen(frame.f_code, parent, frame.f_lasti, running)

    def _scope(self, place: int, regions: Sequence[Region]) -> ScopeId | None:
        """The innermost module call or region around the frame at *place*."""
        keys = [region.key for region in regions if region.inside > place]
        for opened in reversed(self.tape.stack):
            if opened.key is None or any(opened.key is key for key in keys):
                return opened.scope
        return self.tape.around

    def _function(self, code: CodeType) -> Function | None:
        """The function that *code* is of; None for what is none of its own to the reader."""
        key = id(code)
        if key not in self._functions:
            self._codes.append(code)
            self._functions[key] = _function_of(code, self.sources.file(code.co_filename))
        return self._functions[key]


def _function_of(code: CodeType, file: str | None) -> Function | None:
    """Comprehensions and what is resumed belong to who asks for it; Python's own are left out."""
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & _RESUMED
    if not is_function or file is None or code.co_name in _COMPREHENSIONS or is_call_site(code):
        return None
    if code.co_filename.startswith(_LIBRARY) and not any(
        folder in code.co_filename for folder in _INSTALLED
    ):
        return None
    return Function(getattr(code, "co_qualname", code.co_name), file, code.co_firstlineno)
