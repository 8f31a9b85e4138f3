"""Node-link JSON, for networkx, D3 and Cytoscape.js."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

from torchrecorder.checks import whole_number
from torchrecorder.export.boxes import box_graph
from torchrecorder.export.exporter import times_option
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


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
        """The contents of the file."""
        import networkx as nx

        graph = box_graph(view, style, times=self.times)
        data = nx.node_link_data(graph, edges="edges")
        return json.dumps(data, indent=self.indent, ensure_ascii=False, allow_nan=False) + "\n"
