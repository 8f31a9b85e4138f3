"""Layers and names in Graphviz's SVG, for Inkscape and Illustrator.

Graphviz writes groups one after the other. Here they are sorted into three layers, which can be
locked and hidden, and labelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape, unescape

from torchrecorder.export.dot import node_name
from torchrecorder.export.quoting import clean
from torchrecorder.style.figure import Figure

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
    """*svg* with its groups in layers, labelled with *names*."""
    start, *parts, end = _PARTS.split(svg)
    layers: dict[str, list[str]] = {kind: [] for kind in LAYERS}
    for part in parts:
        head = _HEAD.match(part)
        if head is not None:
            layers[head[1]].append(_labelled(part, head, names))
    start = start.replace(" xmlns=", f" {_NAMESPACE} xmlns=", 1)
    return "".join([start, *_written(layers), end])


def _written(layers: Mapping[str, list[str]]) -> Iterator[str]:
    for kind, parts in layers.items():
        if parts:
            label = f'inkscape:groupmode="layer" inkscape:label="{LAYERS[kind]}"'
            yield f'<g class="layer" {label}>\n'
            yield from parts
            yield "</g>\n"


def _labelled(part: str, head: re.Match[str], names: Mapping[str, str]) -> str:
    title = _TITLE.search(part, head.end())
    name = _name(unescape(title[1]), names) if title else ""
    label = f' inkscape:label="{escape(clean(name))}"' if name else ""
    return f"{head[0]}{label}{part[head.end():]}"


def _name(title: str, names: Mapping[str, str]) -> str:
    """The full name of what Graphviz calls *title*; of an arrow, those of its ends."""
    tail, arrow, head = title.partition("->")
    if title in names or not arrow:
        return names.get(title, "")
    return f"{names.get(tail, tail)} → {names.get(head, head)}"
