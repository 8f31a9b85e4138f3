"""Boxes: a view as a plain networkx graph, as GraphML and node-link JSON, for drawing and graph
tools."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.checks import whole_number
from torchrecorder.export.exporter import times_option
from torchrecorder.graph.flat import Attributes, flow, printable
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.style.captions import Captions
from torchrecorder.style.figure import title_of
from torchrecorder.style.style import Style
from torchrecorder.views.view import Arrow, Box, View

if TYPE_CHECKING:
    import networkx as nx


def box_graph(view: View, style: Style = Style(), *, times: bool = True) -> nx.MultiDiGraph:
    """*view* as a ``networkx.MultiDiGraph`` with flat attributes: no None, list or mapping.

    Nodes are boxes: ``type`` (module, op, input ...), ``label`` (its title), ``details``
    (the rest of its text), ``path`` (of the scope or parameter), ``cluster`` (path of the
    open scope around it), ``count`` (more than 1 for a fold), ``ops`` (how many it stands
    for), and each annotation that has a finite number for it; without *times* only those that
    do not vary between runs. Edges carry ``value``, ``slot``,
    ``shape`` (``"2,3"``), ``dtype`` and ``bytes``; ``type`` is flow or gradient.
    """
    import networkx as nx

    graph = nx.MultiDiGraph(name=printable(view.recording.name))
    captions = Captions(view, style)
    for box in view.boxes.values():
        graph.add_node(box.id, **_box(box, view, captions))
    for annotation in ANNOTATIONS:
        if annotation.unit == "s" and not times:
            continue
        numbers = annotation.on(view.recording)
        for box in view.boxes.values():
            number = numbers.of(box.members)
            if number is not None and isfinite(number):
                graph.nodes[box.id][annotation.name] = number
    for arrow in view.arrows:
        graph.add_edge(arrow.tail, arrow.head, **_arrow(arrow, view))
    return graph


def _box(box: Box, view: View, captions: Captions) -> Attributes:
    label = captions.box(box)
    title, details = title_of(label), [item for item in label[1:] if item.part != "title"]
    return {
        "type": box.kind.value,
        "label": printable(title),
        "details": printable("\n".join(text.text for text in details)),
        "path": printable(_path(box.id, view)),
        "cluster": printable(_path(box.cluster, view)) if box.cluster is not None else "",
        "count": box.count,
        "ops": sum(1 for member in box.members if member in view.recording.ops),
    }


def _path(node: str, view: View) -> str:
    """The dotted path of a scope, of the scope around an op, or of a parameter or buffer."""
    recording = view.recording
    if node in recording.ops:
        scope = recording.ops[node].scope  # type: ignore[index]
        node = "" if scope is None else scope
    if node in recording.scopes:
        return recording.scopes[node].path  # type: ignore[index]
    names = recording.values[node].names if node in recording.values else ()  # type: ignore[index]
    return names[0] if names else ""


def _arrow(arrow: Arrow, view: View) -> Attributes:
    if arrow.value is None:
        return {"type": "gradient", "slot": printable(arrow.slot)}
    return flow(view.recording.values[arrow.value], arrow.slot)


@documented
@dataclass(frozen=True)
class GraphML(Checked):
    """The boxes and arrows of a view, with their facts as attributes: for yEd, Gephi, Cytoscape.

    For a graph of the whole recording, write ``recording.to_networkx()`` with networkx.
    """

    suffix: ClassVar[str] = ".graphml"
    times: bool = times_option()

    def export(self, view: View, style: Style) -> str:
        import networkx as nx

        buffer = io.BytesIO()
        graph = box_graph(view, style, times=self.times)
        nx.write_graphml_xml(graph, buffer, prettyprint=True)
        return buffer.getvalue().decode("utf-8") + "\n"


@documented
@dataclass(frozen=True)
class NodeLink(Checked):
    """The boxes and arrows of a view: ``networkx.node_link_graph(data, edges="edges")``."""

    suffix: ClassVar[str] = ".nodelink.json"
    indent: int | None = option(
        "Indentation of node-link JSON in spaces. None writes one line.",
        whole_number(0).or_none(),
        default=1,
        placeholder="SPACES",
    )
    times: bool = times_option()

    def export(self, view: View, style: Style) -> str:
        import networkx as nx

        graph = box_graph(view, style, times=self.times)
        data = nx.node_link_data(graph, edges="edges")
        return json.dumps(data, indent=self.indent, ensure_ascii=False, allow_nan=False) + "\n"
