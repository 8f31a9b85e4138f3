"""Put the picture in a PDF file on a page of exact size.

Cairo, which writes the file, knows pages of whole points only. So the page is written
again, behind the rest, as PDF allows: its size, and one more step before its drawing.
"""

from __future__ import annotations

import re

from torchrecorder.errors import LayoutFailed
from torchrecorder.style.color import rgb
from torchrecorder.style.paper import Fit

_PAGE = re.compile(
    rb"(\d+) 0 obj\s*<<\s*/Type /Page\b[^/]*(/.*?/MediaBox )\[[\d. ]+\](.*?/Contents )(\d+) 0 R"
    rb"(.*?>>\s*)endobj",
    re.DOTALL,
)
_BOX = re.compile(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]")
_SIZE = re.compile(rb"trailer\s*<< /Size (\d+)\s*/Root (\d+) 0 R\s*/Info (\d+) 0 R")
_TABLE = re.compile(rb"startxref\s*(\d+)\s*%%EOF\s*\Z")
_DATE = re.compile(rb"/CreationDate \([^)]*\)")


def size_of(pdf: bytes) -> tuple[float, float]:
    """Width and height of the page, in points."""
    found = _BOX.search(pdf)
    if found is None:
        raise _unknown()
    return float(found[1]), float(found[2])


def undated(pdf: bytes) -> bytes:
    """*pdf* without the time at which it was made: equal figures are equal files."""
    return _DATE.sub(lambda found: b" " * len(found[0]), pdf)


def on_page(pdf: bytes, fit: Fit, background: str) -> bytes:
    """*pdf* on a page as *fit* says, filled with *background*.

    Raises:
        LayoutFailed: This is not how Cairo 1.15 and 1.16 write a page.
    """
    page, trailer, table = _PAGE.search(pdf), _SIZE.search(pdf), _TABLE.search(pdf)
    if page is None or trailer is None or table is None:
        raise _unknown()
    number, before, between, drawing, after = page.groups()
    free = int(trailer[1])
    place = f"{fit.scale:.6f} 0 0 {fit.scale:.6f} {fit.left:.4f} {fit.top:.4f} cm"
    start = _stream(f"q {_fill(background, fit)} {place}")
    box = b"[ 0 0 %.4f %.4f ]" % (fit.width, fit.height)
    written = b"<< /Type /Page %s%s%s[ %d 0 R %s 0 R %d 0 R ]%s" % (
        before, box, between, free, drawing, free + 1, after,
    )
    new = {int(number): written, free: start, free + 1: _stream("Q")}
    return _appended(pdf, new, free + 2, int(table[1]), trailer)


def _fill(background: str, fit: Fit) -> str:
    """Drawing of the paper, where it has a colour."""
    if not (background.startswith("#") and len(background) == 7):
        return ""
    red, green, blue = (each / 255 for each in rgb(background))
    return f"{red:.4f} {green:.4f} {blue:.4f} rg 0 0 {fit.width:.4f} {fit.height:.4f} re f"


def _stream(text: str) -> bytes:
    data = text.encode()
    return b"<< /Length %d >>\nstream\n%s\nendstream\n" % (len(data), data)


def _appended(
    pdf: bytes, new: dict[int, bytes], count: int, table: int, trailer: re.Match[bytes]
) -> bytes:
    """*pdf* with new versions of some objects behind its end."""
    parts, at = [pdf], len(pdf)
    rows = []
    for number, body in sorted(new.items()):
        written = b"%d 0 obj\n%sendobj\n" % (number, body)
        rows.append(b"%d 1\n%010d 00000 n \n" % (number, at))
        parts.append(written)
        at += len(written)
    parts += [b"xref\n", *rows]
    parts.append(
        b"trailer\n<< /Size %d\n   /Root %s 0 R\n   /Info %s 0 R\n   /Prev %d\n>>\n"
        % (count, trailer[2], trailer[3], table)
    )
    parts.append(b"startxref\n%d\n%%%%EOF\n" % at)
    return b"".join(parts)


def _unknown() -> LayoutFailed:
    return LayoutFailed(
        "this Graphviz writes PDF in a way that cannot be put on a page of exact size: write "
        ".svg, or install pygraphviz from a wheel",
        final=True,
    )
