"""Tooltips in Graphviz's SVG: what hovering shows.

Graphviz gives each box its id as ``<title>``, which browsers show, and puts the tooltip
into ``xlink:title``, which browsers do not. The tooltip takes the place of the id; where
there is none, nothing is shown. Links that lead somewhere stay.
"""

from __future__ import annotations

import re

_ITEM = re.compile(
    r"<title>[^<]*</title>\s*(?P<open><g id=\"[^\"]*\">)?"
    r"(?P<link><a [^>]*?xlink:title=\"(?P<tip>[^\"]*)\"[^>]*>)?"
)
_LINK = re.compile(r"<a (?P<said>[^>]*)>(?P<inside>.*?)</a>", re.DOTALL)
_TIP = re.compile(r" ?xlink:title=\"[^\"]*\"")
_PREAMBLE = re.compile(r"<!DOCTYPE[^>]*>\n?|<!--.*?-->\n?", re.DOTALL)


def with_tooltips(svg: bytes) -> bytes:
    """*svg* with titles that say what the tooltips say."""
    text = _PREAMBLE.sub("", svg.decode())
    text = _ITEM.sub(_title, text)
    return _LINK.sub(_link, text).encode()


def _title(match: re.Match[str]) -> str:
    tip = (match["tip"] or "").replace("\n", "&#10;")
    said = f"<title>{tip}</title>" if tip else ""
    return said + (match["open"] or "") + (match["link"] or "")


def _link(match: re.Match[str]) -> str:
    if "xlink:href=" not in match["said"]:
        return match["inside"]
    return f"<a {_TIP.sub('', match['said'])}>{match['inside']}</a>"
