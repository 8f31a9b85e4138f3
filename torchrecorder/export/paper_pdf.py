"""Paper PDF: puts the figure of a PDF file on a page of exact size, without a creation time.

Cairo, which writes the file on Linux and Windows, supports only pages of whole points; Quartz
writes it on macOS. Their file structures differ, so the file is read and written again with pypdf.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from torchrecorder.style.color import rgb
from torchrecorder.style.paper import Fit

if TYPE_CHECKING:
    from pypdf import PdfWriter
    from pypdf.generic import StreamObject


def size_of(pdf: bytes) -> tuple[float, float]:
    """Width and height of the page, in points."""
    box = _opened(pdf).pages[0].mediabox
    return float(box.width), float(box.height)


def undated(pdf: bytes) -> bytes:
    """*pdf* without its creation time, so that equal figures are equal files."""
    return _written(_opened(pdf))


def on_page(pdf: bytes, fit: Fit, background: str) -> bytes:
    """*pdf* on a page according to *fit*, filled with *background*."""
    from pypdf.generic import RectangleObject

    document = _opened(pdf)
    page = document.pages[0]
    left, bottom = page.mediabox.lower_left
    x, y = fit.left - fit.scale * float(left), fit.top - fit.scale * float(bottom)
    place = f"{fit.scale:.6f} 0 0 {fit.scale:.6f} {x:.4f} {y:.4f} cm"
    for box in ("/CropBox", "/BleedBox", "/TrimBox", "/ArtBox"):
        page.pop(box, None)
    page.mediabox = RectangleObject((0.0, 0.0, fit.width, fit.height))
    streams = _drawing(document)
    before = f"q {_fill(background, fit)} {place}\n".encode()
    streams[0].set_data(before + streams[0].get_data())
    streams[-1].set_data(streams[-1].get_data() + b"\nQ\n")
    return _written(document)


def _opened(pdf: bytes) -> PdfWriter:
    """*pdf*, as an editable document."""
    from pypdf import PdfReader, PdfWriter

    reader = PdfReader(BytesIO(pdf))
    document = PdfWriter()
    document.append(reader)
    document.pdf_header = reader.pdf_header
    document.metadata = None
    return document


def _written(document: PdfWriter) -> bytes:
    file = BytesIO()
    document.write(file)
    return file.getvalue()


def _drawing(document: PdfWriter) -> list[StreamObject]:
    """The streams that draw the page, in their order."""
    from pypdf.generic import ArrayObject, StreamObject

    contents = document.pages[0]["/Contents"].get_object()
    parts: Iterable[Any] = contents if isinstance(contents, ArrayObject) else [contents]
    found = (part.get_object() for part in parts)
    return [stream for stream in found if isinstance(stream, StreamObject)]


def _fill(background: str, fit: Fit) -> str:
    """Drawing of the paper, where it has a color."""
    if not (background.startswith("#") and len(background) == 7):
        return ""
    red, green, blue = (channel / 255 for channel in rgb(background))
    return f"{red:.4f} {green:.4f} {blue:.4f} rg 0 0 {fit.width:.4f} {fit.height:.4f} re f"
