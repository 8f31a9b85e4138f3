"""Measure: the size of text, from a table of widths, so that it is equal on every machine."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

from torchrecorder.style.figure import Text

_NARROW = {
    191: "'",
    222: "ijl",
    260: "|",
    278: " !,./:;I[\\]ft",
    333: "()-`r",
    334: "{}",
    355: '"',
    389: "*",
    469: "^",
    500: "Jckszvxy",
    584: "+<=>~×→←",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1000: "…—",
    1015: "@",
}
_USUAL = 556  # digits and most small letters
_BOLD = 1.08
_SCALE = {"title": 1.0, "name": 0.9, "detail": 0.8}
_LEADING = 1.22
_METRIC = ("helvetica", "arial", "liberation sans", "nimbus sans", "arimo", "sans-serif")
_WIDE = ("verdana", "dejavu sans", "bitstream vera")
_EQUAL = re.compile(r"mono|courier|consolas|menlo|typewriter|fixed|terminal", re.IGNORECASE)
_LETTER = 620  # of monospaced fonts


def text_width(text: str, size: float, *, bold: bool = False, fontname: str = "Helvetica") -> float:
    """Width of *text* in points; a little more for unknown fonts."""
    if _EQUAL.search(fontname):
        return sum(_equal(letter) for letter in text) * size / 1000
    return _units(text) * size / 1000 * (_BOLD if bold else 1.0) * _share(fontname.lower())


@lru_cache(maxsize=16384)
def _units(text: str) -> int:
    return sum(map(_width, text))


_TABLE = {letter: width for width, letters in _NARROW.items() for letter in letters}


def _equal(letter: str) -> int:
    return _LETTER if letter in _TABLE or letter < "\u0300" else _width(letter)


def _share(fontname: str) -> float:
    """The maximum width of a font relative to Helvetica."""
    if fontname.startswith(_METRIC):
        return 1.0
    return 1.25 if fontname.startswith(_WIDE) else 1.12


@cache
def _width(letter: str) -> int:
    if letter < "\u0300" or letter in _TABLE:
        return _TABLE.get(letter, _USUAL)
    if unicodedata.combining(letter):
        return 0
    return 1000 if unicodedata.east_asian_width(letter) in "WF" else 640


def text_size(line: Text, fontsize: float) -> float:
    """Font size of one line of a label."""
    return fontsize * _SCALE[line.part]


def line_height(line: Text, fontsize: float) -> float:
    """Height of one line of a label."""
    return text_size(line, fontsize) * _LEADING


def label_size(
    label: Sequence[Text], fontsize: float, *, bold: bool = False, fontname: str = "Helvetica"
) -> tuple[float, float]:
    """Width and height of the lines of *label*, one below the other; the first may be bold."""
    widths = [
        text_width(
            line.text, text_size(line, fontsize), bold=bold and not number, fontname=fontname
        )
        for number, line in enumerate(label)
    ]
    return max(widths, default=0.0), sum(line_height(line, fontsize) for line in label)
