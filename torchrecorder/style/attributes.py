"""Graphviz attributes: which belong to the graph, to boxes, to arrows, and their valid values.

Graphviz replaces invalid values silently by black, a box or a plain arrow. The names are those of
its manual (https://graphviz.org/doc/info/attrs.html).
Attributes that hold any text, such as ``label``, have no check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torchrecorder.checks import Check, check_one, guess, one_of, shown, warn
from torchrecorder.errors import InvalidArgument
from torchrecorder.style.color import color_check, listed
from torchrecorder.style.color_names import SCHEMES

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


# Values ------------------------------------------------------------------------------------


COLORS = frozenset("bgcolor color fillcolor fontcolor labelfontcolor pencolor".split())

SHAPES = tuple(
    """
    box polygon ellipse oval circle point egg triangle plaintext plain diamond trapezium
    parallelogram house pentagon hexagon septagon octagon doublecircle doubleoctagon
    tripleoctagon invtriangle invtrapezium invhouse Mdiamond Msquare Mcircle rect rectangle
    square star none underline cylinder note tab folder box3d component promoter cds terminator
    utr primersite restrictionsite fivepoverhang threepoverhang noverhang assembly signature
    insulator ribosite rnastab proteasesite proteinstab rpromoter rarrow larrow lpromoter record
    Mrecord epsf
    """.split()
)

_ARROW = re.compile(r"(o?[lr]?(box|crow|curve|icurve|diamond|dot|inv|none|normal|tee|vee)){1,4}")
_OLD_ARROWS = ("ediamond", "open", "halfopen", "empty", "invempty")
_STYLES = tuple(
    """
    solid dashed dotted bold invis filled rounded diagonals striped wedged radial tapered unfilled
    """.split()
)
_STYLE = re.compile(rf"({'|'.join(_STYLES)}|setlinewidth\(\d+(\.\d+)?\))?")


def _number(text: object) -> bool:
    try:
        return math.isfinite(float(str(text)))
    except ValueError:
        return False


def _words(*known: str, other: Check | None = None) -> Check:
    """A check that accepts one of a few texts, case-sensitive, or *other*."""
    text = one_of(*known).expected + (f", or {other.expected}" if other is not None else "")
    return Check(
        text,
        lambda value: str(value) in known or other is not None and other.holds(value),
        known,
    )


def _flag(value: object) -> bool:
    return str(value).lower() in ("true", "false", "yes", "no") or str(value).isdigit()


def _every(holds: Callable[[str], object]) -> Callable[[object], bool]:
    return lambda value: all(holds(part.strip()) for part in str(value).split(","))


NUMBER = Check("a number", _number)
FLAG = Check("true or false", _flag)
ARROW = Check(
    "an arrow of Graphviz, such as 'normal', 'vee', 'onormal' or 'none'",
    lambda value: bool(_ARROW.fullmatch(str(value))) or str(value) in _OLD_ARROWS,
    ("normal", "vee", "dot", "diamond", "crow", "tee", "box", "curve", "inv", *_OLD_ARROWS),
)
STYLE = Check(
    f"one of {', '.join(_STYLES)}, or several with commas", _every(_STYLE.fullmatch), _STYLES
)
SHAPE = Check(
    f"a shape of Graphviz: {', '.join(SHAPES[:24])} ...", lambda value: str(value) in SHAPES, SHAPES
)
SCHEME = Check(
    "'x11', 'svg' or a scheme of ColorBrewer with its size, such as 'blues9'",
    lambda value: str(value).lower() in ("", "x11", "svg", *SCHEMES),
    tuple(SCHEMES),
)

CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(
        """
        Damping K arrowsize defaultdist distortion dpi fontsize gradientangle height labelangle
        labeldistance labelfontsize len mclimit mindist minlen nodesep nslimit nslimit1 penwidth
        peripheries quantum resolution rotate searchsize sides skew sortv weight width
        """.split(),
        NUMBER,
    ),
    **dict.fromkeys(
        """
        center compound concentrate constraint decorate forcelabels headclip labelfloat landscape
        newrank nojustify regular remincross tailclip truecolor
        """.split(),
        FLAG,
    ),
    **dict.fromkeys(("arrowhead", "arrowtail"), ARROW),
    "shape": SHAPE,
    "style": STYLE,
    "colorscheme": SCHEME,
    "dir": _words("forward", "back", "both", "none"),
    "rankdir": _words("TB", "LR", "BT", "RL"),
    "rank": _words("same", "min", "max", "source", "sink"),
    "ordering": _words("in", "out"),
    "outputorder": _words("breadthfirst", "nodesfirst", "edgesfirst"),
    "clusterrank": _words("local", "global", "none"),
    "labeljust": _words("l", "c", "r"),
    "labelloc": _words("t", "c", "b"),
    "ratio": _words("fill", "compress", "expand", "auto", other=NUMBER),
    "fixedsize": _words("shape", other=FLAG),
    "imagescale": _words("width", "height", "both", other=FLAG),
    "pagedir": _words("BL", "BR", "TL", "TR", "RB", "RT", "LB", "LT"),
    "splines": _words(
        "none", "line", "polyline", "curved", "ortho", "spline", "compound", other=FLAG
    ),
}
"""The check of each attribute, for graphs, boxes and arrows alike."""


def checked(given: Mapping[str, Any], where: str) -> dict[str, str]:
    """Attributes as strings for the DOT file; *where* is the beginning of the message.

    Raises:
        InvalidArgument: A value is invalid.
    """
    scheme = str(given.get("colorscheme", ""))
    found = {}
    for name, value in given.items():
        if name in COLORS:
            check_one(f"{where}: {name}", value, color_check(scheme))
            value = listed(value, scheme)
        elif name in CHECKS:
            check_one(f"{where}: {name}", value, CHECKS[name])
        found[name] = str(value)
    return found
