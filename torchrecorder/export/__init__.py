"""Formats: one file each, all listed here."""

from __future__ import annotations

from torchrecorder.export.exporter import Exporter
from torchrecorder.export.graphml import GraphML
from torchrecorder.export.graphviz import Dot, Gv, Pdf, Png, Svg
from torchrecorder.export.html import Html
from torchrecorder.export.json import Json, JsonGz
from torchrecorder.export.mermaid import Mermaid
from torchrecorder.export.model_explorer import ExplorerData, ModelExplorer
from torchrecorder.export.node_link import NodeLink
from torchrecorder.export.table.text import Txt

EXPORTERS: tuple[type[Exporter], ...] = (
    Svg,
    Pdf,
    Png,
    Html,
    Dot,
    Gv,
    Txt,
    Json,
    JsonGz,
    Mermaid,
    GraphML,
    NodeLink,
    ModelExplorer,
    ExplorerData,
)
"""Every format, in the order in which they are listed to the user."""
