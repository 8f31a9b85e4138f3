"""Import target: finds objects by import path, or by file and name."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.graph.saved_files import SUFFIXES
from torchrecorder.recording import Recording


class ModelFailed(TorchRecorderError):
    """The user's code raised; its own exception is the cause.

    Attributes:
        recording: The recording until then, if any.
    """

    def __init__(
        self, doing: str, error: BaseException, recording: Recording | None = None
    ) -> None:
        notes = [str(note) for note in getattr(error, "__notes__", ())]
        text = "\n".join([f"{type(error).__name__}: {str(error) or _line(error)}", *notes])
        super().__init__(f"{doing} raised {text}")
        self.recording = recording


@contextlib.contextmanager
def users_code(doing: str) -> Iterator[None]:
    """Turn exceptions of the user's code in this block into `ModelFailed`."""
    try:
        yield
    except TorchRecorderError:
        raise
    except Exception as error:
        raise ModelFailed(doing, error) from error


def _line(error: BaseException) -> str:
    """The line that raised an exception without a message, such as a bare ``assert``."""
    frames = traceback.extract_tb(error.__traceback__)
    last = [f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}" for frame in frames[-1:]]
    return "".join(last)


def find(path: str) -> Any:
    """The object that ``package.module:name`` or ``file.py:name`` names.

    Raises:
        InvalidArgument: There is no such module or name; the message suggests names.
        ModelFailed: The module raised while it was imported or asked for the name.
    """
    place, _, name = path.rpartition(":")
    if not place or not name:
        if path.endswith(".py"):
            raise InvalidArgument(
                f"{path} is a script, which `torchrecorder run {path}` runs; for a model in it, "
                f"add the name of the model, or of what makes it: {path}:name"
            )
        raise InvalidArgument(
            f"cannot interpret {path!r}: write package.module:name, file.py:name, "
            f"or the name of a saved recording ({', '.join(SUFFIXES)}) or exported program (.pt2)"
        )
    module = _module(place)
    found: Any = module
    with users_code(f"importing {path}"):  # a module may import what is asked for only then
        for part in name.split("."):
            if not hasattr(found, part):
                raise InvalidArgument(_missing(place, name, module))
            found = getattr(found, part)
    return found


def _module(place: str) -> ModuleType:
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise InvalidArgument(f"there is no file {place!r}")
    if place.startswith(".") and not is_file:
        raise InvalidArgument(f"{place!r} is not the name of a module; that of a file ends in .py")
    with users_code(f"importing {place}"):
        try:
            return _from_file(Path(place)) if is_file else importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise InvalidArgument(f"there is no module {error.name!r} to import") from error


def _from_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent.resolve()))
    sys.modules.setdefault(file.stem, module)
    spec.loader.exec_module(module)
    return module


def _missing(place: str, name: str, module: ModuleType) -> str:
    """What the message says: similar names, then all others that the module itself defines."""
    here = [var for var in vars(module) if not var.startswith("_")]
    close = difflib.get_close_matches(name, here, 3)
    own = [
        item
        for item in here
        if callable(vars(module)[item]) and vars(module)[item].__module__ == module.__name__
    ]
    listed = [*dict.fromkeys((*close, *own))][:12]
    hint = f"; it has {', '.join(map(repr, listed))}" if listed else ""
    return f"{place} has no {name!r}{hint}"
