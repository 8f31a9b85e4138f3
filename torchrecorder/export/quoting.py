"""Quoting: escape any text for DOT.

A DOT file contains three languages: the quoted strings of DOT, the backslash escapes and HTML
entities inside labels, and the XML of HTML-like labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from torchrecorder.graph.flat import printable


def quote(text: str) -> str:
    """A DOT string of *text*, whose backslash escapes Graphviz interprets."""
    text = printable(text).replace('"', '\\"')
    slashes = len(text) - len(text.rstrip("\\"))
    return f'"{text}{chr(92) * (slashes % 2)}"'


def verbatim(text: str) -> str:
    """A DOT string that Graphviz shows exactly as *text*."""
    text = printable(text).replace("\\", "\\\\").replace("&", "&amp;")
    return '"' + text.replace('"', '\\"').replace("\r", "").replace("\n", "\\n") + '"'


def html(text: str) -> str:
    """*text* inside an HTML-like label."""
    text = escape(printable(text), quote=True).replace("\\", "\\\\")
    return text.replace("\r", "").replace("\n", "<br/>")


def attribute(text: str) -> str:
    """A user's value of an attribute; ``<...>`` is an HTML-like label."""
    return printable(text) if _bracketed(text) else quote(text)


def quoted(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes with quoted values."""
    return {name: quote(text) for name, text in attributes.items()}


def attribute_values(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes with values of the user."""
    return {name: attribute(str(text)) for name, text in attributes.items()}


def joined(attributes: Mapping[str, str]) -> str:
    """The content of an attribute list."""
    return ", ".join([f"{name}={text}" for name, text in attributes.items()])


def _bracketed(text: str) -> bool:
    """Whether *text* is one pair of angle brackets with balanced ones inside."""
    depth = 0
    for place, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if depth <= 0:
            return place == len(text) - 1 > 0 and letter == ">"
    return False
