"""Centre the lines of labels in Graphviz's SVG.

Graphviz places each line of an HTML-like label by its left end, from the width that its
own fonts gave it. A viewer with other fonts shows such a line off the middle of its box.
Spaces that only keep lines apart are left out.
"""

from __future__ import annotations

import re

MARK = "centred"
"""The class of boxes with centred labels."""

_BOX = re.compile(
    rf'(<g id="[^"]*" class="node) {MARK}(">.*?)(?=<g id="[^"]*" class=|\Z)', re.DOTALL
)
_OUTLINE = re.compile(r'<(?:polygon|path|ellipse)[^>]*?\s(?:points|d|cx)="([^"]*)"')
_SPACE = re.compile(r"<text [^>]*> </text>\n")
_TEXT = re.compile(r'text-anchor="start" x="[^"]*"')


def centred(svg: bytes) -> bytes:
    """*svg* with the labels of marked boxes anchored at the middle of their box."""
    return _BOX.sub(_box, _SPACE.sub("", svg.decode())).encode()


def _box(found: re.Match[str]) -> str:
    start, rest = found.groups()
    outline = _OUTLINE.search(rest)
    if outline is None:
        return f"{start}{rest}"
    across = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", outline[1])][0::2]
    middle = (min(across) + max(across)) / 2
    return start + _TEXT.sub(f'text-anchor="middle" x="{middle:.2f}"', rest)
