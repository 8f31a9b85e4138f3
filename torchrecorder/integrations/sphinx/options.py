"""Options of the directive: how a target is made, run, drawn and placed in the document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from docutils.parsers.rst import directives

from torchrecorder.checks import guess, setting
from torchrecorder.errors import InvalidArgument
from torchrecorder.export.graphviz import Pdf, Svg
from torchrecorder.export.html import Html
from torchrecorder.integrations.targets import TARGET_OPTIONS, Target
from torchrecorder.option_table import Option, options_of
from torchrecorder.options import STYLE, VIEW

Reader = Callable[[Any], Any]
"""Turns the text of an option, None where there is none, into its value."""


def _one_of(*known: str) -> Reader:
    return lambda text: directives.choice(text, known)


PLACED: Mapping[str, Reader] = {
    "format": _one_of("svg", "html"),
    "explore": lambda text: _read(VIEW["tensors"], text, "explore"),
    "caption": directives.unchanged_required,
    "alt": directives.unchanged_required,
    "name": directives.unchanged,
    "class": directives.class_option,
    "width": directives.length_or_percentage_or_unitless,
    "height": directives.length_or_unitless,
    "align": _one_of("left", "center", "right"),
    "code": _one_of("before", "after", "none"),
}
"""Placement and attributes in the document."""

_RENAMED = {"label": "name"}
"""Options of a target under another name: documents refer to things by ``:name:``."""

RECORDED: Mapping[str, Option] = {
    "label": TARGET_OPTIONS["name"],
    **{name: one for name, one in TARGET_OPTIONS.items() if name not in PLACED},
}
"""Options of making and running the target, as on the command line."""

_WRITTEN = {name: one for kind in (Svg, Pdf, Html) for name, one in options_of(kind).items()}
"""Options of the formats in documents."""

DRAWN: Mapping[str, Option] = {
    name: one
    for name, one in {**VIEW, **STYLE, **_WRITTEN}.items()
    if one.check.read is not None and name not in PLACED
}
"""Options of `Recording.render` that can be written as text; ``option`` passes all others."""


class Known(dict[str, Reader]):
    """Readers by name; docutils shows the message of the `KeyError` for an unknown name."""

    def __missing__(self, name: str) -> Reader:
        raise KeyError(f"{name}{guess(name, self)}")


def _as_written(text: str | None) -> str | None:
    """The text itself: it is parsed later, where an error can be shown in the page."""
    return text


_TABLE = {
    spelled: one
    for name, one in {**DRAWN, **RECORDED}.items()
    for spelled in (name, name.replace("_", "-"))
}

ALL = Known({**dict.fromkeys((*_TABLE, "option"), _as_written), **PLACED})
"""Every option of the directive."""


_DEFAULTS: Mapping[str, Any] = {"train": False, "seed": 0}


def target(path: str, given: Mapping[str, Any]) -> Target:
    """The target for *given* options; by default in evaluation mode and with seed 0."""
    settings = {_RENAMED.get(name, name): value for name, value in _values(given, RECORDED).items()}
    return Target(path, defaults=_DEFAULTS, **{**_DEFAULTS, **settings})


def drawing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a figure among *given* ones; raises InvalidArgument for a wrong one."""
    chosen = _values(given, DRAWN)
    for text in _parts(given.get("option")):
        chosen.update(setting(text))
    return chosen


def _values(given: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    plain = {name.replace("-", "_"): text for name, text in given.items()}
    return {
        name: _read(options[name], text, name) for name, text in plain.items() if name in options
    }


def _read(option: Option, text: str | None, name: str) -> Any:
    """The value of *option*; several values are separated by lines or semicolons."""
    parts = _parts(text) if option.check.several else [text]
    name = name.replace("_", "-")
    if not parts and not option.check.switch:
        raise InvalidArgument(
            f":{name}: it needs a value; several are separated by semicolons, or are on lines of "
            "their own, which are indented in reStructuredText and begin with a colon in MyST"
        )
    try:
        return option.joined([option.read(part) for part in parts or [None]])
    except InvalidArgument as error:
        raise InvalidArgument(f":{name}: {error}") from None


def _parts(text: str | None) -> list[str]:
    return [part for part in re.split(r"[;\n]", text or "") if part.strip()]
