"""Values: the valid values of Graphviz attributes.

Graphviz replaces invalid values silently by black, a box or a plain arrow. The names are those of
its manual (https://graphviz.org/doc/info/attrs.html).
Attributes that hold any text, such as ``label``, are not listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from torchrecorder.checks import Check, check_one, one_of
from torchrecorder.style.color import color_check, listed
from torchrecorder.style.color_names import SCHEMES

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
