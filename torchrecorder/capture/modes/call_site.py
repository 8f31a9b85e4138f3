"""CallSites: make calls of torch functions appear to come from the user's line.

PyTorch and Python attribute a warning to the calling frame, which filters, "once per place" and
test reports rely on. Between the user's line and a recorded torch function there are frames of the
recorder. So the function is called by a small function whose code has the file, line and globals of
the user's frame.
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

_CALL: CodeType = (lambda func, args, kwargs: func(*args, **kwargs)).__code__


def is_call_site(code: CodeType) -> bool:
    """Whether *code* only calls a function, as that of a `Caller` does."""
    return code.co_code == _CALL.co_code and code.co_varnames == _CALL.co_varnames


class CallSites:
    """For each calling place, a function that calls torch functions as if from there."""

    def __init__(self) -> None:
        self._callers: dict[tuple[int, int], Caller] = {}
        self._codes: list[CodeType] = []  # kept alive, so that their ids are not reused

    def at(self, frame: FrameType) -> Caller:
        """A function that calls another one as if *frame* called it."""
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


def caller_of_function(frame: FrameType) -> FrameType:
    """The frame that calls a torch function, from that in which the function mode is called.

    Functions of PyTorch that are written in Python call the function mode themselves.
    """
    while frame.f_code is _HANDLE and frame.f_back is not None and frame.f_back.f_back:
        frame = frame.f_back.f_back
    return frame


def direct(frame: FrameType) -> Caller:
    """For operators called by the dispatcher, without a line of the user's: a plain call."""
    return _call


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


def _caller(frame: FrameType) -> Caller:
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
    """A line table: every instruction is on the first line, without columns.

    Entries of kind 13, each for up to eight code units, with a line delta of 0; the format is
    described in CPython's ``InternalDocs/code_objects.md``.
    """
    table = bytearray()
    while units > 0:
        table += bytes((0x80 | 13 << 3 | min(units, 8) - 1, 0))
        units -= 8
    return bytes(table)
