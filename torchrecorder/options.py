"""Keyword options of a drawing, sorted to the things they configure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torchrecorder.checks import check_one, guess, one_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.exporter import Exporter
from torchrecorder.style.attributes import FIELDS, by_field
from torchrecorder.style.style import Style
from torchrecorder.style.themes import THEMES, Theme
from torchrecorder.views.plan import ViewOptions

_OLD_NAMES = {"render_depth": "depth", "rankdir": "direction", "bgcolor": "background"}
"""Spellings of torchrecorder 1.x and of Graphviz, and ours."""

_ATTRIBUTES = frozenset().union(*FIELDS.values())
"""Graphviz attributes that may stand among the options."""


@dataclass(frozen=True)
class Drawing:
    """How a recording is to be drawn: what is shown, how it looks, how it is written."""

    view: ViewOptions
    style: Style
    exporter: Exporter | None


def drawing(exporter: Exporter | None = None, **options: Any) -> Drawing:
    """Sort *options* by the names of the fields they belong to.

    Raises:
        InvalidArgument: A name is unknown and no attribute of Graphviz; the message says
            the closest one.
    """
    given: dict[str, Any] = {}
    for name, value in options.items():
        name = _OLD_NAMES.get(name, name)
        if value is not None or name not in given:
            given[name] = value
    try:
        return _sorted(exporter, _with_theme(given))
    except InvalidArgument as error:
        for old, name in _OLD_NAMES.items():
            if old in options and str(error).startswith(f"{name} must"):
                raise InvalidArgument(f"{old} is called {name} here: {error}") from None
        raise


def _sorted(exporter: Exporter | None, given: Mapping[str, Any]) -> Drawing:
    view, style, writer = ViewOptions(), Style(), exporter
    groups = [_names(ViewOptions), _names(Style), _names(type(exporter)) if exporter else set()]
    others = {name: given[name] for name in given if not any(name in group for group in groups)}
    graphviz = by_field(others)
    known = set().union(*groups)
    for name in others:
        if not any(name in found for found in graphviz.values()):
            raise InvalidArgument(_advice(name, known))
    view = replace(view, **_of(given, groups[0]))
    style = replace(style, **_of(given, groups[1]))
    merged: Any = {field: {**graphviz[field], **getattr(style, field)} for field in FIELDS}
    style = replace(style, **merged)
    if writer is not None:
        writer = replace(writer, **_of(given, groups[2]))  # type: ignore[type-var]
    return Drawing(view, style, writer)


def _names(kind: type) -> set[str]:
    return {field.name for field in fields(kind)}


def _of(given: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _with_theme(given: dict[str, Any]) -> dict[str, Any]:
    theme = given.get("theme")
    if theme is None or isinstance(theme, Theme):
        return {name: value for name, value in given.items() if name != "theme" or value}
    check_one("theme", theme, one_of(*THEMES))
    return {**given, "theme": THEMES[theme]}


def _advice(name: str, known: set[str]) -> str:
    close = guess(name, sorted({*known, *_OLD_NAMES, *_ATTRIBUTES}))
    names = ", ".join(sorted(known))
    return f"unknown option {name!r}{close or '.'} Known here: {names}, and Graphviz attributes."
