"""Diff captions: what a box or frame says of its difference from the other run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from torchrecorder.style import labels
from torchrecorder.style.figure import Text

MOST = 2
"""The maximum number of lines that are added to a label."""

LONGEST = 34
"""The maximum number of characters of such a line."""


@dataclass(frozen=True)
class DiffCaption:
    """What is told of one node, in a few words.

    Attributes:
        own: Lines about itself.
        inside: Lines about what is in it, for a closed module.
        former: Its name in the first run, if it had another one there.
        pieces: Pieces of the other lines of a closed module, each with what takes its place, such
            as ``"2 → 3 × BasicBlock"`` for ``"3 × BasicBlock"``.
    """

    own: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    former: str = ""
    pieces: Mapping[str, str] = field(default_factory=dict)


def captioned(
    label: tuple[Text, ...], siblings: Iterable[DiffCaption], closed: bool
) -> tuple[Text, ...]:
    """*label* with what is told of all *siblings* in one box or frame, which differ alike."""
    told = list(siblings)
    if not told:
        return label
    first, former = told[0], tuple(caption.former for caption in told)
    lines = [line for line in first.own if all(line in caption.own for caption in told)]
    lines += _was(former)
    if closed:
        label = tuple(_replaced(text, first.pieces) for text in label)
        lines += (line for line in first.inside if all(line in each.inside for each in told))
    return (*label, *(Text(labels.shorten(line, LONGEST)) for line in lines[:MOST]))


def _was(former: tuple[str, ...]) -> Iterator[str]:
    names = tuple(filter(None, former))
    if names:
        yield f"was {labels.names(names)}"


def _replaced(text: Text, pieces: Mapping[str, str]) -> Text:
    """A line of a label with other pieces; titles stay as they are."""
    if text.part == "title":
        return text
    for piece, other in pieces.items():
        whole = re.compile(rf"(?<![\w.]){re.escape(piece)}(?!\w)")
        if whole.search(text.text):
            return Text(whole.sub(other.replace("\\", r"\\"), text.text, count=1), text.part)
    return text
