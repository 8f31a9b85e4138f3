"""GraphML, for yEd, Gephi, Cytoscape and others."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import ClassVar

from torchrecorder.export.boxes import box_graph
from torchrecorder.style.style import Style
from torchrecorder.views.view import View


@dataclass(frozen=True)
class GraphML:
    """The boxes and arrows of a view, with all that is known of them as attributes.

    For a graph of the whole recording, write ``recording.to_networkx()`` with networkx.
    """

    suffix: ClassVar[str] = ".graphml"

    def export(self, view: View, style: Style) -> str:
        """The contents of the file."""
        import networkx as nx

        buffer = io.BytesIO()
        nx.write_graphml_xml(box_graph(view, style), buffer, prettyprint=True)
        return buffer.getvalue().decode("utf-8") + "\n"
