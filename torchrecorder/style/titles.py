"""Wrap long titles."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from torchrecorder.style.figure import Text

LONGEST = 36
"""The maximum number of characters per line."""

WIDE = 24
"""Titles of outputs with more characters than this are wrapped at a dot."""


def wrapped(line: Text) -> Iterator[Text]:
    """A title in lines of at most `LONGEST` characters; other texts unchanged."""
    if line.part != "title" or (len(line.text) <= LONGEST and "\n" not in line.text):
        yield line
        return
    for item in line.text.splitlines():
        yield from (Text(part, "title") for part in textwrap.wrap(item, LONGEST))


def wrapped_at_dot(title: str) -> Iterator[Text]:
    """The title of an output, in two lines if it is long, because many are side by side."""
    around, dot, name = title.rpartition(".")
    lines = [around, dot + name] if dot and len(title) > WIDE else [title]
    yield from (Text(line, "title") for line in lines)
