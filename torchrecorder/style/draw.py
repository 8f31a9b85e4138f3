"""Draw: makes the figure of a view in a style, with every text and color."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from torchrecorder.annotations.nan_origin import first_bad
from torchrecorder.annotations.parameter_owners import cleared_gradients
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.annotations.places import call_in_words, scope_name
from torchrecorder.checks import shown
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import CALLED, GRADIENT_MESSAGE, UNFINISHED, GradId, OpId, ScopeId
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.query.failed_backward import why_backward_failed
from torchrecorder.style import labels
from torchrecorder.style.argument_marks import Mark, argument_marks
from torchrecorder.style.captions import Captions
from torchrecorder.style.color_scale import BoxNumbers, ColorScale
from torchrecorder.style.figure import Figure, Group, Line, Look, Shape, Text
from torchrecorder.style.graph_marks import GraphMarks
from torchrecorder.style.legend import legend
from torchrecorder.style.line_labels import WITH_SHAPE, circles, line_labels, line_tooltip, symbol
from torchrecorder.style.loops import feedback, next_round
from torchrecorder.style.merge_captions import result, same
from torchrecorder.style.style import Style, failed
from torchrecorder.style.themes import Theme
from torchrecorder.style.unread import leads_nowhere, unread, with_readers
from torchrecorder.views.bundles import MAX_SINGLE_ARROWS, UPDATES, Bundle, bundles
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.view import Box, BoxKind, Cluster, View


class ErrorMarkers:
    """Marks the boxes with the first NaN or infinity, and the ops that made backward fail."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._captions: dict[str, str] = {}
        if view.recording.statistics:
            for found in first_bad(view.recording):
                where = " in backward" if found.node in view.recording.grad_nodes else ""
                self._captions[found.node] = f"first {found.kinds}{where}"
        cause = why_backward_failed(view.recording) if view.recording.run.failure else None
        if cause is not None:
            self._captions.update((op, text) for op, text in cause.captions.items())
        for failure in view.recording.run.failures:
            if failure.backward and failure.op is not None:
                self._captions[failure.op] = "failed in backward"

    def lines(self, box: Box) -> tuple[Text, ...]:
        """The captions of a box."""
        if not self._captions:
            return ()
        found = [member for member in box.members if member in self._captions]
        failed = self.view.recording.failed
        if box.id in failed:  # its own caption says with which error
            found = [member for member in found if member not in failed]
        return tuple(Text(self._captions[item] + self._place(box, item)) for item in found)

    def _place(self, box: Box, node: str) -> str:
        """The name of the sibling in a fold, or the number of the call; empty for other boxes."""
        if self.view.copies(box) == 1:
            return ""
        recording = self.view.recording
        grad = recording.grad_nodes.get(GradId(node))
        op = recording.ops.get(OpId(node) if grad is None else grad.owner or OpId(""))
        if op is None:
            return ""
        call, place = call_in_words(recording, op.id), scope_name(recording, op.scope)
        return f", {call}" if call else f" in {place}" if place else ""

    def look(self, box: Box, look: Look, theme: Theme, *, heated: bool) -> Look:
        """*look*, marked if something failed; if the fill shows a number, only its outline."""
        if not self.lines(box):
            return look
        mark = theme.looks["failed"]
        found = replace(look, stroke=mark.stroke, width=mark.width, bold=True)
        return found if heated else replace(found, fill=mark.fill, text=mark.text)


WIDE = 2.4
"""The relative width of a line that stands for many arrows."""


@without_gc()
def draw(
    view: View,
    style: Style = Style(),
    unused: Mapping[str, str] | None = None,
    captions: Captions | None = None,
) -> Figure:
    """The figure of *view* in *style*.

    Args:
        view: The view to draw.
        style: The style.
        unused: Captions of boxes whose results no drawn box reads, by id; by default of boxes
            without outgoing edges.
        captions: The captions of another view of the same recording without folds, in the same
            style except colors.
    """
    [figure] = draw_in(
        [style.theme], view, style, unread(view) if unused is None else unused,
        captions or Captions(view, style, _repeated(view)),
    )
    return figure


def draw_in(
    themes: Iterable[Theme], view: View, style: Style, unused: Mapping[str, str],
    captions: Captions, *, brief: bool = False,
) -> tuple[Figure, ...]:
    """The figure of *view* in each of these *themes*, with the same texts; otherwise as `draw`.

    A *brief* one has no tooltips, full names and marks of arguments.
    """
    drawing = _ViewDrawing(view, style, captions, unused, brief)
    styles = map(style.in_theme, themes)
    return tuple(_finished(drawing.figure(themed), view, themed) for themed in styles)


def _finished(figure: Figure, view: View, style: Style) -> Figure:
    done = figure if style.finish is None else style.finish(figure, view)
    if not isinstance(done, Figure):
        raise InvalidArgument(f"finish must give a Figure, not {shown(done)}")
    return done


