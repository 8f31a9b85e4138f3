"""Notices: the warnings of torchrecorder in a build, which a cache repeats."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from torchrecorder.checks import warn
from torchrecorder.errors import Notice
from torchrecorder.files import write_file


@contextmanager
def notices_to(report: Callable[[str], None]) -> Iterator[None]:
    """Pass warnings of torchrecorder to *report*, each text once; others are shown as usual."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Notice)
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if _is_ours(item)):
        report(text)
    for entry in caught:
        if not _is_ours(entry):
            warnings.showwarning(entry.message, entry.category, entry.filename, entry.lineno)


def _is_ours(caught: warnings.WarningMessage) -> bool:
    return issubclass(caught.category, Notice)


def keep(texts: Sequence[str], path: Path) -> None:
    """Keep the warnings that came while the file at *path* was made, and issue them."""
    if texts:
        write_file(kept_in(path), json.dumps(texts))
        _issue(texts)
    else:
        kept_in(path).unlink(missing_ok=True)


def repeat(path: Path) -> None:
    """Issue the warnings that came while the file at *path* was made."""
    try:
        _issue(json.loads(kept_in(path).read_text(encoding="utf-8")))
    except OSError:  # there were none
        pass


def _issue(texts: Iterable[str]) -> None:
    for text in texts:
        warn(text, Notice)


def kept_in(path: Path) -> Path:
    """The file with these warnings."""
    return path.with_name(f"{path.name}.notices.json")
