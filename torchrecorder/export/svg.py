"""SVG: adapts the SVG of Graphviz for other fonts, tooltips, layers, and pages of exact size.

- Graphviz places each line of an HTML-like label by its left end, from the width that its own
  fonts gave it. A viewer with other fonts shows such a line off the middle of its box: lines
  are anchored at the middle instead. Spaces that only keep lines apart are left out.
- A browser without the font of a lone ``font-family="Lato"`` takes its own usual one, with
  serifs and other widths. So a family that stands alone gets a generic one behind it.
- Graphviz gives each box its id as ``<title>``, which browsers show on hovering, and puts the
  tooltip into ``xlink:title``, which browsers do not. The tooltip takes the place of the id;
  where there is none, nothing is shown. Links that lead somewhere stay.
- Graphviz writes groups one after the other. They are sorted into three layers with labels, for
  Inkscape and Illustrator, where layers can be locked and hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from html import escape, unescape

from torchrecorder.errors import LayoutFailed
from torchrecorder.export.dot import MARK, node_name
from torchrecorder.graph.flat import printable
from torchrecorder.style.figure import Figure
from torchrecorder.style.paper import UNITS, Fit

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
_LINK = re.compile(r"<a (?P<attributes>[^>]*)>(?P<inside>.*?)</a>", re.DOTALL)
_TIP = re.compile(r" ?xlink:title=\"[^\"]*\"")
_PREAMBLE = re.compile(r"<!DOCTYPE[^>]*>\n?|<!--.*?-->\n?", re.DOTALL)


def finished(svg: str, names: Mapping[str, str] | None) -> bytes:
    """*svg* with tooltips and generic fonts, and with *names* in layers."""
    text = _PREAMBLE.sub("", layered(svg, names) if names else svg)
    text = _LINK.sub(_link, _ITEM.sub(_title, text))
    return _FAMILY.sub(_with_fallback, text).encode()


def centered(svg: str) -> str:
    """*svg* with the labels of marked boxes anchored at the middle of their box."""
    return _BOX.sub(_box, _SPACE.sub("", svg))


def _box(match: re.Match[str]) -> str:
    start, rest = match.groups()
    outline = _OUTLINE.search(rest)
    if outline is None:
        return f"{start}{rest}"
    across = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", outline[1])][0::2]
    middle = (min(across) + max(across)) / 2
    return start + _TEXT.sub(f'text-anchor="middle" x="{middle:.2f}"', rest)


def _with_fallback(match: re.Match[str]) -> str:
    return f'font-family="{_families(match[1])}"'


@lru_cache(maxsize=64)
def _families(text: str) -> str:
    """A family, escaped; if it stands alone, with the generic family that is most like it."""
    families = escape(unescape(text))
    behind = ""
    if "," not in families and families.strip().lower() not in _GENERIC:
        serif = _SERIF.search(families) and not _SANS.search(families)
        kind = "monospace" if _MONOSPACE.search(families) else "serif" if serif else "sans-serif"
        behind = f",{kind}"
    return families + behind


def _title(match: re.Match[str]) -> str:
    tip = (match["tip"] or "").replace("\n", "&#10;")
    text = f"<title>{tip}</title>" if tip else ""
    return text + (match["open"] or "") + (match["link"] or "")


def _link(match: re.Match[str]) -> str:
    if "xlink:href=" not in match["attributes"]:
        return match["inside"]
    return f"<a {_TIP.sub('', match['attributes'])}>{match['inside']}</a>"


# Layers -----------------------------------------------------------------------------


LAYERS = {"cluster": "open modules", "edge": "arrows", "node": "boxes"}
"""For each class of a group its layer, the lowest first."""

_PARTS = re.compile(
    r'^(?=<g id="[^"]*" class="(?:cluster|edge|node)\b|</g>\s*</svg>\s*\Z)', re.MULTILINE
)
_HEAD = re.compile(r'<g id="[^"]*" class="(cluster|edge|node)\b[^>]*(?=>)')
_TITLE = re.compile(r"<title>([^<]*)</title>")
_NAMESPACE = 'xmlns:inkscape="http://www.inkscape.org/namespaces/inkscape"'


def names_of(figure: Figure) -> dict[str, str]:
    """For each box and open group, as Graphviz knows it, its full name."""
    shapes = {node_name(shape.id): shape.name for shape in figure.shapes}
    groups = {f"cluster_{node_name(group.id)}": group.name for group in figure.groups}
    return {**shapes, **groups}


def layered(svg: str, names: Mapping[str, str]) -> str:
    """*svg* with its groups in layers, labeled with *names*."""
    start, *parts, end = _PARTS.split(svg)
    layers: dict[str, list[str]] = {kind: [] for kind in LAYERS}
    for part in parts:
        head = _HEAD.match(part)
        if head is not None:
            layers[head[1]].append(_labeled(part, head, names))
    start = start.replace(" xmlns=", f" {_NAMESPACE} xmlns=", 1)
    return "".join([start, *_written(layers), end])


def _written(layers: Mapping[str, list[str]]) -> Iterator[str]:
    for kind, parts in layers.items():
        if parts:
            label = f'inkscape:groupmode="layer" inkscape:label="{LAYERS[kind]}"'
            yield f'<g class="layer" {label}>\n'
            yield from parts
            yield "</g>\n"


def _labeled(part: str, head: re.Match[str], names: Mapping[str, str]) -> str:
    title = _TITLE.search(part, head.end())
    name = _name(unescape(title[1]), names) if title else ""
    label = f' inkscape:label="{escape(printable(name))}"' if name else ""
    return f"{head[0]}{label}{part[head.end():]}"


def _name(title: str, names: Mapping[str, str]) -> str:
    """The full name of the element with *title*; for an arrow, the names of its ends."""
    tail, arrow, head = title.partition("->")
    if title in names or not arrow:
        return names.get(title, "")
    return f"{names.get(tail, tail)} → {names.get(head, head)}"


# Pages ------------------------------------------------------------------------------


_SIZE = re.compile(r'<svg width="([\d.]+)pt" height="([\d.]+)pt"\s+viewBox="[^"]*"([^>]*)>')


def size_of(svg: bytes) -> tuple[float, float]:
    """Width and height of the picture, in points."""
    found = _head(svg.decode())
    return float(found[1]), float(found[2])


def on_page(svg: bytes, fit: Fit, background: str) -> bytes:
    """*svg* on a page according to *fit*, filled with *background*; sizes are in millimeters."""
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
