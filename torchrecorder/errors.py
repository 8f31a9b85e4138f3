"""TorchRecorderError and its subclasses, and the classes of warnings."""

from __future__ import annotations


class TorchRecorderError(Exception):
    """Base of every error that torchrecorder raises itself.

    An exception raised by the recorded model is never wrapped in one of these: it keeps its
    type and gets a note with the module, operation and line.
    """


class InvalidArgument(TorchRecorderError, ValueError):
    """An argument is invalid; the message has the value and lists the valid ones."""


class ArgumentMismatch(TorchRecorderError, TypeError):
    """The model cannot be called with these arguments; the message shows its signature."""


class UnknownFormat(TorchRecorderError, ValueError):
    """A file suffix or format name that no exporter writes."""


class NotThere(TorchRecorderError, KeyError):
    """No scope, op, value or grad node of this recording has the requested id or name."""

    __str__ = Exception.__str__  # without the quotes of a KeyError


class UnknownAnnotation(NotThere):
    """An annotation does not exist, or this recording has no numbers for it."""


class Notice(UserWarning):
    """Base of the warnings of torchrecorder about a request that was carried out."""


class LargerThanAPage(Notice):
    """A figure for which only a width or only a height was given is longer than a page."""


class SmallText(Notice):
    """A figure that was fitted to a size has text smaller than the requested minimum."""


class NothingFound(Notice):
    """A name or number does not occur in this recording; the rest of the request was carried out.

    If nothing else was requested, as with ``focus=``, an `InvalidArgument` is raised instead.
    """


class LayoutFailed(TorchRecorderError, RuntimeError):
    """A layout failed: Graphviz is missing, crashed, or did not finish within its time limit.

    Attributes:
        final: Whether a retry with cheaper settings is useless.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class DoesNotFit(TorchRecorderError, ValueError):
    """The text of a figure would be too small in the requested size."""


class InvalidRecording(TorchRecorderError, ValueError):
    """A file or data that is not a saved recording, or a damaged one."""


class RecordingVersionError(InvalidRecording):
    """A saved recording that this version cannot read."""


class UnsupportedTorch(TorchRecorderError, ImportError):
    """The installed PyTorch is too old to record with, or too new for this torchrecorder."""


class RecorderInUse(TorchRecorderError, RuntimeError):
    """A recorder was entered a second time, or its recording was requested too early; or a step of
    a series began inside another one."""


class NotKept(NotThere):
    """A tensor or grad node was requested that the recording does not have."""
