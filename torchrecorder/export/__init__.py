"""Formats: one file each, all listed here."""

from __future__ import annotations

from torchrecorder.export.exporter import Exporter
from torchrecorder.export.graphviz import Dot, Gv, Pdf, Png, Svg

EXPORTERS: tuple[type[Exporter], ...] = (Svg, Pdf, Png, Dot, Gv)
"""Every format, in the order in which they are listed to the user."""
