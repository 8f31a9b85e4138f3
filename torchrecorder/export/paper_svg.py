"""Put the picture in an SVG file on a page of exact size."""

from __future__ import annotations

import re
from html import escape

from torchrecorder.errors import LayoutFailed
from torchrecorder.style.paper import UNITS, Fit

_SIZE = re.compile(r'<svg width="([\d.]+)pt" height="([\d.]+)pt"\s+viewBox="[^"]*"([^>]*)>')


def size_of(svg: bytes) -> tuple[float, float]:
    """Width and height of the picture, in points."""
    found = _head(svg.decode())
    return float(found[1]), float(found[2])


def on_page(svg: bytes, fit: Fit, background: str) -> bytes:
    """*svg* on a page according to *fit*, filled with *background*; sizes are in millimetres."""
    text = svg.decode()
    head = _head(text)
    left, top = -fit.left / fit.scale, -fit.top / fit.scale
    width, height = fit.width / fit.scale, fit.height / fit.scale
    size = f'width="{_mm(fit.width)}" height="{_mm(fit.height)}"'
    box = f'viewBox="{left:.3f} {top:.3f} {width:.3f} {height:.3f}"'
    filled = ""
    if background.startswith("#"):
        place = f'x="{left:.3f}" y="{top:.3f}" width="{width:.3f}" height="{height:.3f}"'
        filled = f'\n<rect {place} fill="{escape(background)}"/>'
    opened = f"<svg {size}\n {box}{head[3]}>{filled}"
    return f"{text[:head.start()]}{opened}{text[head.end():]}".encode()


def _mm(length: float) -> str:
    return f"{length / UNITS['mm']:.4f}".rstrip("0").rstrip(".") + "mm"


def _head(text: str) -> re.Match[str]:
    found = _SIZE.search(text)
    if found is None:
        raise LayoutFailed("Graphviz wrote an SVG without a size in points", final=True)
    return found
