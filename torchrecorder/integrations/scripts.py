"""Scripts: run the user's program under a recorder, as Python would run it."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Script:
    """A program and its arguments.

    Attributes:
        path: A file, or the name of a module.
        as_module: Run it as ``python -m`` does.
        arguments: Its own arguments.
        variable: Name of the variable that holds the model, dots allowed; None for the first
            module with parameters that is called.
    """

    path: str
    as_module: bool = False
    arguments: tuple[str, ...] = ()
    variable: str | None = None

    def check(self) -> None:
        """Check that the script or module exists."""
        if not self.as_module and not Path(self.path).exists():
            raise InvalidArgument(f"there is no file {self.path!r}; -m runs a module by its name")
        if self.as_module and not _is_module(self.path):
            raise InvalidArgument(f"there is no module {self.path!r} to run")
        if self.variable and not all(part.isidentifier() for part in self.variable.split(".")):
            raise InvalidArgument(f"{self.variable!r} is not the name of a variable, such as net")

    def run(self, steps: int, options: Mapping[str, Any]) -> Ended:
        """Run it to its end, and record this number of steps of its model.

        Its output, exceptions and exit code are not changed.
        """
        from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder

        chosen = _first if self.variable is None else _Variable(self.variable).holds
        awaited = DeferredRecorder(chosen, steps, options)
        code, failed = 0, False
        with self._as_main():
            try:
                with awaited:
                    self._start()
            except SystemExit as exit:
                code = _exit_code(exit)
            except BaseException as error:
                failed = not isinstance(error, KeyboardInterrupt)
                code = 1 if failed else 130
                _print(error)
        return Ended(code, awaited.recording, failed)

    def _start(self) -> None:
        if self.as_module:
            runpy.run_module(self.path, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(self.path, run_name="__main__")

    @contextmanager
    def _as_main(self) -> Iterator[None]:
        """Set ``sys.argv`` and the import path as for the script itself."""
        arguments, path = sys.argv, sys.path
        sys.argv = [self.path, *self.arguments]
        folder = os.getcwd() if self.as_module else os.path.dirname(os.path.abspath(self.path))
        sys.path = [folder, *(item for item in path if item != folder)]
        try:
            yield
        finally:
            sys.argv, sys.path = arguments, path


@dataclass(frozen=True)
class Ended:
    """The exit of a script, its recording, and whether an exception ended it."""

    code: int
    recording: Recording | None
    failed: bool


def _is_module(name: str) -> bool:
    """Whether Python finds a module of this name; errors in its packages are left to the run."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        return not (error.name and f"{name}.".startswith(f"{error.name}."))
    except Exception:
        return True


class _Variable:
    """The name of a variable that holds a model."""

    def __init__(self, name: str) -> None:
        self.first, *self.rest = name.split(".")

    def holds(self, module: Any, frame: FrameType | None) -> bool:
        """Whether a variable of this name around *frame* holds *module*."""
        while frame is not None:
            for names in (frame.f_locals, frame.f_globals):
                if self.first in names and self._reached(names[self.first]) is module:
                    return True
            frame = frame.f_back
        return False

    def _reached(self, found: Any) -> Any:
        for part in self.rest:
            found = getattr(found, part, None)
        return found


def _first(module: Any, frame: FrameType) -> bool:
    """Whether *module* has parameters, unlike a loss or transform."""
    return next(iter(module.parameters()), None) is not None


def _exit_code(exit: SystemExit) -> int:
    """The exit code of Python; a text is printed, as Python does."""
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    print(exit.code, file=sys.stderr)
    return 1


def _print(error: BaseException) -> None:
    """The traceback, without the frames between the interpreter and the script."""
    traceback.print_exception(type(error), error, _own(error.__traceback__))


def _own(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and _is_between(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_between(filename: str) -> bool:
    return filename.startswith((_OURS, "<frozen runpy")) or filename == runpy.__file__
