"""DeferredExits: scopes of modules that have returned, but whose own hooks still run.

The recorder's hook is global, and PyTorch runs it before the hooks of the module. Those belong to
the module's call, and may change its result. PyTorch does not report when they are done: that is
detected when something runs outside the frame in which PyTorch calls hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from torchrecorder.capture.internals.access import CALL_CODE
from torchrecorder.capture.scope import OpenScope


class DeferredExit(NamedTuple):
    """A scope whose exit is deferred."""

    opened: OpenScope
    frame: FrameType  # in which PyTorch runs the hooks, with the result as a local
    since: float
    index: int  # type: ignore[assignment]  # where the run was when the module returned

    @property
    def result(self) -> Any:
        """The result of the call, after all hooks."""
        return self.frame.f_locals.get("result")

    def failed(self, error: BaseException | None) -> bool:
        """Whether a hook of this call raised *error*."""
        traceback = error.__traceback__ if error is not None else None
        while traceback is not None:
            if traceback.tb_frame is self.frame:
                return True
            traceback = traceback.tb_next
        return False


class DeferredExits:
    """The scopes with a deferred exit, innermost last, which *finish* closes."""

    def __init__(
        self,
        open: list[tuple[int, OpenScope]],
        finish: Callable[[DeferredExit, BaseException | None], None],
    ) -> None:
        self.open = open
        self.finish = finish
        self.waiting: list[DeferredExit] = []

    def settle(self, frame: FrameType | None, error: BaseException | None = None) -> None:
        """Something runs in *frame*: close the scopes whose hooks are done."""
        while self.waiting and self._is_over(self.waiting[-1], frame):
            self.finish(self.waiting.pop(), error)

    def forget_closed(self) -> None:
        """The scopes that wait and are no longer open were closed by something else."""
        still = {id(opened) for _, opened in self.open}
        self.waiting = [last for last in self.waiting if id(last.opened) in still]

    def _is_over(self, last: DeferredExit, frame: FrameType | None) -> bool:
        if self.open[-1][1] is not last.opened:
            return False  # a hook called a module
        while frame is not None and frame is not last.frame and frame.f_code is not CALL_CODE:
            frame = frame.f_back
        return frame is not last.frame
