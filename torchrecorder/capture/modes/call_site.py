"""CallSites: let warnings of torch functions point to the user's line.

A warning belongs to the line of the calling frame: filters, "once per location" and test reports
depend on it. The recorder adds frames between the user's line and a recorded torch function. So the
function is called by a small function whose code object has the file, line and globals of the
user's frame. Not under a debugger, which would stop in it at a breakpoint of this line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

from torch.overrides import handle_torch_function

from torchrecorder.capture.hooks.source import PACKAGE

Caller = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]

_HANDLE = handle_torch_function.__code__

_TRACERS = ("coverage", "trace")
"""Packages with trace functions that do not stop the program."""

_MONITORS = sys.version_info >= (3, 12)
"""Whether debuggers may use ``sys.monitoring``."""

_DEBUGGER = 0
"""``sys.monitoring.DEBUGGER_ID``, of Python 3.12 and newer."""

_CALL: CodeType = (lambda func, args, kwargs: func(*args, **kwargs)).__code__


def is_call_site(code: CodeType) -> bool:
    """Whether *code* is that of a `Caller`."""
    return code.co_code == _CALL.co_code and code.co_varnames == _CALL.co_varnames


class CallSites:
    """Creates a `Caller` for each instruction that calls torch functions."""

    def __init__(self) -> None:
        self._callers: dict[tuple[int, int], Caller] = {}
        self._codes: list[CodeType] = []  # kept alive, so that their ids are not reused

    def at(self, frame: FrameType) -> Caller:
        """A function that calls a torch function as if *frame* called it."""
        if (_MONITORS or sys.gettrace() is not None) and _is_debugged():
            return _call
        code = frame.f_code
        if code is _HANDLE:
            frame = caller_of_function(frame)
            code = frame.f_code
        place = id(code), frame.f_lasti
        caller = self._callers.get(place)
        if caller is None:
            self._codes.append(code)
            caller = self._callers[place] = _caller(frame)
        return caller

    def clear(self) -> None:
        """Release the globals of the user's modules."""
        self._callers.clear()
        self._codes.clear()


def _is_debugged() -> bool:
    """Whether a debugger is active. Tools that only trace, such as coverage, are none."""
    tracer = sys.gettrace()
    if tracer is not None:
        package = type(getattr(tracer, "__self__", tracer)).__module__.partition(".")[0]
        return package not in _TRACERS
    return sys.version_info >= (3, 12) and sys.monitoring.get_tool(_DEBUGGER) is not None


def caller_of_function(frame: FrameType) -> FrameType:
    """The frame that calls a torch function, given the *frame* that calls the function mode.

    They differ for torch functions written in Python, which call ``handle_torch_function``.
    """
    while frame.f_code is _HANDLE and frame.f_back is not None and frame.f_back.f_back:
        frame = frame.f_back.f_back
    return frame


def direct(frame: FrameType) -> Caller:
    """A plain call, for operators that the dispatcher calls without a line of the user's code."""
    return _call


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


def _caller(frame: FrameType) -> Caller:
    """A `Caller` with the file, line and globals of *frame*."""
    code = frame.f_code
    if code.co_filename.startswith(PACKAGE):
        return _call
    changes: dict[str, Any] = {}
    if sys.version_info >= (3, 11):
        lines = _one_line(len(_CALL.co_code) // 2)
        changes = {"co_linetable": lines, "co_qualname": code.co_qualname}
    placed = _CALL.replace(
        co_filename=code.co_filename,
        co_firstlineno=frame.f_lineno or code.co_firstlineno,
        co_name=code.co_name,
        **changes,
    )
    return FunctionType(placed, frame.f_globals)


def _one_line(units: int) -> bytes:
    """A line table that maps all *units* of code to the first line, without columns.

    It has entries of kind 13, each for up to eight code units, with a line delta of 0. Source:
    CPython's ``InternalDocs/code_objects.md``.
    """
    table = bytearray()
    while units > 0:
        table += bytes((0x80 | 13 << 3 | min(units, 8) - 1, 0))
        units -= 8
    return bytes(table)
