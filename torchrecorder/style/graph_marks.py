"""Graph marks: compiled graphs, and graph breaks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from torchrecorder.annotations.compiled import breaks_at, graphs_among, kernels_of
from torchrecorder.events import COMPILED_GRAPH, GraphBreak, ScopeId
from torchrecorder.graph.relations import ops_inside
from torchrecorder.style.color import mix
from torchrecorder.style.figure import LegendEntry, Look, Text
from torchrecorder.style.labels import at
from torchrecorder.style.themes import PRINT, Theme
from torchrecorder.views.view import Arrow, Box, Cluster, View

HUES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#8a6d3b")
"""Colors of the outlines of graphs, in turn; distinguishable for color-blind readers."""

MAX_GRAPHS = 6
"""Maximum number of graphs in the legend."""

REASON_LENGTH = 30
"""Maximum length of a line with the reason of a graph break."""

ROWS = 3
"""Maximum number of kernels in a tooltip."""


class GraphMarks:
    """Looks and captions for compiled graphs; empty if the recording has none."""

    def __init__(self, view: View) -> None:
        recording = view.recording
        self.view = view
        self.found = bool(recording.compiled_graphs) and not view.backward
        self._known = recording.measured.get(COMPILED_GRAPH, {}) if self.found else {}
        self._breaks = breaks_at(recording) if self.found else {}
        self._kernels = kernels_of(recording) if self.found else {}

    def look(self, box: Box, look: Look, theme: Theme) -> Look:
        """*look* with the outline of the graph of *box*, and a mark at a graph break."""
        if self._is_break(box.id):
            return replace(_at_break(look, theme), bold=True)
        return _outlined(look, self._graph_of.get(box.id), 2.0, theme)

    def _is_break(self, box: str) -> bool:
        """Whether a box is an op at which a graph breaks."""
        return box in self._breaks and box in self.view.recording.ops

    def group_look(self, cluster: Cluster, look: Look, theme: Theme) -> Look:
        """*look* with the outline of a graph, if all ops of an open scope are in it."""
        if not self.found:
            return look
        scope = self.view.recording.scopes.get(ScopeId(cluster.id))  # not for a block of siblings
        ops = ops_inside(self.view.recording, [scope.id] if scope is not None else [])
        return _outlined(look, self._only(ops), 1.8, theme)

    def lines(self, box: Box) -> Iterator[Text]:
        """The captions of a box: its graph breaks."""
        members = box.members if self._breaks else ()
        found = [item for member in members for item in self._breaks.get(member, ())]
        yield from self._texts(found, box.id not in self.view.recording.ops)

    def corner(self, cluster: Cluster) -> Iterator[Text]:
        """The captions of an open scope: its graph breaks that are not at an op."""
        yield from self._texts(self._breaks.get(cluster.id, ()), True)

    def tooltip(self, members: Iterable[str]) -> list[str]:
        """The graphs of *members*, and PyTorch's explanations of the breaks among them."""
        if not self.found:
            return []
        chosen = list(members)
        graphs = graphs_among(self.view.recording, chosen)
        text = [f"compiled graph {graphs}"] if graphs else []
        fused = (one for member in chosen for one in self._kernels.get(member, ()))
        text += [f"kernel {item.number}: {item.name}" for item in dict.fromkeys(fused)][:ROWS]
        for entry in (one for member in chosen for one in self._breaks.get(member, ())):
            text += [f"graph break{_place(entry)}: {entry.reason}", entry.explanation, *entry.hints]
        return list(filter(None, text))

    def line(self, arrow: Arrow, look: Look, theme: Theme) -> Look:
        """*look*, with a mark if *arrow* leaves a graph."""
        return _across(look, theme) if self.crosses(arrow) else look

    def crosses(self, arrow: Arrow) -> bool:
        """Whether *arrow* leads from one graph to another, or to or from Python."""
        tail, head = self._graph_of.get(arrow.tail), self._graph_of.get(arrow.head)
        return tail is not None and head is not None and tail != head

    def legend(self, theme: Theme) -> Iterator[LegendEntry]:
        """Rows for graphs and for marks of breaks."""
        plain = replace(theme.looks["op"], outline="box")
        total = len(self.view.recording.compiled_graphs)
        shown = sorted(set(self._graph_of.values()) - {0.0})
        for number in shown[:MAX_GRAPHS]:
            text = f"compiled graph {number:.0f} of {total}"
            yield LegendEntry(text, _outlined(plain, number, 2.0, theme))
        if len(shown) > MAX_GRAPHS:
            yield LegendEntry("… and so on", plain)
        python = [box for box, graph in self._graph_of.items() if graph == 0]
        if not all(map(self._is_break, python)):
            yield LegendEntry("runs in Python", _outlined(plain, 0.0, 2.0, theme))
        if any(map(self._is_break, python)):
            yield LegendEntry("breaks the graph, runs in Python", _at_break(plain, theme))
        if any(map(self.crosses, self.view.arrows)):
            yield LegendEntry("arrow across a graph break", _across(plain, theme))

    @cached_property
    def _graph_of(self) -> dict[str, float]:
        """The graph of each box with all ops in one graph; 0 for Python."""
        boxes = self.view.boxes.values() if self._known else ()
        found = {box.id: self._only(box.members) for box in boxes}
        return {box: graph for box, graph in found.items() if graph is not None}

    def _only(self, members: Iterable[str]) -> float | None:
        numbers = {self._known[member] for member in members if member in self._known}
        return numbers.pop() if len(numbers) == 1 else None

    def _texts(self, breaks: Iterable[GraphBreak], placed: bool) -> Iterator[Text]:
        several = list(breaks)
        if len(several) > 1:
            yield Text(f"{len(several)} graph breaks")
            return
        for item in several:
            text = f"graph break{_place(item) if placed else ''}: {item.reason}"
            lines = textwrap.wrap(text, REASON_LENGTH)
            if len(lines) > 3:
                rest = " ".join(lines[2:])
                lines = [*lines[:2], textwrap.shorten(rest, REASON_LENGTH, placeholder="…")]
            yield from map(Text, lines)


def _at_break(look: Look, theme: Theme) -> Look:
    return replace(look, stroke=theme.looks["failed"].stroke, dash="dotted", width=2.0)


def _across(look: Look, theme: Theme) -> Look:
    stroke = theme.looks["failed"].stroke
    return replace(look, stroke=stroke, dash="dashed", width=max(look.width, 1.4))


def _outlined(look: Look, graph: float | None, width: float, theme: Theme) -> Look:
    if graph is None:
        return look
    if graph == 0:
        return replace(look, dash="dotted", width=width, stroke=theme.ink)
    if theme is PRINT:
        return replace(look, dash="dashed" if graph % 2 == 0 else "solid", width=width)
    hue = HUES[(int(graph) - 1) % len(HUES)]
    return replace(look, stroke=mix(hue, theme.ink, 0.1), width=width, dash="solid")


def _place(each: GraphBreak) -> str:
    return f" at {at(each.source.file, each.source.line)}" if each.source is not None else ""
