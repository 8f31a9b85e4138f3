"""AppliedFunctions: find the custom ``autograd.Function`` that is running.

Up to torch 2.13, ``Function.apply`` is written in Python: its frame is on the stack while the
function runs. From 2.14 on it is written in C and has no frame. But before it calls ``forward``, it
creates the context of the function, an instance of ``BackwardCFunction``. While a recorder is
active, ``__init__`` of that class is patched: it stores the function and the current instruction of
the caller. As long as the caller's frame is at this instruction, the function is running.

An alias of the recorder that a custom function returns would get a wrong gradient. So the detection
is first tested with a function of the recorder.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, Union

import torch
from torch.autograd.function import BackwardCFunction, Function

from torchrecorder.capture.internals.access import apply_code, forward_gradients, get_frame
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced
from torchrecorder.capture.tape import Tape

FindFunctions = Callable[[Union[FrameType, None]], list[Any]]
"""Returns the custom functions that run around a frame, innermost first; see `class_of`."""

_UNRECOGNIZED = (
    "a module that returned its own input is not distinguished from that input, because running "
    "custom autograd functions cannot be recognized here"
)

_inference = torch.is_inference_mode_enabled


class Applied(NamedTuple):
    """A call of ``apply`` of a custom function."""

    cls: type[Function]
    instruction: int  # the position in the caller's code while the function runs

    def is_running(self, caller: FrameType, callee: FrameType | None) -> bool:
        """Whether the function has not returned yet.

        The same instruction may also call another function, as in ``for call in (F.apply, g)``. But
        forward-mode AD is disabled inside a custom function, and otherwise only in inference mode.
        A function that leaves inference mode enables it again. *callee* is the frame directly
        inside *caller*; None if C code is running there.
        """
        if caller.f_lasti != self.instruction:
            return False
        if not forward_gradients() and (callee is None or not _inference()):
            return True
        return callee is not None and callee.f_code in _codes_of(self.cls)


class AppliedFunctions:
    """A context that stores the running custom functions of this thread."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.recognized = False
        self._warned = False
        self.found: dict[int, Applied] = {}  # by id of the caller's frame

    def __enter__(self) -> AppliedFunctions:
        _contexts.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _contexts.remove(self)
        self.found.clear()

    def applied(self, cls: type[Function], caller: FrameType) -> None:
        """Store that *caller* applies the custom function *cls*."""
        self.found[id(caller)] = Applied(cls, caller.f_lasti)

    def fail(self, error: Exception) -> None:
        """Record that a custom function was not stored: one may be running from now on."""
        self.recognized = False
        self.tape.record_error("custom functions", error)

    def running(self, caller: FrameType, callee: FrameType | None) -> Applied | None:
        """The function that *caller* is applying; see `Applied.is_running`."""
        applied = self.found.get(id(caller))
        if applied is None or applied.is_running(caller, callee):
            return applied
        if applied.instruction != caller.f_lasti:
            del self.found[id(caller)]
        return None

    def check_recognition(self, find_functions: FindFunctions) -> None:
        """Test whether *find_functions* works in this thread, with this version of PyTorch."""
        try:
            self.recognized = _works(find_functions)
        except Exception:  # in a torch.func transformation, which rejects it
            self.recognized = False

    def may_run(self, frame: FrameType | None, find_functions: FindFunctions) -> bool:
        """Whether a custom function may be running around *frame*."""
        if self.recognized:
            return bool(find_functions(frame))
        if not self._warned:
            self._warned = True
            self.tape.record_error("custom functions", RuntimeError(_UNRECOGNIZED))
        return True


def class_of(running: FrameType | Applied) -> Any:
    """The class of a running function: of a call that was stored, or in a frame of ``apply``."""
    return running.cls if isinstance(running, Applied) else running.f_locals.get("cls")


# Contexts ---------------------------------------------------------------------------------

_plain_init: Any = BackwardCFunction.__init__


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Replaces ``BackwardCFunction.__init__``: a custom function is about to run."""
    for item in _contexts.users:
        try:
            if not item.tape.is_elsewhere():
                item.applied(type(self)._forward_cls, get_frame(1))
        except Exception as error:
            item.fail(error)
    _plain_init(self, *args, **kwargs)


def _patched() -> contextlib.AbstractContextManager[None]:
    if apply_code() is not None:
        return contextlib.nullcontext()  # its frame is on the stack
    return replaced(BackwardCFunction, "__init__", _init)


_contexts: SharedPatch[AppliedFunctions] = SharedPatch(_patched)


def _codes_of(cls: type[Function]) -> list[CodeType | None]:
    """The code objects that PyTorch calls first when it runs the forward of a function."""
    codes = []
    methods: tuple[Any, ...] = cls.forward, cls.setup_context
    for method in methods:
        while isinstance(method, functools.partial):
            method = method.func
        if not hasattr(method, "__code__"):
            method = type(method).__call__
        codes.append(getattr(method, "__code__", None))
    return codes


# Trial ------------------------------------------------------------------------------------


class _TrialFunction(Function):
    """Calls *look* in its forward."""

    @staticmethod
    def forward(ctx: Any, look: Callable[[], None]) -> None:  # type: ignore[override]
        """Call *look*."""
        look()


def _look(look: Callable[[], None]) -> None:
    """Call *look* outside of a custom function."""
    look()


_known: list[bool] = []


def _works(find_functions: FindFunctions) -> bool:
    """Whether *find_functions* finds a custom function inside one, and none outside; cached."""
    if not _known:
        found: list[list[Any]] = []
        with torch.inference_mode(False):
            for call in (_TrialFunction.apply, _look):
                call(lambda: found.append([class_of(item) for item in find_functions(get_frame())]))
        _known.append(found == [[_TrialFunction], []])
    return _known[0]
