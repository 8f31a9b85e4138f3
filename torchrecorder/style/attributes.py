"""Graphviz attributes by name: which belong to the graph, to boxes, to arrows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torchrecorder.checks import guess, shown, warn
from torchrecorder.errors import InvalidArgument
from torchrecorder.style.values import checked

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
"""Attributes that apply to every box, as in torchrecorder 1.x."""

EDGE = frozenset(
    """
    arrowhead arrowsize arrowtail constraint decorate dir headclip headlabel headport
    labelangle labeldistance labelfloat labelfontcolor labelfontname labelfontsize minlen
    samehead sametail taillabel tailclip tailport weight
    """.split()
)

FIELDS = {"attributes": GRAPH, "node_attributes": NODE, "edge_attributes": EDGE}
"""The fields of a style with these attributes."""

EVERYWHERE = frozenset(
    """
    URL class color colorscheme comment fontcolor fontname fontsize href id label layer nojustify
    pencolor penwidth style target tooltip
    """.split()
)

KNOWN: Mapping[str, frozenset[str]] = {
    "attributes": GRAPH | EVERYWHERE
    | frozenset(
        """
        Damping K TBbalance _background beautify defaultdist dim dimen diredgeconstraints epsilon
        esep fillcolor fontnames fontpath gradientangle imagepath inputscale label_scheme
        layerlistsep layersep layerselect layout levels levelsgap linelength margin maxiter mode
        model normalize notranslate oneblock orientation overlap overlap_scaling overlap_shrink
        pack packmode peripheries quadtree radius rank rankdir repulsiveforce root rotation scale
        sep showboxes smoothing sortv start truecolor voro_margin xdotversion
        """.split()
    ),
    "node_attributes": NODE | EVERYWHERE
    | frozenset("area labelloc ordering pin pos rects root showboxes vertices z".split()),
    "edge_attributes": EDGE | EVERYWHERE
    | frozenset(
        """
        edgehref edgetarget edgetooltip edgeURL fillcolor headhref headtarget headtooltip headURL
        labelhref labeltarget labeltooltip labelURL len lhead ltail pos radius showboxes tailhref
        tailtarget tailtooltip tailURL xlabel
        """.split()
    ),
}
"""All attributes of Graphviz for the graph, boxes and arrows, in the same order."""

ANYWHERE = frozenset().union(*KNOWN.values())


def by_field(given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Assign attributes to the fields of a style; unknown attributes are left out."""
    return {
        field: {name: value for name, value in given.items() if name in names}
        for field, names in FIELDS.items()
    }


def as_written(field: str, given: object) -> dict[str, str]:
    """The attributes in one field of a style, as strings; raises InvalidArgument for others."""
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            f'{field} must map names to values, {{"penwidth": "2"}}, not {shown(given)}'
        )
    for name in given:
        if name not in KNOWN[field]:
            raise InvalidArgument(f"{field}: {_unknown(field, name)}")
    return checked(given, field)


def warn_unknown(names: Iterable[str]) -> None:
    """Warn about attributes that Graphviz does not have: it would ignore them silently."""
    for name in names:
        if name not in ANYWHERE:
            warn(f"Graphviz has no attribute {name!r}{guess(name, sorted(ANYWHERE))}")


def _unknown(field: str, name: object) -> str:
    homes = [item for item, names in KNOWN.items() if name in names]
    if homes:
        return f"{name!r} belongs in {' or '.join(homes)}"
    return f"Graphviz has no attribute {name!r} there{guess(name, sorted(KNOWN[field]))}"
