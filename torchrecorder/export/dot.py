"""Dot: a figure as a ``graphviz.Digraph``, and as DOT text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from torchrecorder.export import legend
from torchrecorder.export.legend import SMALL_TEXT
from torchrecorder.export.quoting import attribute_values, html, joined, quote, quoted, verbatim
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.layout.measure import label_size, text_width
from torchrecorder.style.color import faded
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape, Text, nested
from torchrecorder.style.labels import in_a_line
from torchrecorder.style.paper import Paper

MARK = "centered"
"""The class of boxes with centered labels."""

SHAPES = {"rounded": "box", "plain": "plain"}
"""Outlines with another name in Graphviz."""

_MARGIN = {"margin": quote("0,0")}
TIGHT = {
    **dict.fromkeys(("parallelogram", "octagon", "ellipse"), _MARGIN),
    "circle": {**_MARGIN, "width": quote("0.25")},
}
"""Attributes of outlines for which Graphviz leaves too much space."""

TABLE = '<table border="0" cellborder="0" cellspacing="0" cellpadding="0">'
"""A table without lines, to align a label."""

MANY_LINES = 400
"""With at least this number of lines, Graphviz uses cheaper settings."""

LEADING = 1.15
"""Line height of small text, relative to its font size."""


@dataclass(frozen=True)
class Pins:
    """Attributes with positions, for layouts that Graphviz did not compute."""

    # for the id of each shape
    shapes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # for the id of each group
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lines: Sequence[Mapping[str, str]] = ()  # for each line, in their order
    legend: Mapping[str, str] = field(default_factory=dict)  # for the frame of the legend
    # for each feedback edge its two ends, and its attributes
    loops: Sequence[tuple[tuple[str, str], Mapping[str, str]]] = ()


@without_gc()
def dot_text(figure: Figure, pins: Pins = Pins()) -> str:
    """*figure* in DOT."""
    head = f"digraph {quote(figure.name)} {{"
    return "\n\t".join([head, *statements(figure, pins)]) + "\n}\n"


def node_name(box: str) -> str:
    """The name of a box in DOT, without colons, which separate ports."""
    return box.replace(":", "_")


def look_attributes(look: Look) -> dict[str, str]:
    """The Graphviz attributes of a look."""
    style = ["filled"] if look.outline != "plain" else []
    if look.outline == "rounded":
        style.append("rounded")
    if look.dash != "solid":
        style.append(look.dash)
    return {
        "shape": SHAPES.get(look.outline, look.outline),
        "style": ",".join(style),
        "fillcolor": look.fill,
        "color": look.stroke,
        "fontcolor": look.text,
        "penwidth": f"{look.width:g}",
    }


def plain_label(label: tuple[Text, ...]) -> str:
    """The lines of a label as plain text."""
    return "\n".join(text.text for text in label)


def output_labels(figure: Figure) -> dict[str, Text]:
    """For each shape, the labels of the lines that leave it, as one line of small text.

    Graphviz reserves space for labels of edges, but inside clusters it bends edges around them and
    draws them over borders. So these labels are written in the boxes.
    """
    outputs: dict[str, Counter[str]] = {}
    for line in sorted(figure.lines, key=lambda line: line.result):
        if line.label:
            outputs.setdefault(line.tail, Counter())[line.label] += 1
    return {tail: Text(in_a_line(labels)) for tail, labels in outputs.items()}


def statements(figure: Figure, pins: Pins = Pins()) -> Iterator[str]:
    """The statements of the graph, without tabs and newlines."""
    if figure.legend and not pins.legend:
        yield f"graph [{joined(quoted(legend.ON_ITS_OWN))}]"
    yield from _defaults(figure)
    yield from _nested(figure, pins)
    yield from _legend(figure, pins)
    common = figure.lines[0].look if figure.lines else None
    if common is not None:
        yield f"edge [{joined(attribute_values(_line_look(common)))}]"
    # Graphviz keeps lines between neighbors in run order straight.
    following = {one.id: other.id for one, other in zip(figure.shapes, figure.shapes[1:])}
    for number, line in enumerate(figure.lines):
        more = {"weight": quote("40")} if following.get(line.tail) == line.head else {}
        more.update({"headlabel": quote(line.mark)} if line.mark else {})
        yield _edge(line, common, pins.lines[number] if pins.lines else more)
    for ends, pinned in pins.loops:
        yield f"{' -> '.join(quote(node_name(end)) for end in ends)} [{joined(pinned)}]"


def _defaults(figure: Figure) -> Iterator[str]:
    font, size = font_family(figure), f"{figure.fontsize:g}"
    graph = {
        "rankdir": figure.direction,
        "bgcolor": figure.background,
        "fontname": font,
        "fontsize": size,
        "labeljust": "l",
        "nodesep": "0.22",
        "ranksep": "0.27",
        "pad": "0.1",
        "margin": "0",
        **_page(figure.paper),
        **(_cheap(figure) if len(figure.lines) > MANY_LINES else {}),
        **figure.attributes,
    }
    yield f"graph [{joined(attribute_values(graph))}]"
    room = {"margin": "0.13,0.06", "height": "0.3", "width": "0.4"}
    yield f"node [{joined(attribute_values({'fontname': font, 'fontsize': size, **room}))}]"
    edge = {"fontname": font, "fontsize": f"{figure.fontsize * SMALL_TEXT:g}", "arrowsize": "0.6"}
    yield f"edge [{joined(attribute_values(edge))}]"


def _page(paper: Paper) -> dict[str, str]:
    """The maximum size for Graphviz, if the size of the page is given."""
    sides = paper.place or (paper.width, paper.height)
    room = ",".join(f"{(side or 1e5) / 72:.4f}" for side in sides)
    return {"size": room} if paper else {}


def _cheap(figure: Figure) -> dict[str, str]:
    """Settings with which Graphviz is fast on large graphs."""
    dense = len(figure.lines) > 4 * len(figure.shapes)
    cheap = {"nslimit": "1", "nslimit1": "1", "mclimit": "0.2" if dense else "0.5"}
    return {**cheap, "splines": "line"} if dense else cheap


def font_family(figure: Figure) -> str:
    """The font of a figure, with fallbacks for Helvetica."""
    plain = figure.fontname == "Helvetica"
    return "Helvetica,Arial,sans-serif" if plain else figure.fontname


def _nested(figure: Figure, pins: Pins) -> Iterator[str]:
    """Clusters and boxes, nested."""
    outputs = output_labels(figure)
    for depth, each in nested(in_order(figure)):
        tabs = "\t" * depth
        if each is None:
            yield f"{tabs}}}"
        elif isinstance(each, Shape):
            pinned = pins.shapes.get(each.id, {})
            text = _shape(each, figure, outputs.get(each.id), pinned)
            yield f"{tabs}{quote(node_name(each.id))} [{text}]"
        else:
            yield f"{tabs}subgraph {quote('cluster_' + node_name(each.id))} {{"
            yield f"{tabs}\tgraph [{_group(each, figure, pins.groups.get(each.id, {}))}]"


def in_order(figure: Figure) -> Iterator[Shape | Group]:
    """Shapes in order, each group before its first shape."""
    groups = {group.id: group for group in figure.groups}
    placed = set()
    for shape in figure.shapes:
        chain = []
        around = shape.group
        while around is not None and around not in placed:
            placed.add(around)
            chain.append(groups[around])
            around = groups[around].parent
        yield from reversed(chain)
        yield shape
    yield from (group for group in figure.groups if group.id not in placed)


def _shape(shape: Shape, figure: Figure, outputs: Text | None, pinned: Mapping[str, str]) -> str:
    own = shape.look.attributes
    label = shape.label if outputs is None else (*shape.label, outputs)
    attributes = {"label": f"<{'<br/>'.join(pieces(label, shape.look, figure))}>"}
    if "label" not in own:
        attributes["class"] = quote(MARK)
    attributes.update(TIGHT.get(shape.look.outline, {}))
    if shape.count > 1:
        attributes["peripheries"] = quote("2")
    if shape.tooltip:
        attributes["tooltip"] = verbatim(shape.tooltip)
    attributes.update(pinned)
    return joined({**quoted(look_attributes(shape.look)), **attributes, **attribute_values(own)})


def _group(group: Group, figure: Figure, pinned: Mapping[str, str]) -> str:
    attributes = {"label": _corner(group, figure), "margin": quote("9")}
    attributes["tooltip"] = verbatim(group.tooltip)  # otherwise inherited from the group around it
    attributes.update(pinned)
    look, own = quoted(_paper_attributes(group.look)), attribute_values(group.look.attributes)
    return joined({**look, **attributes, **own})


def _paper_attributes(look: Look) -> dict[str, str]:
    """The Graphviz attributes of the look of a cluster."""
    found = look_attributes(look)
    found.pop("shape")
    found["bgcolor"] = found.pop("fillcolor")
    found["style"] = found["style"].replace("filled,", "").replace("filled", "solid")
    return found


def _corner(group: Group, figure: Figure) -> str:
    """The label of a cluster, in its left half if arrows cross its middle.

    Graphviz makes a cluster as wide as its label, and draws arrows over the label.
    """
    label, text = corner_label(group, figure)
    if figure.direction in ("LR", "RL"):
        return f"<{text}>"
    width, _ = label_size(label, figure.fontsize, fontname=figure.fontname)
    left = f'<td align="left" balign="left">{text}</td>'
    return f'<{TABLE}<tr>{left}<td width="{round(width + 16)}"></td></tr></table>>'


def corner_label(
    group: Group, figure: Figure, in_one: bool = False
) -> tuple[tuple[Text, ...], str]:
    """The `corner_lines`, and the same in the syntax of Graphviz, left-aligned."""
    label = corner_lines(group, figure, in_one)
    return label, "<br align=\"left\"/>".join([*pieces(label, group.look, figure), ""])


def corner_lines(group: Group, figure: Figure, in_one: bool = False) -> tuple[Text, ...]:
    """The lines of the label of a cluster; its title may be *in_one* line even if it is long."""
    return group.label if in_one else tuple(in_two(group.label, figure))


def in_two(label: tuple[Text, ...], figure: Figure) -> Iterator[Text]:
    """A long title as two lines, its name above its class."""
    for text in label:
        name, mark, cls = text.text.partition(": ")
        if mark and text.part == "title" and text_width(text.text, figure.fontsize) > 100:
            yield Text(f"{name}:", "title")
            yield Text(cls, "title")
        else:
            yield text


def pieces(label: tuple[Text, ...], look: Look, figure: Figure) -> Iterator[str]:
    """The lines of a label in Graphviz's syntax.

    Graphviz puts small text too close to the line above it, and the lines of a title too far apart.
    Spaces with another font size correct this.
    """
    small, apart = _small_print(figure.fontsize)
    for number, text in enumerate(label):
        message = html(text.text) or " "
        if text.part == "title":
            beside = apart if number and label[number - 1].part == "title" else ""
            yield (f"<b>{message}</b>" if look.bold else message) + beside
        else:
            color = faded(look.text, look.fill)
            yield f'{apart}<font point-size="{small}" color="{color}">{message}</font>{apart}'


@lru_cache(maxsize=64)
def _small_print(fontsize: float) -> tuple[str, str]:
    """The size of small text, and the space between it and the line above."""
    size = fontsize * SMALL_TEXT
    return f"{size:g}", f'<font point-size="{round(size * LEADING)}"> </font>'


def _edge(line: Line, common: Look | None, more: Mapping[str, str]) -> str:
    attributes = dict(more)
    if line.look != common:
        attributes.update(attribute_values(_line_look(line.look)))
    if line.tooltip:
        attributes["edgetooltip"] = verbatim(line.tooltip)
    ends = f"{quote(node_name(line.tail))} -> {quote(node_name(line.head))}"
    return f"{ends} [{joined(attributes)}]" if attributes else ends


def _line_look(look: Look) -> dict[str, str]:
    found = {
        "color": look.stroke,
        "fontcolor": look.text,
        "penwidth": f"{look.width:g}",
        "style": look.dash,
    }
    return {**found, **look.attributes}


def _legend(figure: Figure, pins: Pins) -> Iterator[str]:
    """The legend: a cluster with a box for each entry, below each other."""
    if not figure.legend:
        return
    room = {"height": f"{legend.entry_height(figure) / 72:.4f}", "fixedsize": "true"}
    room["fontsize"] = f"{figure.fontsize * SMALL_TEXT:g}"
    frame = {"style": "rounded", "color": legend.edge(figure), "margin": f"{legend.MARGIN:g}"}
    yield 'subgraph "cluster_legend" {'
    yield f"\tgraph [{joined({**quoted(frame), **pins.legend})}]"
    for shape, width in zip(legend.shapes(figure), legend.widths(figure)):
        wide = {"width": f"{width / 72:.4f}"}
        pinned = {**quoted({**wide, **room}), **pins.shapes.get(shape.id, {})}
        yield f"\t{quote(node_name(shape.id))} [{_shape(shape, figure, None, pinned)}]"
    names = [quote(node_name(shape.id)) for shape in legend.shapes(figure)]
    if not pins.legend and figure.direction in ("TB", "BT") and len(names) > 1:
        yield f'\t{" -> ".join(names)} [style="invis"]'
    yield "}"
