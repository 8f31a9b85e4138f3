"""Keyword options of a drawing: the table of all, and their assignment to classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

from torchrecorder.annotations import by_name
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import guess
from torchrecorder.errors import InvalidArgument
from torchrecorder.export import EXPORTERS, by_suffix
from torchrecorder.export.exporter import Exporter
from torchrecorder.export.json import Json
from torchrecorder.option_table import Option, options_of
from torchrecorder.style.attributes import FIELDS, by_field
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import ViewOptions

OLD_NAMES = {"render_depth": "depth", "rankdir": "direction", "bgcolor": "background"}
"""Names of options in torchrecorder 1.x and in Graphviz, with their current names."""

VIEW, STYLE = options_of(ViewOptions), options_of(Style)
FORMAT: Mapping[str, Option] = {
    name: one for exporter in EXPORTERS for name, one in options_of(exporter).items()
}
"""Options that only some formats support."""

OPTIONS: Mapping[str, Option] = {**VIEW, **STYLE, **FORMAT}
"""Every option of a drawing, by name."""

_ATTRIBUTES = frozenset().union(*FIELDS.values())
"""Graphviz attributes that are accepted as options."""


@dataclass(frozen=True)
class Drawing:
    """The options of a drawing, by class: those of the view, the style and the exporter."""

    view: ViewOptions
    style: Style
    exporter: Exporter | None


def drawing(
    exporter: Exporter | None = None, also: Iterable[str] = (), /, **options: Any
) -> Drawing:
    """Assign *options* to the classes that they configure.

    Args:
        exporter: The format; its own options are accepted too.
        also: Names of other arguments of the caller's function, which a message may suggest.
        **options: By name; Graphviz attributes too.

    Raises:
        InvalidArgument: A name is no option and no Graphviz attribute (the message suggests
            one), or a value is invalid.
    """
    renamed: dict[str, Any] = {}
    for name, value in options.items():
        name = OLD_NAMES.get(name, name)
        if value is not None or name not in renamed:
            renamed[name] = value
    try:
        return _sorted(exporter, renamed, also)
    except InvalidArgument as error:
        for old, name in OLD_NAMES.items():
            if old in options and str(error).startswith(f"{name} must"):
                raise InvalidArgument(f"{old} is called {name} here: {error}") from None
        raise


def fitting(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """*options* without those that have no effect on a file of this *name*."""
    exporter = by_suffix(name)
    others = FORMAT.keys() - _own(exporter)
    if isinstance(exporter, Json):  # it has all of the recording
        others |= VIEW.keys()
    return {key: value for key, value in options.items() if key not in others}


def shown_numbers(options: Mapping[str, Any]) -> list[Annotation]:
    """The annotations that a figure with these options shows.

    Raises:
        UnknownAnnotation: No annotation has this name.
    """
    numbers, color_by = options.get("numbers"), options.get("color_by")
    several = numbers if isinstance(numbers, (tuple, list)) else [numbers]
    return [by_name(item) for item in (*several, color_by) if item is not None]


def _sorted(
    exporter: Exporter | None, options: Mapping[str, Any], also: Iterable[str]
) -> Drawing:
    own = _own(exporter) if exporter else set()
    known = {*VIEW, *STYLE, *own}
    graphviz = by_field({name: value for name, value in options.items() if name not in known})
    for name in options:
        if name not in known and not any(name in found for found in graphviz.values()):
            raise InvalidArgument(_unknown(name, known, {*also}))
    view = ViewOptions(**_only(options, VIEW))
    style = Style(**_only(options, STYLE))
    more: Any = {
        field: {**found, **getattr(style, field)} for field, found in graphviz.items() if found
    }
    if more:
        style = replace(style, **more)
    if exporter is not None:
        exporter = replace(exporter, **_only(options, own))  # type: ignore[type-var]
    return Drawing(view, style, exporter)


def _own(exporter: Exporter | type[Exporter]) -> set[str]:
    """The names of the options of a format."""
    return {one.name for one in fields(exporter)}  # type: ignore[arg-type]


def _only(options: Mapping[str, Any], names: Mapping[str, Any] | set[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in names}


_INSTEAD = {
    "backward": "; view='backward' draws the backward pass.",
    "expand": "; depth= opens levels of modules, and closed= keeps some closed.",
    "format": "; the suffix of the path sets the format.",
}
"""What to write in place of names that are options elsewhere."""


def _unknown(name: str, known: set[str], also: set[str]) -> str:
    names = f"Known options: {', '.join(sorted(known | also))}, and Graphviz attributes."
    others = [one.suffix for one in EXPORTERS if name in _own(one)]
    if others:
        return f"unknown option {name!r}: only {', '.join(others)} files have it. {names}"
    instead = None if guess(name, sorted(also)) else _INSTEAD.get(name)
    graphviz = get_close_matches(name, sorted(_ATTRIBUTES), 1, 0.75)  # many are short
    close = instead or guess(name, sorted({*known, *also, *OLD_NAMES, *graphviz}))
    return f"unknown option {name!r}{close or '.'} {names}"
