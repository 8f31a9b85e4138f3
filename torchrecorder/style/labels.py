"""Labels: shapes, counts, names and hyperparameters as short texts, and wrapped titles."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from torchrecorder.annotations.amounts import thousands, three_digits
from torchrecorder.events import Gradient, SourceLine
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.figure import Text

DTYPES = {"bfloat16": "bf16", "float16": "f16", "float64": "f64", "complex64": "c64"}
"""Short names of some dtypes; others are unchanged."""

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
"""A number in the text of an argument."""

SIGNED = re.compile(rf"(?:(?<![\w)\]])-)?{NUMBER.pattern}")
"""A number with its sign; the one in ``n-1`` has none."""

RANGED = re.compile(rf"(?:-?\d+)?(?::-?\d+|(?<=\d):)|{SIGNED.pattern}")
"""A slice or a number."""

_DIGITS = re.compile(r"(\d+)")

SEVERAL = re.compile(r"(\d+) (?:tensors of (.*)|(scalar)s(.*)|(gradient)s of( .*))")
"""The text of several equal tensors: their number, and the text of one."""

_AMOUNT = re.compile(r"\d+ [a-z]")
"""The start of a text without a shape, ``62 gradients``."""

MAX_TITLE_LENGTH = 36
"""The maximum number of characters of a title per line."""

MAX_OUTPUT_LENGTH = 24
"""Titles of outputs with more characters than this are wrapped at a dot."""


def count(number: int) -> str:
    """A large number with three digits: ``999``, ``1.23 k``, ``45.6 M``, ``7 B``."""
    if number < 1000:
        return str(number)
    scaled, unit = thousands(number, ("", " k", " M", " B", " T"))
    text = three_digits(scaled)
    return (text.rstrip("0").rstrip(".") if "." in text else text) + unit


def parameters(number: int) -> str:
    """The number of weights as text; empty for 0."""
    return f"{count(number)} params" if number > 1 else "1 param" if number else ""


def folded(number: int) -> str:
    """``  ×4``, after the title of a fold; empty for a single box."""
    return f"  ×{number}" if number > 1 else ""


@lru_cache(maxsize=4096)
def shape(sizes: tuple[int, ...]) -> str:
    """``2×3``; ``[3]`` for a vector, ``scalar`` without sizes, ``?`` for a ragged size."""
    found = ["?" if size < 0 else str(size) for size in sizes]
    return f"[{found[0]}]" if len(found) == 1 else "×".join(found) or "scalar"


def form(tensor: Value | Gradient) -> str:
    """Shape and dtype of a tensor."""
    return f"{shape(tensor.shape)} {tensor.dtype}"


def value(tensor: Value, usual: str = "float32") -> str:
    """The shape of a tensor, with its dtype if it is not the *usual* one."""
    text = shape(tensor.shape)
    return text if tensor.dtype == usual else f"{text} {DTYPES.get(tensor.dtype, tensor.dtype)}"


def alike(text: str, number: int) -> str:
    """The text for several equal tensors: ``2 tensors of 3×4``, ``2 scalars``."""
    if text.startswith("scalar"):
        return f"{number} scalars{text.removeprefix('scalar')}"
    if text.startswith("gradient "):
        return f"{number} gradients of {text.removeprefix('gradient ')}"
    return f"{number} × {text}" if _AMOUNT.match(text) else f"{number} tensors of {text}"


def in_a_line(shapes: Counter[str]) -> str:
    """The output shapes of a box in one line: the first two different ones.

    Equal tensors are counted together: ``3×4`` and ``7 tensors of 3×4`` are ``8 tensors of 3×4``.
    """
    totals: Counter[str] = Counter()
    for text, number in shapes.items():
        several = SEVERAL.fullmatch(text)
        count, *one = several.groups("") if several else (1, text)
        totals["".join(one)] += number * int(count)
    found = [alike(text, total) if total > 1 else text for text, total in totals.items()]
    return "→ " + ", ".join([*found[:2], *(["…"] if len(found) > 2 else [])])


def source(line: SourceLine | None) -> str:
    """A line of the user's code, without the folder; empty without one."""
    return f"{line.file_line} in {line.function}" if line is not None else ""


def at(file: str, line: int) -> str:
    """A line of a file, without the folder."""
    return SourceLine(file, line, "").file_line


def with_remarks(name: str, *remarks: str) -> str:
    """``encoder (Encoder, compiled)``: a name, and the remarks that are not empty or the name."""
    texts = [remark for remark in remarks if remark not in ("", name)]
    return f"{name} ({', '.join(texts)})" if texts else name


