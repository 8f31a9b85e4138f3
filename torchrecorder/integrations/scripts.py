"""Scripts: runs a user program under a recorder, as Python would run it."""

from __future__ import annotations

import builtins
import importlib.util
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True)
class Script:
    """A program and its arguments.

    *variable* is the name of the one that holds the model, dots allowed; None for the first module
    with parameters that is called.
    """

    path: str  # a file, or the name of a module
    as_module: bool = False  # run it as ``python -m`` does
    arguments: tuple[str, ...] = ()
    variable: str | None = None

    def check(self) -> None:
        """Check that the script or module exists."""
        if not self.as_module and not Path(self.path).exists():
            raise InvalidArgument(
                f"there is no file {self.path!r}; -m runs a module by its name, and "
                "`torchrecorder render` draws a model that is written package.module:name"
            )
        if self.as_module and not _is_module(self.path):
            raise InvalidArgument(f"there is no module {self.path!r} to run")
        if self.variable and not all(part.isidentifier() for part in self.variable.split(".")):
            raise InvalidArgument(f"{self.variable!r} is not the name of a variable, such as net")

    def run(
        self, steps: int, options: Mapping[str, Any], ended: Callable[[], None] | None = None
    ) -> tuple[int, Recording | None, bool]:
        """Run the script to its end, and record this number of steps of its model.

        Its output, exceptions and exit code are not changed. *ended* is called at its end, before
        a recording that lasts until then is built.

        Returns:
            The exit code, the recording, and whether an exception ended the script.
        """
        from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder

        chosen = _first if self.variable is None else _held_by(self.variable)
        awaited = DeferredRecorder(chosen, steps, options)
        code, failed = 0, False
        with self._as_main():
            try:
                with awaited, ExitStack() as ends:
                    if ended is not None:
                        ends.callback(ended)
                    self._start()
            except SystemExit as exit:
                code = _exit_code(exit)
            except BaseException as error:
                failed = not isinstance(error, KeyboardInterrupt)
                code = 1 if failed else 130
                _print(error)
        return code, awaited.recording, failed

    def _start(self) -> None:
        if self.as_module:
            runpy.run_module(self.path, run_name="__main__", alter_sys=True)
        elif os.path.isdir(self.path) or self.path.endswith((".pyc", ".zip", ".pyz")):
            runpy.run_path(self.path, run_name="__main__")
        else:
            _run_file(os.path.abspath(self.path))

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


def _run_file(file: str) -> None:
    """Run a file as ``__main__``.

    Unlike `runpy`, this leaves ``sys.argv`` alone. So the script has an absolute ``__file__``, and
    its name as it was given in ``sys.argv``, as Python gives them.
    """
    main = ModuleType("__main__")
    loader = SourceFileLoader("__main__", file)
    main.__file__, main.__loader__, main.__package__ = file, loader, None
    vars(main)["__builtins__"] = builtins
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        code = compile(loader.get_data(file), file, "exec", dont_inherit=True)
        exec(code, vars(main))
    finally:
        sys.modules["__main__"] = before


def _is_module(name: str) -> bool:
    """Whether Python finds a module with this name; errors in its packages appear at the run."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        return not (error.name and f"{name}.".startswith(f"{error.name}."))
    except Exception:
        return True


def _held_by(variable: str) -> Callable[[Any, FrameType | None], bool]:
    """A function: whether a variable of this name, with dots, around a frame holds a module."""
    first, *rest = variable.split(".")

    def holds(module: Any, frame: FrameType | None) -> bool:
        while frame is not None:
            for names in (frame.f_locals, frame.f_globals):
                found = names.get(first)
                for part in rest:
                    found = _attribute(found, part)
                if found is module:
                    return True
            frame = frame.f_back
        return False

    return holds


def _attribute(owner: Any, name: str) -> Any:
    """An attribute; None if it is missing, or if its property raises because it is not set yet."""
    try:
        return getattr(owner, name, None)
    except Exception:
        return None


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
    """Print the traceback, without the frames between the interpreter and the script."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not (file.startswith((_OURS, "<frozen runpy")) or file == runpy.__file__):
            break
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
