"""GraphML, for yEd, Gephi, Cytoscape and others."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar

from torchrecorder.export.boxes import box_graph
from torchrecorder.export.exporter import times_option
from torchrecorder.option_table import Checked, documented
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


@documented
@dataclass(frozen=True)
class GraphML(Checked):
    """The boxes and arrows of a view, with their facts as attributes.

    For a graph of the whole recording, write ``recording.to_networkx()`` with networkx.
    """

    suffix: ClassVar[str] = ".graphml"
    times: bool = times_option()

    def export(self, view: View, style: Style) -> str:
        """The contents of the file."""
        import networkx as nx

        buffer = io.BytesIO()
        graph = box_graph(view, style, times=self.times)
        nx.write_graphml_xml(graph, buffer, prettyprint=True)
        return buffer.getvalue().decode("utf-8") + "\n"
