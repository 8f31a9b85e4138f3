"""Themes: which two a page has, for light and for dark surroundings."""

from __future__ import annotations

from typing import Any

from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK, LIGHT, Theme


def pair(style: Style) -> tuple[Theme, Theme]:
    """The themes in light and in dark; another one than ours is used for both."""
    own = style.theme not in (LIGHT, DARK)
    return (style.theme, style.theme) if own else (LIGHT, DARK)


def preferred(style: Style) -> str:
    """What a page starts with: ``"auto"`` follows the reader's system."""
    return {LIGHT.name: "auto", DARK.name: "dark"}.get(style.theme.name, "light")


def said(theme: Theme, style: Style) -> dict[str, Any]:
    """The colours of paper, ink and lines, and those of the scale from little to much."""
    own = style.background if theme == style.theme else None
    return {
        "paper": own if own is not None and own.startswith("#") else theme.paper,
        "ink": theme.ink,
        "line": theme.line.stroke,
        "heat": list(theme.heat),
    }
