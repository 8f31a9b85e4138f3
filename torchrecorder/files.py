"""Files: written completely or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path


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
