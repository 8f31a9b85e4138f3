"""Exporter: the protocol of a format, and finding one by a file's suffix."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Protocol, Union

from torchrecorder.errors import UnknownFormat
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


class Exporter(Protocol):
    """Writes a view in one format. Options are the fields of the frozen dataclass.

    Attributes:
        suffix: What its files end in, ``".svg"``.
        binary: Whether `export` gives bytes.
    """

    suffix: ClassVar[str]
    binary: ClassVar[bool]

    def export(self, view: View, style: Style) -> Union[str, bytes]:
        """The contents of the file."""


def known() -> dict[str, type[Exporter]]:
    """Exporters by suffix, in the order in which they are listed."""
    from torchrecorder.export import EXPORTERS

    return {exporter.suffix: exporter for exporter in EXPORTERS}


def by_suffix(name: str) -> Exporter:
    """The exporter for a file of this name, with its default options.

    Raises:
        UnknownFormat: None writes this suffix; the message lists those that do.
    """
    exporters = known()
    fitting = [suffix for suffix in exporters if name.lower().endswith(suffix)]
    if fitting:
        return exporters[max(fitting, key=len)]()
    suffix = Path(name).suffix or name
    close = difflib.get_close_matches(suffix.lower(), exporters, 1)
    guess = f" did you mean {close[0]!r}?" if close else ""
    raise UnknownFormat(f"no format is written as {suffix!r};{guess} known: {', '.join(exporters)}")


def write_file(path: Path, contents: str | bytes) -> None:
    """Write all of *contents* to *path* or nothing: an existing file stays whole.

    Raises:
        OSError: The folder does not exist or cannot be written to.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path.name!r}: there is no folder {path.parent}")
    data = contents.encode() if isinstance(contents, str) else contents
    with _beside(path) as unfinished:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A fresh file in the folder of *path*, gone afterwards unless it was renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    unfinished = Path(name)
    mask = os.umask(0)
    os.umask(mask)
    unfinished.chmod(0o666 & ~mask)
    try:
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)