class _ViewDrawing:
    """The parts of the figure of one view, without the looks of a theme."""

    def __init__(
        self, view: View, style: Style, captions: Captions, unused: Mapping[str, str], brief: bool
    ) -> None:
        self.view, self.style, self.captions, self.unused = view, style, captions, unused
        self.brief = brief
        self.graphs, self.errors = GraphMarks(view), ErrorMarkers(view)
        self.heat = None
        if style.color_by is not None:
            self.heat = ColorScale(view, style.color_by, style.color_range)
        self.bundles = bundles(view)
        self.encircled = set[str]()
        texts = line_labels(view, self.bundles, captions)
        self.shapes = [*self._shapes({self.bundles[number].first.tail for number in texts})]
        self.groups = [*map(self._group, view.clusters.values())]
        self.lines = [*self._lines(texts)]

    def figure(self, style: Style) -> Figure:
        """The figure, before the ``finish`` of the style, which is that of all themes in one."""
        view, theme = self.view, style.theme
        marks = (self.heat or self.graphs).legend(theme)
        shapes = zip(view.boxes.values(), self.shapes)
        groups = zip(view.clusters.values(), self.groups)
        lines = zip(self.bundles, self.lines)
        return Figure(
            name=view.recording.name,
            shapes=(
                *(shape(look=self._box_look(box, style)) for box, shape in shapes),
                *_notes(view, style),
            ),
            groups=tuple(group(look=self._group_look(one, style)) for one, group in groups),
            lines=tuple(line(look=self._line_look(one, style)) for one, line in lines),
            direction=style.direction,
            background=theme.paper if style.background is None else style.background,
            fontname=style.fontname,
            fontsize=style.fontsize,
            legend=(*marks, *(legend(view, style) if style.legend else ())),
            attributes=style.attributes,
            paper=style.paper(),
        )

    def _shapes(self, captioned: Collection[str]) -> Iterator[partial[Shape]]:
        """The shape of each box, without its look; those *captioned* show outputs."""
        view, style, heat, graphs = self.view, self.style, self.heat, self.graphs
        numbers = BoxNumbers(
            view, tuple(number for number in style.numbers if number != style.color_by)
        )
        round_ = circles(view, captioned)
        cleared: Mapping[str, str] = cleared_gradients(view.recording) if view.backward else {}
        for box in view.boxes.values():
            label = self.captions.box(box)
            if box.kind is not BoxKind.GRAD and view.is_idle(box):
                label = (*label, Text("no gradient" if box.kind in WITH_SHAPE else "did not run"))
            hooks = {cleared[member] for member in filter(cleared.__contains__, box.members)}
            if len(hooks) == 1:
                label = (*label, *(Text(f"cleared by {item}") for item in hooks))
            if back := feedback(view, box):
                label = (*label, Text(next_round(view, back)))
            if box.id in self.unused:
                label = with_readers(label, self.unused[box.id])
            label = (*label, *graphs.lines(box))
            said = (PARAMETERS,) if self._counts_parameters(box) else ()
            if heat is not None and heat.annotation not in said and not failed(box.id, view):
                label = (*label, *heat.lines(box))
            label = (*label, *numbers.lines(box, said), *self.errors.lines(box))
            if box.id in round_ and [text.text for text in label] == [round_[box.id]]:
                self.encircled.add(box.id)
                label = (symbol(round_[box.id]),)
            shape = partial(
                Shape, box.id, box.cluster, label, count=box.count, kind=box.kind.value
            )
            if not self.brief:
                about = [self.captions.tooltip(box), *graphs.tooltip(box.members)]
                tooltip, name = "\n".join(filter(None, about)), self.captions.full_name(box.id)
                shape = partial(shape, tooltip=tooltip, name=name)
            yield shape

    def _counts_parameters(self, box: Box) -> bool:
        """Whether the lines on a box have the number of its parameters."""
        counted = is_block(box.id) or box.kind in (BoxKind.MODULE, BoxKind.REGION)
        return self.style.counts and counted

    def _box_look(self, box: Box, style: Style) -> Look:
        view, theme, look = self.view, style.theme, style.look(box, self.view)
        if box.id in self.unused and leads_nowhere(self.unused[box.id]):
            look = replace(look, dash="dotted")
        look = self.graphs.look(box, look, theme) if self.heat is None else look
        if box.share is not None:
            look = dashed(look)
        heated = self.heat is not None and not failed(box.id, view)
        if self.heat is not None and heated:
            look = self.heat.look(box, look, theme)
        look = self.errors.look(box, look, theme, heated=heated)
        return replace(look, outline="circle") if box.id in self.encircled else look

    def _group(self, cluster: Cluster) -> partial[Group]:
        """The group of a cluster, without its look."""
        view, captions, graphs = self.view, self.captions, self.graphs
        label = *captions.cluster(cluster), *graphs.corner(cluster)
        if back := feedback(view, cluster):
            label = (*label, Text(next_round(view, back)))
        group = partial(
            Group, cluster.id, cluster.parent, label, count=cluster.count,
            loop=(back[0].tail, back[0].head) if back else None,
        )
        if self.brief:
            return group
        scope = view.recording.scopes.get(ScopeId(cluster.id))
        about = [captions.scope_tooltip(scope, cluster)] if scope else []
        tooltip = "\n".join([*about, *graphs.tooltip([cluster.id])])
        return partial(group, tooltip=tooltip, name=captions.full_name(cluster.id))

    def _group_look(self, cluster: Cluster, style: Style) -> Look:
        view, theme = self.view, style.theme
        scope = view.recording.scopes.get(ScopeId(cluster.id))
        depth = view.nesting.depth[cluster.id]
        if scope is None and not is_block(cluster.id):
            look = theme.opened
        elif scope is None or scope.kind in CALLED:
            look = theme.groups[min(depth, len(theme.groups) - 2 + depth % 2)]
        else:
            look = theme.region
        look = style.custom.frame(look, style.custom.of_cluster(cluster, view), theme)
        if cluster.count > 1:
            look = replace(look, width=2.0)
        if style.color_by is None:
            look = self.graphs.group_look(cluster, look, theme)
        if cluster.share is not None:
            look = dashed(look)
        if failed(cluster.id, view):
            look = replace(look, stroke=theme.looks["failed"].stroke, width=1.8)
        return look

    def _lines(self, texts: Mapping[int, str]) -> Iterator[partial[Line]]:
        """The line of each bundle, without its look; *texts* are the labels of some."""
        view = self.view
        marks = {} if self.brief else argument_marks(view, self.bundles)
        side = view.recording.side_values
        for number, bundle in enumerate(self.bundles):
            arrow, value = bundle.first, same(view, bundle.first)
            line = partial(
                Line, arrow.tail, arrow.head, texts.get(number, ""), value=bundle.trunk or value,
                result=result(view.recording, arrow.tail, value), count=len(bundle.arrows),
                side=arrow.value in side or bundle.flow in UPDATES,
            )
            if not self.brief:
                mark, tooltip = marks.get(number, Mark()), line_tooltip(view, bundle)
                tooltip += "\nacross a graph break" if self.graphs.crosses(arrow) else ""
                line = partial(line, tooltip=tooltip, mark=mark.text, place=mark.place)
            yield line

    def _line_look(self, bundle: Bundle, style: Style) -> Look:
        """The look of a line: light for updates, wide if it stands for many arrows."""
        theme, attributes, first = style.theme, style.edge_attributes, bundle.first
        look = theme.line if first.value else theme.gradient
        if bundle.flow in UPDATES:
            look = theme.update
        elif len(bundle.arrows) > MAX_SINGLE_ARROWS:
            look = replace(look, width=WIDE * look.width)
        broken = first.some or first.slot == GRADIENT_MESSAGE
        look = self.graphs.line(first, dashed(look) if broken else look, theme)
        return replace(look, attributes=attributes) if attributes else look


