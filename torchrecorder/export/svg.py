"""Adapt Graphviz's SVG for other fonts and for tooltips.

- Graphviz places each line of an HTML-like label by its left end, from the width that its own
  fonts gave it. A viewer with other fonts shows such a line off the middle of its box: lines
  are anchored at the middle instead. Spaces that only keep lines apart are left out.
- A browser without the font of a lone ``font-family="Lato"`` takes its own usual one, with
  serifs and other widths. So a family that stands alone gets a generic one behind it.
- Graphviz gives each box its id as ``<title>``, which browsers show on hovering, and puts the
  tooltip into ``xlink:title``, which browsers do not. The tooltip takes the place of the id;
  where there is none, nothing is shown. Links that lead somewhere stay.
"""

from __future__ import annotations

import re
from html import escape, unescape

MARK = "centred"
"""The class of boxes with centred labels."""

_BOX = re.compile(
    rf'(<g id="[^"]*" class="node) {MARK}(">.*?)(?=<g id="[^"]*" class=|\Z)', re.DOTALL
)
_OUTLINE = re.compile(r'<(?:polygon|path|ellipse)[^>]*?\s(?:points|d|cx)="([^"]*)"')
_SPACE = re.compile(r"<text [^>]*> </text>\n")
_TEXT = re.compile(r'text-anchor="start" x="[^"]*"')

_FAMILY = re.compile(r'font-family="([^"]+)"')
_GENERIC = ("serif", "sans-serif", "monospace", "cursive", "fantasy", "system-ui")
_MONOSPACE = re.compile(r"mono|courier|code|consol|menlo|typewriter", re.IGNORECASE)
_SANS = re.compile(r"sans|gothic", re.IGNORECASE)
_SERIF = re.compile(
    r"serif|times|roman|georgia|garamond|palatino|cambria|bodoni|baskerville|minion|century",
    re.IGNORECASE,
)

_ITEM = re.compile(
    r"<title>[^<]*</title>\s*(?P<open><g id=\"[^\"]*\">)?"
    r"(?P<link><a [^>]*?xlink:title=\"(?P<tip>[^\"]*)\"[^>]*>)?"
)
_LINK = re.compile(r"<a (?P<said>[^>]*)>(?P<inside>.*?)</a>", re.DOTALL)
_TIP = re.compile(r" ?xlink:title=\"[^\"]*\"")
_PREAMBLE = re.compile(r"<!DOCTYPE[^>]*>\n?|<!--.*?-->\n?", re.DOTALL)


def centred(svg: str) -> str:
    """*svg* with the labels of marked boxes anchored at the middle of their box."""
    return _BOX.sub(_box, _SPACE.sub("", svg))


def _box(found: re.Match[str]) -> str:
    start, rest = found.groups()
    outline = _OUTLINE.search(rest)
    if outline is None:
        return f"{start}{rest}"
    across = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", outline[1])][0::2]
    middle = (min(across) + max(across)) / 2
    return start + _TEXT.sub(f'text-anchor="middle" x="{middle:.2f}"', rest)


def with_fallbacks(svg: str) -> str:
    """*svg* with a generic family behind each family that stands alone, all of them escaped."""
    return _FAMILY.sub(_with_fallback, svg)


def _generic(family: str) -> str:
    """The generic family that is most like *family*, by its name."""
    if _MONOSPACE.search(family):
        return "monospace"
    serif = _SERIF.search(family) and not _SANS.search(family)
    return "serif" if serif else "sans-serif"


def _with_fallback(found: re.Match[str]) -> str:
    families = escape(unescape(found[1]))
    whole = "," in families or families.strip().lower() in _GENERIC
    behind = "" if whole else f",{_generic(families)}"
    return f'font-family="{families}{behind}"'


def with_tooltips(svg: str) -> str:
    """*svg* with the tooltips as titles."""
    return _LINK.sub(_link, _ITEM.sub(_title, _PREAMBLE.sub("", svg)))


def _title(match: re.Match[str]) -> str:
    tip = (match["tip"] or "").replace("\n", "&#10;")
    text = f"<title>{tip}</title>" if tip else ""
    return text + (match["open"] or "") + (match["link"] or "")


def _link(match: re.Match[str]) -> str:
    if "xlink:href=" not in match["said"]:
        return match["inside"]
    return f"<a {_TIP.sub('', match['said'])}>{match['inside']}</a>"
