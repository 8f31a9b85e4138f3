"""Text for consoles that cannot encode all characters of tables, such as cp1252 on Windows.

Printing would raise ``UnicodeEncodeError``. Tables are drawn in ASCII there, and characters
without an ASCII equivalent are written as ``\\uXXXX``, which JSON reads too.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Iterator
from typing import Any

ERRORS = "torchrecorder.ascii"
"""The name under which Python's codecs know `_replaced`."""

_LIKENESS = {
    **dict.fromkeys("─−–—", "-"),
    **dict.fromkeys("├└", "+"),
    "│": "|",
    "→": "->",
    "…": "...",
    "×": "x",
    "÷": "/",
    "µ": "u",
    "∕": "/",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
}


def encodable(text: str) -> str:
    """*text* with characters that standard output can encode; unchanged for UTF-8 or if unknown."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, ERRORS).decode(encoding)


@contextlib.contextmanager
def printable() -> Iterator[None]:
    """A context in which printing to standard output never raises ``UnicodeEncodeError``."""
    stream: Any = sys.stdout
    usual = getattr(stream, "errors", None)
    if usual != "strict" or not hasattr(stream, "reconfigure"):
        yield
        return
    stream.reconfigure(errors=ERRORS)
    try:
        yield
    finally:
        stream.reconfigure(errors=usual)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """A codec error handler: the replacement for the characters, and where to continue."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(map(_plain, wrong)), error.end


def _plain(letter: str) -> str:
    if letter in _LIKENESS:
        return _LIKENESS[letter]
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


codecs.register_error(ERRORS, _replaced)
