"""Lingering: scopes of modules that have returned, while hooks of the user's still run.

Our own hook is a global one, and PyTorch runs it before those of the module. What these do
belongs to the module's call, and what they return is its result. Nobody tells when they are
done: it is seen when something runs outside the frame in which PyTorch calls hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from torchrecorder.capture.internals.access import CALL_CODE

if TYPE_CHECKING:
    from torchrecorder.capture.scope import OpenScope


class Waiting(NamedTuple):
    """A scope that may not be over yet."""

    opened: OpenScope
    frame: FrameType  # in which PyTorch runs the hooks; has the result in the end
    since: float
    index: int  # type: ignore[assignment]  # where the run was when the module returned

    @property
    def result(self) -> Any:
        """What the call gives, after all hooks."""
        return self.frame.f_locals.get("result")

    def failed(self, error: BaseException | None) -> bool:
        """Whether it was a hook of this call that raised *error*."""
        traceback = error.__traceback__ if error is not None else None
        while traceback is not None:
            if traceback.tb_frame is self.frame:
                return True
            traceback = traceback.tb_next
        return False


class Lingering:
    """The scopes that wait, innermost last.

    Args:
        open: The module calls that are running.
        finish: Closes a scope that waits.
    """

    def __init__(
        self,
        open: list[tuple[int, OpenScope]],
        finish: Callable[[Waiting, BaseException | None], None],
    ) -> None:
        self.open = open
        self.finish = finish
        self.waiting: list[Waiting] = []

    def settle(self, frame: FrameType | None, error: BaseException | None = None) -> None:
        """Something runs in *frame*: close the scopes that are over."""
        while self.waiting and self._is_over(self.waiting[-1], frame):
            self.finish(self.waiting.pop(), error)

    def _is_over(self, last: Waiting, frame: FrameType | None) -> bool:
        if self.open[-1][1] is not last.opened:
            return False  # a hook has called a module
        while frame is not None and frame is not last.frame and frame.f_code is not CALL_CODE:
            frame = frame.f_back
        return frame is not last.frame
