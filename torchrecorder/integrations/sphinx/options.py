"""Options of the directive: how a target is made, run, drawn and placed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any

from docutils.parsers.rst import directives

from torchrecorder.checks import guess
from torchrecorder.integrations.shapes import parse_shape
from torchrecorder.integrations.targets import Target, settings_of, value_of
from torchrecorder.style.style import Style
from torchrecorder.views.plan import ViewOptions

Reader = Callable[[Any], Any]
"""Makes a value of an option's text, which is None where there is none."""

_ASKED = ("backward", "autograd", "fake", "stats", "flops")
_YES, _NO = ("", "yes", "true", "on", "1"), ("no", "false", "off", "0")


def flag(text: str | None) -> bool:
    """``:legend:`` and ``:legend: yes`` are true, ``:fold: no`` is false."""
    said = (text or "").strip().lower()
    if said not in _YES + _NO:
        raise ValueError(f"{text!r} is neither yes nor no")
    return said in _YES


def folding(text: str | None) -> bool | str:
    """``:fold: similar``, else yes or no."""
    return "similar" if (text or "").strip().lower() == "similar" else flag(text)


def words(text: str | None) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(each.strip() for each in _some(text).split(",") if each.strip())


def lines(text: str | None) -> tuple[str, ...]:
    """What stands on lines of its own, or between semicolons."""
    return tuple(each.strip() for each in re.split(r"[;\n]", _some(text)) if each.strip())


def pairs(text: str | None) -> dict[str, str]:
    """``old = new`` on lines of their own."""
    found = [line.partition("=") for line in lines(text)]
    if not all(name.strip() and said.strip() for name, _, said in found):
        raise ValueError(f"{text!r} is not of the form NAME = NAME")
    return {name.strip(): said.strip() for name, _, said in found}


def groups(text: str | None) -> dict[str, tuple[str, ...]]:
    """``new = member, member`` on lines of their own."""
    return {name: words(said) for name, said in pairs(text).items()}


def value(text: str | None) -> Any:
    """A Python literal, else the text itself."""
    return value_of(_some(text).strip())


def _some(text: str | None) -> str:
    if text is None or not text.strip():
        raise ValueError("it needs a value")
    return text.strip()


def _one_of(*known: str) -> Reader:
    return lambda text: directives.choice(text, known)


def _reader(field: Field[Any]) -> Reader | None:
    """What reads a field of a dataclass, if text can say it."""
    kind = str(field.type)
    if field.name in _PAIRED:
        return _PAIRED[field.name]
    if any(word in kind for word in ("Callable", "Mapping", "Rule", "Theme")):
        return None
    if "tuple" in kind:
        return value if "float" in kind else words
    if "bool" in kind:
        return flag
    return value if "int" in kind or "float" in kind else _some


_PAIRED: Mapping[str, Reader] = {"rename": pairs, "group": groups, "fold": folding}


def _drawn() -> dict[str, Reader]:
    given = [*fields(ViewOptions), *fields(Style)]
    readers = {field.name: _reader(field) for field in given}
    known = {name: reader for name, reader in readers.items() if reader is not None}
    return {**known, "theme": _some, "layout": _some, "timeout": value}


PLACED: Mapping[str, Reader] = {
    "format": _one_of("svg", "html"),
    "explore": flag,
    "caption": _some,
    "alt": _some,
    "name": directives.unchanged,
    "class": directives.class_option,
    "width": directives.length_or_percentage_or_unitless,
    "height": directives.length_or_unitless,
    "align": _one_of("left", "center", "right"),
    "code": _one_of("before", "after", "none"),
}
"""Where and how it stands in the document."""

RUN: Mapping[str, Reader] = {
    "shape": lines,
    "inputs": _some,
    "arg": lines,
    "set": lines,
    "as-is": flag,
    "device": _some,
    "seed": value,
    "train": flag,
    "grad": flag,
    "backward": flag,
    "autograd": flag,
    "fake": flag,
    "stats": flag,
    "flops": flag,
    "label": _some,
}
"""How it is made and run, as on the command line."""

DRAWN: Mapping[str, Reader] = {
    name: reader for name, reader in _drawn().items() if name not in PLACED
}
"""What `Recording.render` takes, where text can say it; ``option`` is for the rest."""


class Known(dict[str, Reader]):
    """Readers by name; docutils says of another name what the `KeyError` says."""

    def __missing__(self, name: str) -> Reader:
        raise KeyError(f"{name}{guess(name, self)}")


ALL: Mapping[str, Reader] = Known({
    **DRAWN,
    **{name.replace("_", "-"): reader for name, reader in DRAWN.items()},
    **RUN,
    **PLACED,
    "option": lines,
})
"""Every option of the directive."""


def target(path: str, given: Mapping[str, Any]) -> Target:
    """What *given* options ask to record.

    Raises:
        InvalidArgument: A shape or setting cannot be read.
    """
    asked = {name: True for name in _ASKED if given.get(name)}
    return Target(
        path=path,
        arguments=tuple(value_of(text) for text in given.get("arg", ())),
        settings=settings_of(given.get("set", ())),
        as_is=given.get("as-is", False),
        shapes=tuple(parse_shape(text) for text in given.get("shape", ())),
        inputs=given.get("inputs"),
        device=given.get("device"),
        training=given.get("train", False),
        grad=given.get("grad", True),
        seed=given.get("seed", 0),
        options={**asked, "name": given["label"]} if "label" in given else asked,
    )


def drawing(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a figure among *given* ones.

    Raises:
        InvalidArgument: An ``:option:`` cannot be read.
    """
    plain = {name.replace("-", "_"): said for name, said in given.items()}
    chosen = {name: said for name, said in plain.items() if name in DRAWN}
    return {**chosen, **settings_of(given.get("option", ()))}
