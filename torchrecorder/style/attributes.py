"""Graphviz attributes by name: which belong to the graph, to boxes, to arrows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GRAPH = frozenset(
    """
    bgcolor center charset clusterrank compound concentrate dpi forcelabels label labeljust
    labelloc landscape layers mclimit mindist newrank nodesep nslimit nslimit1 ordering
    outputorder pad page pagedir quantum ratio ranksep remincross resolution rotate searchsize
    size splines stylesheet viewport
    """.split()
)

NODE = frozenset(
    """
    align class color colorscheme comment distortion fillcolor fixedsize fontcolor gradientangle
    group height id image imagepos imagescale margin nojustify orientation penwidth peripheries
    regular samplepoints shape shapefile sides skew sortv style target tooltip URL href width
    xlabel
    """.split()
)
"""Those that go onto every box, as in torchrecorder 1.x."""

EDGE = frozenset(
    """
    arrowhead arrowsize arrowtail constraint decorate dir headclip headlabel headport
    labelangle labeldistance labelfloat labelfontcolor labelfontname labelfontsize minlen
    samehead sametail taillabel tailclip tailport weight
    """.split()
)

FIELDS = {"attributes": GRAPH, "node_attributes": NODE, "edge_attributes": EDGE}
"""The fields of a style that hold them."""


def by_field(given: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Sort attributes to the fields of a style; leaves out what Graphviz does not know."""
    return {
        field: {name: str(value) for name, value in given.items() if name in names}
        for field, names in FIELDS.items()
    }
