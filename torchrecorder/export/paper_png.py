"""Tell in a PNG file how large its pixels are, so that it has its size on paper."""

from __future__ import annotations

import struct
import zlib

_HEAD = 33
"""Bytes of the signature and of the first chunk, which says width and height."""


def with_resolution(png: bytes, dpi: float) -> bytes:
    """*png* with *dpi* pixels to the inch."""
    per_metre = round(dpi / 0.0254)
    chunk = b"pHYs" + struct.pack(">IIB", per_metre, per_metre, 1)
    told = struct.pack(">I", 9) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return png[:_HEAD] + told + png[_HEAD:]
