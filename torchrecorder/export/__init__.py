"""Export: all formats, and how to find one by the suffix of a file."""

from __future__ import annotations

from pathlib import Path

from torchrecorder.checks import guess
from torchrecorder.errors import UnknownFormat
from torchrecorder.export.boxes import GraphML, NodeLink
from torchrecorder.export.drawio import Drawio
from torchrecorder.export.exporter import Exporter
from torchrecorder.export.graphviz import Dot, Gv, Pdf, Png, Svg
from torchrecorder.export.html import Html
from torchrecorder.export.json import Json, JsonGz
from torchrecorder.export.mermaid import Mermaid
from torchrecorder.export.model_explorer import ExplorerData, ModelExplorer
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
    Drawio,
    GraphML,
    NodeLink,
    ModelExplorer,
    ExplorerData,
)
"""Every format, in the order of lists for the user."""


def known() -> dict[str, type[Exporter]]:
    """Exporters by suffix, in the order in which they are listed."""
    return {exporter.suffix: exporter for exporter in EXPORTERS}


def by_suffix(name: str) -> Exporter:
    """The exporter for a file of this name, with its default options.

    Raises:
        UnknownFormat: No exporter writes this suffix; the message lists the known ones.
    """
    exporters = known()
    fitting = [suffix for suffix in exporters if name.lower().endswith(suffix)]
    if fitting:
        return exporters[max(fitting, key=len)]()
    suffix = Path(name).suffix
    close = (guess(suffix, exporters) if suffix else "") or "."
    wrong = f"no format is written as {suffix!r}"
    if not name.strip("."):
        wrong = "the path has no file name; its suffix sets the format, as in net.svg or net.html"
    elif not suffix:
        wrong = f"{name!r} has no suffix, which sets the format, as in {name}.svg or {name}.html"
    raise UnknownFormat(f"{wrong}{close} Known: {', '.join(exporters)}")