def _repeated(view: View) -> frozenset[str]:
    """Clusters that stand for several siblings, and all clusters in them."""
    clusters, around = view.clusters, view.nesting.around
    return frozenset(
        cluster
        for cluster in clusters
        if any(clusters[outer].count > 1 for outer in around(cluster))
    )


def _notes(view: View, style: Style) -> Iterator[Shape]:
    """Notes that the view is empty, and about errors that ended the run outside of all calls."""
    look = style.theme.looks[BoxKind.CONSTANT.value]
    if not view.boxes and not view.clusters:
        empty = Text("nothing was recorded", "title"), Text("no module and no torch function ran")
        yield Shape("nothing", None, empty, look, "", kind="note", name="nothing was recorded")
    for number, failure in enumerate(view.recording.run.failures):
        if (failure.scope, failure.op, failure.grad) == (None, None, None):
            ended = failure.error != UNFINISHED
            text = failure.text(folder=False) if ended else failure.message
            lines = textwrap.wrap(labels.first_sentences(text, 240), 44)
            label = Text("failed" if ended else UNFINISHED.lower(), "title"), *map(Text, lines)
            marked = replace(style.theme.looks["failed"], outline=look.outline)
            yield Shape(f"failure:{number}", None, label, marked, text, kind="note", name=text)


def dashed(look: Look) -> Look:
    """*look* for parts that only some repeats have, and for messages of gradients."""
    return replace(look, dash="dashed", width=max(look.width, 1.3))


def narrow(line: Line) -> Look:
    """The look of *line* with the width of a single arrow."""
    width = round(line.look.width / WIDE, 6)  # exactly that of the theme
    return replace(line.look, width=width) if line.count > MAX_SINGLE_ARROWS else line.look
