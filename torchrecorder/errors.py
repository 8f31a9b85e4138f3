"""TorchRecorderError and its few children: what can go wrong, and what to do about it."""

from __future__ import annotations


class TorchRecorderError(Exception):
    """Base of every error that torchrecorder raises itself.

    An exception raised by the recorded model is never wrapped in one of these:
    it stays what it was and only gets a note.
    """


class InvalidArgument(TorchRecorderError, ValueError):
    """An argument cannot be used; the message says what was given and what is possible."""


class ArgumentMismatch(TorchRecorderError, TypeError):
    """The model cannot be called with these arguments; the message shows its signature."""


class UnknownFormat(TorchRecorderError, ValueError):
    """A file suffix or format name that no exporter writes."""


class NotThere(TorchRecorderError, KeyError):
    """A scope, op, value or grad node was asked for by an id that this recording does not have."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class UnknownAnnotation(NotThere):
    """A number was asked for that this recording does not have."""


class Notice(UserWarning):
    """Base of the warnings of torchrecorder about what was asked for; all of it was done."""


class LargerThanAPage(Notice):
    """A figure for paper whose width or height alone was given is longer than a page."""


class SmallText(Notice):
    """A figure that was made to fit a place has text that is smaller than what was asked for."""


class NothingFound(Notice):
    """A name or number was asked for that this recording does not have; the rest was done.

    Where nothing else was asked for, as with ``focus=``, it is an `InvalidArgument`.
    """


class LayoutFailed(TorchRecorderError, RuntimeError):
    """Graphviz crashed, or did not finish within its time limit.

    Attributes:
        final: Cheaper settings would not help.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class DoesNotFit(TorchRecorderError, ValueError):
    """A figure would have text that is too small on paper of the size that was asked for."""


class InvalidRecording(TorchRecorderError, ValueError):
    """A file or data that is not a saved recording, or a damaged one."""


class RecordingVersionError(InvalidRecording):
    """A saved recording that this version cannot read."""


class UnsupportedTorch(TorchRecorderError, ImportError):
    """The installed PyTorch is too old to record with, or too new for this torchrecorder."""


class RecorderInUse(TorchRecorderError, RuntimeError):
    """A recorder was entered a second time, or asked for its recording too early."""


class NotKept(NotThere):
    """A tensor or grad node was asked for that the run was not told to keep."""
