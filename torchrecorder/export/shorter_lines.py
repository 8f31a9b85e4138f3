"""Shorter lines: labels in more and shorter lines where a figure is too wide for its paper."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchrecorder.export.dot import output_labels
from torchrecorder.export.nested import Placed, printed_size, smallest
from torchrecorder.style.figure import Figure, Shape, Text

LENGTHS = (20, 14, 10)
"""The characters of a title in a line that are tried: first the fewest, to see whether shorter
lines help, and then the others from the most."""

GAIN = 2.0
"""By what factor shorter lines can make text larger: few labels can be half as wide."""

SMALL = 1.25
"""How many characters of small text are as wide as one of a title."""

TOLERANCE = 0.005
"""By how many points text may be smaller than asked for."""

_NAME = re.compile(r"(?<=: )")
_WORDS = re.compile(r"(?<=[ _])(?=[^ _×…\d])|(?<=.)(?=\.[^\W\d])")
_CAPITALS = re.compile(r"(?<=[a-z\d])(?=[A-Z][a-z])")
_PARTS = re.compile(r"(?<=, )|(?<= of )|(?<= )(?=\+ )")


def fitted(figure: Figure, timeout: float) -> tuple[Figure, Placed]:
    """*figure*, laid out; with shorter lines if its text is too small on its paper otherwise.

    The lines are no shorter than needed. If none are short enough, the text is as large as
    possible.
    """
    placed = Placed.lay_out(figure, timeout)
    paper = figure.paper
    if not paper or not paper.min_fontsize:
        return figure, placed
    enough, text = paper.min_fontsize - TOLERANCE, _text(figure, placed)
    if text >= enough or text * GAIN < enough:
        return figure, placed
    shortest = with_shorter_lines(figure, LENGTHS[-1])
    short = Placed.lay_out(shortest, timeout)
    if (most := _text(shortest, short)) < enough:
        return (shortest, short) if most > text else (figure, placed)
    for length in LENGTHS[:-1]:
        longer = with_shorter_lines(figure, length)
        placed = Placed.lay_out(longer, timeout)
        if _text(longer, placed) >= enough:
            return longer, placed
    return shortest, short


def _text(figure: Figure, placed: Placed) -> float:
    """The size of the smallest text on the paper, in points."""
    return smallest(figure) * figure.paper.scale(*printed_size(figure, placed))


def with_shorter_lines(figure: Figure, length: int) -> Figure:
    """*figure* with titles of about *length* characters in a line, and details of the same width.

    A title breaks after a name and its colon, between words, and last between the words of a name;
    details at commas, and before what is added. A label with a longer part that has no break has
    lines of this length.
    """
    outputs, written, shapes = output_labels(figure), set[str](), list[Shape]()
    for shape in figure.shapes:
        output = outputs.get(shape.id)
        whole = shape.label if output is None else (*shape.label, output)
        label = _broken(whole, length)
        if output is not None and label[-1] == output:
            label = label[:-1]
        elif output is not None:
            written.add(shape.id)  # in several lines, which the labels of arrows do not have
        shapes.append(replace(shape, label=label))
    return replace(
        figure,
        shapes=tuple(shapes),
        groups=tuple(replace(each, label=_broken(each.label, length)) for each in figure.groups),
        lines=tuple(
            replace(line, label="") if line.tail in written else line for line in figure.lines
        ),
    )


def _broken(label: Sequence[Text], length: int) -> tuple[Text, ...]:
    """*label* in lines of about *length*, or as long as its longest part without a break."""
    longest = max((_longest(text, length) for text in label), default=0)
    return tuple(
        replace(text, text=line) for text in label for line in _lines(text, max(length, longest))
    )


def _longest(text: Text, length: int) -> int:
    """The length of the longest part without a break, in characters of a title."""
    share = 1.0 if text.part == "title" else SMALL
    parts = (part.rstrip(" ,") for name in _names(text, length) for part in name)
    return math.ceil(max(map(len, parts)) / share)


def _lines(text: Text, length: int) -> Iterator[str]:
    most = length if text.part == "title" else round(length * SMALL)
    for words in _names(text, length):
        yield from _filled(words, most)


def _names(text: Text, length: int) -> list[list[str]]:
    """The parts between which lines break, in lists that begin a line."""
    if text.part != "title":
        return [_PARTS.split(text.text)]
    if len(text.text) <= length:
        return [[text.text]]
    return [
        [
            word
            for item in (_WORDS.split(name) if len(name.rstrip()) > length else [name])
            for word in (_CAPITALS.split(item) if len(item.rstrip()) > length else [item])
        ]
        for name in _NAME.split(text.text)
    ]


def _filled(words: Sequence[str], length: int) -> list[str]:
    """*words* in as few lines of at most *length* characters as they need, about equally long."""
    found = _greedy(words, length)
    while len(tighter := _greedy(words, max(map(len, found)) - 1)) == len(found):
        if max(map(len, tighter)) >= max(map(len, found)):
            break
        found = tighter
    return found


def _greedy(words: Sequence[str], length: int) -> list[str]:
    """*words* in lines of at most *length*, without spaces and commas at their ends. Commas inside
    brackets stay."""
    lines, begun = list[str](), ""
    for word in words:
        if lines and len(_ended(lines[-1] + word, begun + word)) <= length:
            lines[-1] += word
        else:
            lines[-1:] = [_ended(line, begun) for line in lines[-1:]]
            lines.append(word)
        begun += word
    return [*lines[:-1], *(line.rstrip(" ") for line in lines[-1:])]


def _ended(line: str, begun: str) -> str:
    """A *line* before a break; *begun* is the whole text up to there."""
    inside = any(begun.count(start) > begun.count(end) for start, end in ("()", "[]"))
    return line.rstrip(" " if inside else " ,")
