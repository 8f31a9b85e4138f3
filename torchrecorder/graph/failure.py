"""Failure: the error that ended a run."""

from __future__ import annotations

from dataclasses import dataclass

from torchrecorder.events import GradId, OpId, ScopeId, SourceLine


@dataclass(frozen=True)
class Failure:
    """An exception and where it was raised; or where a run was that was saved before its end.

    Attributes:
        error: The class of the exception, or `UNFINISHED`.
        message: The first line of its message.
        scope: The innermost scope.
        op: The operation.
        backward: Whether it was raised in a backward pass.
        grad: The grad node in whose run it was raised.
        communication: The index of the communication that it waited for.
        source: The innermost line of the user's code that raised it. In a backward pass, a line
            that the pass ran, such as that of a hook. None if unknown or unfinished.
    """

    error: str
    message: str
    scope: ScopeId | None
    op: OpId | None
    backward: bool
    grad: GradId | None = None
    communication: int | None = None
    source: SourceLine | None = None

    def text(self, message: str | None = None, *, folder: bool = True) -> str:
        """``"IndexError at net.py:12: list index out of range"``.

        Args:
            message: A shorter message.
            folder: Whether the name of the file has its folder.
        """
        source, message = self.source, message or self.message
        line = "" if source is None else f" at {source.place if folder else source.file_line}"
        return f"{self.error}{line}" + (f": {message}" if message else "")