def shorten(text: str, limit: int = 48) -> str:
    """*text*, with an ellipsis in the middle if it is longer than *limit*."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - limit:]}"


def shorten_list(text: str, limit: int) -> str:
    """*text*, without its last items if it is a list longer than *limit*, or cut in the middle."""
    if len(text) > limit:
        start = text[: limit - 2].rpartition(", ")[0]
        whole = all(start.count(opening) == start.count(end) for opening, end in ("()", "[]", "{}"))
        if len(start) >= limit / 2 and whole:
            return f"{start}, …"
    return shorten(text, limit)


def first_sentences(text: str, limit: int) -> str:
    """*text*, cut after its first sentences if they fill half of *limit*, else in the middle."""
    if len(text) <= limit:
        return text
    ends = re.finditer(r"[.!?](?=\s)|\S(?=\s*\n)", text[: limit - 1])
    last = max((match.end() for match in ends), default=0)
    return f"{text[:last]} …" if last > limit / 2 else shorten(text, limit)


def names(siblings: tuple[str, ...]) -> str:
    """The range of names of a fold, ``layers.0 … layers.11``; equal names are listed once.

    Names in different modules with only the last part in common become ``*.exp_avg``. Numbers that
    are not consecutive are listed, or only the first of them: ``0, 2 … 22``. Numbers in no order
    inside of the names, as in samples of a data set, become ``samples.*.label``.
    """
    siblings = tuple(dict.fromkeys(siblings))
    first, last = (*siblings[:1], *siblings[-1:]) if siblings else ("", "")
    if first == last:
        return first
    _, dot, tail = first.rpartition(".")
    if all(name.endswith(dot + tail) for name in siblings) and dot and not tail.isdigit():
        if len({NUMBER.sub("", name) for name in siblings}) > 1:
            return f"*.{tail}"
    if len(siblings) == 2 and len(first + last) < 24:
        return f"{first}, {last}"
    if listed := _apart(siblings):
        return listed
    stem = last.rstrip("0123456789")
    number = last[len(stem):]
    short = number if number and first.startswith(stem) and len(last) > 12 else last
    return f"{first} … {short}"


def _apart(siblings: Sequence[str]) -> str:
    """Names that differ in one number, if those are not consecutive; empty for other names."""
    split = [_DIGITS.split(name) for name in siblings]
    if len({*map(len, split)}) > 1:
        return ""
    places = [place for place, parts in enumerate(zip(*split)) if len({*parts}) > 1]
    if len(places) != 1 or places[0] % 2 == 0:
        return ""
    numbers = [int(parts[places[0]]) for parts in split]
    distances = {after - before for before, after in zip(numbers, numbers[1:])}
    if distances in ({1}, {-1}):
        return ""
    at_end = not any(split[0][places[0] + 1 :])
    if not at_end and min(distances) < 0 < max(distances):
        return "".join((*split[0][: places[0]], "*", *split[0][places[0] + 1 :]))
    texts = [siblings[0], *(map(str, numbers[1:]) if at_end else siblings[1:])]
    if len(texts) <= 4:
        return ", ".join(texts)
    return f"{', '.join(texts[: 2 if len(distances) == 1 else 3])} … {texts[-1]}"


def span(texts: Sequence[str]) -> str:
    """One text for several texts that differ in their numbers, with the range of each number, or
    the first and last of slices. If they differ otherwise, the first text.

    Example:
        >>> span(["(:, 0)", "(:, 1)", "(:, 2)"]), span(["'nearest'", "'area'"])
        ('(:, 0 … 2)', 'nearest …')
        >>> span(["0:8", "8:16", "16:24"])
        '0:8 … 16:24'
    """
    first = texts[0]
    if all(text == first for text in texts):
        return first
    if len({RANGED.sub("0", text) for text in texts}) > 1:
        return first.strip("'\"") + " …"
    numbers = zip(*map(RANGED.findall, texts))
    return RANGED.sub(lambda found: _range(next(numbers)), first)


@lru_cache(maxsize=4096)
def several(values: tuple[str, ...]) -> str:
    """A short text for several values: all different ones, or their range.

    Example:
        >>> several(("64", "128", "256", "512")), several(("1", "2", "2", "1", "1"))
        ('64, 128, 256, 512', '1, 2')
        >>> several(tuple("16 24 40 80 112 192".split()))
        '16 … 192'
    """
    listed = ", ".join(values)
    if len(values) <= 4 and len(listed) <= 20:
        return listed
    once = list(dict.fromkeys(values))
    if len(once) <= 3 and len(", ".join(once)) <= 20:
        return ", ".join(once)
    if all(map(NUMBER.fullmatch, values)):
        return _range(values)
    return " … ".join((values[0], values[-1])) if values[0] != values[-1] else f"{once[0]}, …"


def _range(numbers: Sequence[str]) -> str:
    """The ends of monotonic numbers or slices; otherwise the smallest and largest number."""
    if ":" in "".join(numbers):
        return numbers[0] if len({*numbers}) == 1 else f"{numbers[0]} … {numbers[-1]}"
    low, high = min(numbers, key=float), max(numbers, key=float)
    if low == high:
        return low
    ends = (high, low) if numbers[0] == high and numbers[-1] == low else (low, high)
    return " … ".join(ends)


def usual_dtype(recording: RecordedRun) -> str:
    """The most frequent floating-point dtype; ``float32`` without any.

    What updates of weights compute does not count: Muon has bfloat16 for a float32 model.
    """
    updates, ops = recording.weight_updates, recording.ops
    made = {value for op in ops.values() if op.scope in updates for value in op.outputs}
    floating = Counter(
        value.dtype
        for value in recording.values.values()
        if "float" in value.dtype and value.id not in made
    )
    return max(floating, key=lambda dtype: (floating[dtype], dtype), default="float32")


def filled(words: Iterable[str], width: int) -> Iterator[str]:
    """Short texts joined by commas, in lines of about *width*."""
    line = ""
    for word in words:
        longer = f"{line}, {word}" if line else word
        if line and len(longer) > width:
            yield line
            longer = word
        line = longer
    if line:
        yield line


def wrapped(line: Text) -> Iterator[Text]:
    """A title in lines of at most `MAX_TITLE_LENGTH` characters; other texts unchanged."""
    if line.part != "title" or (len(line.text) <= MAX_TITLE_LENGTH and "\n" not in line.text):
        yield line
        return
    for item in line.text.splitlines():
        yield from (Text(part, "title") for part in textwrap.wrap(item, MAX_TITLE_LENGTH))


def wrapped_at_dot(title: str) -> Iterator[Text]:
    """The title of an output, in two lines if it is long, because many outputs are side by side."""
    around, dot, name = title.rpartition(".")
    lines = [around, dot + name] if dot and len(title) > MAX_OUTPUT_LENGTH else [title]
    yield from (Text(line, "title") for line in lines)
