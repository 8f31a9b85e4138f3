"""Font families in Graphviz's SVG: what is shown where a font is missing.

A browser without the font of a lone ``font-family="Lato"`` takes its own usual one, with
serifs and other widths. So a family that stands alone gets a generic one behind it.
"""

from __future__ import annotations

import re
from html import escape, unescape

_FAMILY = re.compile(r'font-family="([^"]+)"')
_GENERIC = ("serif", "sans-serif", "monospace", "cursive", "fantasy", "system-ui")
_MONOSPACE = re.compile(r"mono|courier|code|consol|menlo|typewriter", re.IGNORECASE)
_SANS = re.compile(r"sans|gothic", re.IGNORECASE)
_SERIF = re.compile(
    r"serif|times|roman|georgia|garamond|palatino|cambria|bodoni|baskerville|minion|century",
    re.IGNORECASE,
)


def with_fallbacks(svg: bytes) -> bytes:
    """*svg* with a generic family behind each family that stands alone, all of them escaped."""
    return _FAMILY.sub(_with_fallback, svg.decode()).encode()


def generic(family: str) -> str:
    """The generic family that is most like *family*, by its name."""
    if _MONOSPACE.search(family):
        return "monospace"
    serif = _SERIF.search(family) and not _SANS.search(family)
    return "serif" if serif else "sans-serif"


def _with_fallback(found: re.Match[str]) -> str:
    families = escape(unescape(found[1]))
    whole = "," in families or families.strip().lower() in _GENERIC
    behind = "" if whole else f",{generic(families)}"
    return f'font-family="{families}{behind}"'
