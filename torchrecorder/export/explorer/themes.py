"""Themes: the light and the dark theme of a page."""

from __future__ import annotations

from typing import Any

from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK, LIGHT, Theme


def pair(style: Style) -> tuple[Theme, Theme]:
    """The light and the dark theme; a theme of the user is used for both."""
    own = style.theme not in (LIGHT, DARK)
    return (style.theme, style.theme) if own else (LIGHT, DARK)


def preferred(style: Style) -> str:
    """The initial theme of a page: ``"auto"`` follows the system of the reader."""
    return {LIGHT.name: "auto", DARK.name: "dark"}.get(style.theme.name, "light")


def page_colors(theme: Theme, style: Style) -> dict[str, Any]:
    """The colours of paper, ink and lines, and those of the scale from little to much."""
    own = style.background if theme == style.theme else None
    return {
        "paper": own if own is not None and own.startswith("#") else theme.paper,
        "ink": theme.ink,
        "line": theme.line.stroke,
        "heat": list(theme.heat),
    }
