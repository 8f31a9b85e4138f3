"""Exporter: the protocol of a format, and atomic writing of files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Protocol, Union

from torchrecorder.checks import FLAG, above_0
from torchrecorder.layout import engine
from torchrecorder.option_table import option
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


class Exporter(Protocol):
    """Writes a view in one format. Options are the fields of the frozen dataclass.

    Attributes:
        suffix: The suffix of its files, ``".svg"``.
    """

    suffix: ClassVar[str]

    def export(self, view: View, style: Style) -> Union[str, bytes]:
        """The contents of the file."""


def timeout_option() -> Any:
    """The option of all formats with a layout."""
    return option(
        "Time limit of the layout in seconds.",
        above_0("a number of seconds"),
        default=engine.TIMEOUT,
        placeholder="SECONDS",
    )


def times_option() -> Any:
    """The option of all formats that contain times."""
    return option(
        "Write measured times. Without them, two runs of the same model give the same bytes.",
        FLAG,
        default=True,
    )


def write_file(path: Path, contents: str | bytes) -> None:
    """Write *contents* to *path* atomically: an existing file is replaced completely or stays.

    Raises:
        OSError: The folder does not exist or cannot be written to, or *path* is a folder.
    """
    data = contents.encode() if isinstance(contents, str) else contents
    target = check_place(path)
    if target.exists() and not target.is_file():
        target.write_bytes(data)  # a device or a pipe, which must not be replaced by a file
        return
    try:
        _replace(target, data)
    except OSError as error:
        raise type(error)(error.errno, f"cannot write: {error.strerror}", str(path)) from None


def check_place(path: Path) -> Path:
    """The absolute *path*, if a file can be written there.

    Raises:
        OSError: Its folder does not exist, or it is a folder itself.
    """
    target = path.resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"cannot write: there is no folder {str(path.parent)!r}", str(path)
        )
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "cannot write: this is a folder", str(path))
    return target


def _replace(target: Path, data: bytes) -> None:
    """Replace *target* by a finished file."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        unfinished.chmod(_mode(target))
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _mode(target: Path) -> int:
    """The permissions of *target*, or those of a new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
