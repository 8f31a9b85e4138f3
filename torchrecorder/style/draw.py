"""Draw: a view and a style -> a figure, with every text and colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from torchrecorder.checks import shown
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.gc_pause import uncollected
from torchrecorder.style import labels
from torchrecorder.style.captions import Captions
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape, Text
from torchrecorder.style.color_scale import BoxNumbers, Heat
from torchrecorder.style.legend import legend
from torchrecorder.style.nan_markers import Marks
from torchrecorder.style.style import Style, failed
from torchrecorder.style.merge_captions import first_to_last, given, result, same
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, View

SYMBOLS = {"add": "+", "add_": "+", "iadd": "+", "mul": "×", "mul_": "×", "imul": "×"}
"""What stands in the circle of an operation that has nothing else to say."""

STORED = (BoxKind.PARAMETER, BoxKind.BUFFER, BoxKind.CONSTANT)
"""Boxes of what is not computed: what reads them has no shape from them."""

WITH_SHAPE = (
    BoxKind.INPUT,
    BoxKind.PARAMETER,
    BoxKind.BUFFER,
    BoxKind.CONSTANT,
    BoxKind.TENSOR,
)
"""Boxes that show the shape of their tensor: arrows do not repeat it."""


@uncollected()
def draw(view: View, style: Style = Style()) -> Figure:
    """The figure of *view* in *style*."""
    captions = Captions(view.recording, style)
    heat = None
    if style.color_by is not None:
        heat = Heat(view, style.color_by, style.theme, style.color_range)
    texts = _labels(view, style, captions) if style.shapes else {}
    circles = _circles(view, texts)
    shapes = tuple(_shapes(view, style, captions, heat, circles))
    if not view.boxes and not view.clusters:
        shapes = (_nothing(style),)
    figure = Figure(
        name=view.recording.name,
        shapes=shapes,
        groups=tuple(_groups(view, style, captions)),
        lines=tuple(_lines(view, style, texts)),
        direction=style.direction,
        background=style.theme.paper if style.background is None else style.background,
        fontname=style.fontname,
        fontsize=style.fontsize,
        legend=(
            *(heat.legend() if heat is not None else ()),
            *(legend(view, style) if style.legend else ()),
        ),
        attributes=style.attributes,
        paper=style.paper(),
    )
    return finished(figure, view, style)


def repainted(figure: Figure, view: View, style: Style) -> Figure:
    """*figure* of *view* in the colours of *style*, with the same texts."""
    marks, line = Marks(view), style.theme.line
    depth = view.nesting.depth
    done = replace(
        figure,
        shapes=tuple(
            replace(shape, look=marks.look(box, style.look(box, view), style.theme))
            for shape, box in zip(figure.shapes, view.boxes.values())
        ),
        groups=tuple(
            replace(group, look=_group_look(view, style, cluster, depth[cluster.id]))
            for group, cluster in zip(figure.groups, view.clusters.values())
        ),
        lines=tuple(
            replace(each, look=line if arrow.value else style.theme.gradient)
            for each, arrow in zip(figure.lines, view.arrows)
        ),
        legend=legend(view, style) if style.legend else (),
    )
    return finished(done, view, style)


def finished(figure: Figure, view: View, style: Style) -> Figure:
    """*figure* as the ``finish`` of *style* returns it."""
    done = figure if style.finish is None else style.finish(figure, view)
    if not isinstance(done, Figure):
        raise InvalidArgument(f"finish must give a Figure, not {shown(done)}")
    return done


def _shapes(
    view: View,
    style: Style,
    captions: Captions,
    heat: Heat | None,
    circles: Mapping[str, str],
) -> Iterator[Shape]:
    marks = Marks(view)
    numbers = BoxNumbers(view, tuple(each for each in style.numbers if each != style.color_by))
    for box in view.boxes.values():
        look, label = style.look(box, view), (*captions.box(box), *_idle(view, box))
        if box.share is not None:
            look = _dashed(look)
        heated = heat is not None and not failed(box.id, view)
        if heat is not None and heated:
            look, label = heat.look(box, look), (*label, *heat.lines(box))
        if numbers or marks:
            label = (*label, *numbers.lines(box), *marks.lines(box))
            look = marks.look(box, look, style.theme, heated=heated)
        if _is_plain(label, circles.get(box.id)):
            label = (Text(SYMBOLS[circles[box.id]], "title"),)
            look = replace(look, outline="circle")
        yield Shape(
            id=box.id,
            group=box.cluster,
            label=label,
            look=look,
            tooltip=captions.tooltip(box),
            count=box.count,
            kind=box.kind.value,
            name=captions.full_name(box.id),
        )


def _is_plain(label: Sequence[Text], name: str | None) -> bool:
    """Whether all that a label says is the name of an operation."""
    return [text.text for text in label] == [name]


def _circles(view: View, texts: Mapping[int, str]) -> dict[str, str]:
    """The operations, by box, that may be circles: sums and products whose shape goes unsaid."""
    told = {view.arrows[number].tail for number in texts}
    reads = Counter(arrow.head for arrow in view.arrows)
    found = {}
    for box in view.boxes.values():
        op = view.recording.ops.get(OpId(box.id)) if box.kind is BoxKind.OP else None
        if op is not None and op.name in SYMBOLS and box.count == 1:
            if box.id not in told and reads[box.id] == 2:
                found[box.id] = op.name
    return found


def _idle(view: View, box: Box) -> Iterator[Text]:
    """The caption of a box that did not take part in backward; grad nodes have their own."""
    if box.kind is not BoxKind.GRAD and view.is_idle(box):
        yield Text("no gradient" if box.kind in WITH_SHAPE else "did not run")


def _nothing(style: Style) -> Shape:
    """A note for an empty view: an empty page would look broken."""
    label = Text("nothing was recorded", "title"), Text("no module and no torch function ran")
    look = style.theme.looks[BoxKind.CONSTANT.value]
    return Shape("nothing", None, label, look, "", kind="note", name="nothing was recorded")


def _groups(view: View, style: Style, captions: Captions) -> Iterator[Group]:
    depth = view.nesting.depth
    for cluster in view.clusters.values():
        scope = view.recording.scopes.get(ScopeId(cluster.id))
        yield Group(
            id=cluster.id,
            parent=cluster.parent,
            label=captions.cluster(cluster),
            look=_group_look(view, style, cluster, depth[cluster.id]),
            tooltip=captions.scope_tooltip(scope, cluster) if scope else "",
            count=cluster.count,
            name=captions.full_name(cluster.id),
        )


def _group_look(view: View, style: Style, cluster: Cluster, depth: int) -> Look:
    theme = style.theme
    scope = view.recording.scopes.get(ScopeId(cluster.id))
    if scope is None and not is_block(cluster.id):
        look = theme.opened
    elif scope is None or scope.kind in (ScopeKind.MODULE, ScopeKind.FUNCTION):
        look = theme.groups[min(depth, len(theme.groups) - 2 + depth % 2)]
    else:
        look = theme.region
    if cluster.count > 1:
        look = replace(look, width=2.0)
    if cluster.share is not None:
        look = _dashed(look)
    if failed(cluster.id, view):
        look = replace(look, stroke=theme.looks["failed"].stroke, width=1.8)
    return look


def _dashed(look: Look) -> Look:
    """*look* for what only some repeats have; recognisable without colour."""
    return replace(look, dash="dashed", width=max(look.width, 1.3))


def _lines(view: View, style: Style, texts: Mapping[int, str]) -> Iterator[Line]:
    look, gradient = style.theme.line, style.theme.gradient
    if style.edge_attributes:
        look = replace(look, attributes=style.edge_attributes)
        gradient = replace(gradient, attributes=style.edge_attributes)
    for number, arrow in enumerate(view.arrows):
        value, plain = same(view, arrow), look if arrow.value else gradient
        yield Line(
            tail=arrow.tail,
            head=arrow.head,
            label=texts.get(number, ""),
            look=_dashed(plain) if arrow.some else plain,
            tooltip=_tooltip(view, arrow),
            value=value,
            result=result(view.recording, arrow.tail, value),
        )


def _labels(view: View, style: Style, captions: Captions) -> dict[int, str]:
    """The labels of arrows, by index: each tensor is labelled on its first arrow.

    Arrows to outputs have none, as the box shows the shape, unless other arrows of the same
    tail would seem to show all of its results.
    """
    found: dict[int, str] = {}
    told: dict[str, set[ValueId | None]] = {}
    for number, arrow in sorted(enumerate(view.arrows), key=lambda each: is_final(view, each[1])):
        value, before = same(view, arrow), told.setdefault(arrow.tail, set())
        if value in before or (is_final(view, arrow) and not before):
            continue
        text = carried(view, arrow, captions)
        if text:
            found[number] = text
            before.add(value)
    if style.shapes != "all" and not view.backward:
        for number in _repeated(view, captions, found):
            del found[number]
    return found


def _repeated(view: View, captions: Captions, labels: Mapping[int, str]) -> list[int]:
    """The labels, by index, that only repeat the shape of all that their box reads.

    A tensor keeps its label where several boxes read it, unless it is a sum or a product, and
    where it is one of several results.
    """
    labelled: dict[str, list[int]] = {}
    for number in labels:
        labelled.setdefault(view.arrows[number].tail, []).append(number)
    readers: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    for arrow in view.arrows:
        readers.setdefault(arrow.tail, set()).add(arrow.head)
        if view.boxes[arrow.tail].kind not in STORED:
            read.setdefault(arrow.head, set()).add(_shape_of(view, arrow, captions))
    ops = view.recording.ops
    return [
        numbers[0]
        for tail, numbers in labelled.items()
        if len(numbers) == 1 and read.get(tail) == {labels[numbers[0]]}
        if len(readers[tail]) == 1 or (tail in ops and ops[OpId(tail)].name in SYMBOLS)
    ]


def is_final(view: View, arrow: Arrow) -> bool:
    """Whether it leads to an output of the run."""
    return view.boxes[arrow.head].kind is BoxKind.OUTPUT


def carried(view: View, arrow: Arrow, captions: Captions) -> str:
    """The shape of what the tail of an arrow returns, unless one of its ends shows it."""
    ends = (view.boxes[arrow.tail].kind, view.boxes[arrow.head].kind)
    if any(kind in WITH_SHAPE for kind in ends):
        return ""
    return _shape_of(view, arrow, captions)


def _shape_of(view: View, arrow: Arrow, captions: Captions) -> str:
    """The shape of what the tail of an arrow returns."""
    value = view.given(arrow)
    if value is None:
        return ""
    found = given(view, arrow, value) if view.boxes[arrow.tail].instances else (value,)
    values = view.recording.values
    return first_to_last([labels.value(values[each], captions.usual) for each in found])


def _tooltip(view: View, arrow: Arrow) -> str:
    if arrow.value is None:
        return ""
    value = view.recording.values[ValueId(arrow.value)]
    name = f"{arrow.slot}: " if arrow.slot and not arrow.slot.isdigit() else ""
    producer = view.recording.ops.get(OpId(value.producer or ""))
    made = f"\nfrom {producer.name}" if producer else ""
    said = f"{name}{labels.shape(value.shape)} {value.dtype}{made}"
    given = view.given(arrow)
    if given is None or given == arrow.value:
        return said
    leaves = view.recording.values[given]
    return f"{labels.shape(leaves.shape)} {leaves.dtype}\nafter what is hidden: {said}"
