"""Types of the keyword options of a drawing, for editors and type checkers.

Only imported for type checking. A test compares it with the table of options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Union

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.export.graphviz import Layout
from torchrecorder.style.figure import Figure
from torchrecorder.style.style import Rule
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import View

GraphvizAttributes = TypedDict(
    "GraphvizAttributes",
    {
        "align": Any, "arrowhead": Any, "arrowsize": Any, "arrowtail": Any, "center": Any,
        "charset": Any, "class": Any, "clusterrank": Any, "color": Any, "colorscheme": Any,
        "comment": Any, "compound": Any, "concentrate": Any, "constraint": Any, "decorate": Any,
        "dir": Any, "distortion": Any, "fillcolor": Any, "fixedsize": Any, "fontcolor": Any,
        "forcelabels": Any, "gradientangle": Any, "headclip": Any, "headlabel": Any,
        "headport": Any, "href": Any, "id": Any, "image": Any, "imagepos": Any,
        "imagescale": Any, "label": Any, "labelangle": Any, "labeldistance": Any,
        "labelfloat": Any, "labelfontcolor": Any, "labelfontname": Any, "labelfontsize": Any,
        "labeljust": Any, "labelloc": Any, "landscape": Any, "layers": Any, "margin": Any,
        "mclimit": Any, "mindist": Any, "minlen": Any, "newrank": Any, "nodesep": Any,
        "nojustify": Any, "nslimit": Any, "nslimit1": Any, "ordering": Any, "orientation": Any,
        "outputorder": Any, "pad": Any, "page": Any, "pagedir": Any, "penwidth": Any,
        "peripheries": Any, "quantum": Any, "ranksep": Any, "ratio": Any, "regular": Any,
        "remincross": Any, "resolution": Any, "rotate": Any, "samehead": Any, "sametail": Any,
        "samplepoints": Any, "searchsize": Any, "shape": Any, "shapefile": Any, "sides": Any,
        "size": Any, "skew": Any, "sortv": Any, "splines": Any, "style": Any, "stylesheet": Any,
        "tailclip": Any, "taillabel": Any, "tailport": Any, "target": Any, "tooltip": Any,
        "URL": Any, "viewport": Any, "weight": Any, "xlabel": Any,
    },
    total=False,
)
"""Attributes of Graphviz that are accepted as options."""


class DrawingOptions(GraphvizAttributes, total=False):
    """The keyword options of `Recording.render`."""

    depth: Union[int, Literal["ops"], None]
    max_boxes: int
    focus: str | None
    since: str | None
    until: str | None
    hide: Union[str, Sequence[str]]
    closed: Union[str, Sequence[str]]
    group: Mapping[str, str | Sequence[str]]
    functions: bool | None
    fold: Union[bool, Literal["similar"]]
    view: Literal["forward", "backward"]
    parameters: bool | None
    tensors: bool
    passes: bool
    reshapes: bool
    grad_nodes: bool
    queries: bool
    theme: Union[str, Theme, None]
    direction: Literal["TB", "LR", "BT", "RL"]
    colors: Mapping[str, str]
    color_by: Union[str, Annotation, None]
    color_range: Union[Sequence[float], None]
    numbers: Union[str, Annotation, Sequence[Union[str, Annotation]]]
    shapes: bool | Literal["all"]
    details: bool
    counts: bool
    rename: Mapping[str, str]
    legend: bool
    fontname: str
    fontsize: float
    width: str | None
    fit: str | tuple[str, str] | None
    height: str | None
    min_fontsize: float
    background: str | None
    attributes: Mapping[str, Any]
    node_attributes: Mapping[str, Any]
    edge_attributes: Mapping[str, Any]
    rules: Sequence[Rule]
    notes: Mapping[str, Sequence[str]]
    finish: Callable[[Figure, View], Figure] | None
    timeout: float
    layout: Layout
    dpi: float
    times: bool
    columns: tuple[Union[str, Annotation], ...]
    ops: bool
    most_lines: int
    most_text: int
    indent: int | None
    annotation: Union[str, Annotation]
    render_depth: int | None  # the names of torchrecorder 1.x and of Graphviz
    rankdir: Literal["TB", "LR", "BT", "RL"]
    bgcolor: str | None


class NetworkOptions(DrawingOptions, total=False):
    """The keyword options of `render_network`."""

    name: str | None
    directory: str | Path | None
    filename: str | None
    fmt: str
    fake: bool
    autograd: bool
