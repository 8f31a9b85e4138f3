"""DeferredExits: scopes of module calls whose end PyTorch does not report.

PyTorch runs the global hook of the recorder before the forward hooks of the module, which belong to
the call and may change its result. It does not report when they are done: the next op or module
call outside the frame in which PyTorch runs them shows it. Nor does it report a call that ends with
an exception such as ``KeyboardInterrupt``, which is no `Exception`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from torchrecorder.capture.internals.access import CALL_CODE
from torchrecorder.capture.scope import OpenScope


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
        traceback = error.__traceback__ if error is not None else None
        while traceback is not None:
            if traceback.tb_frame is self.frame:
                return True
            traceback = traceback.tb_next
        return False


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
        running: set[FrameType | None] = {None}  # a scope without a frame is closed by its caller
        while frame is not None:
            running.add(frame)
            frame = frame.f_back
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
        while frame is not None and frame is not last.frame and frame.f_code is not CALL_CODE:
            frame = frame.f_back
        return frame is not last.frame
