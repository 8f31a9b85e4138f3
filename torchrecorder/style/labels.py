"""Labels: shapes, counts, names and hyperparameters as short text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchrecorder.events import SourceLine
from torchrecorder.graph.nodes import Value

DTYPES = {"bfloat16": "bf16", "float16": "f16", "float64": "f64", "complex64": "c64"}
"""Short spellings of some dtypes; others stay as they are."""


def count(number: int) -> str:
    """A large number in three digits: ``999``, ``1.23 k``, ``45.6 M``, ``7 B``."""
    if number < 1000:
        return str(number)
    scaled, units = float(number), iter(" k, M, B, T".split(","))
    unit = ""
    while scaled >= 999.5 and (following := next(units, None)) is not None:
        scaled, unit = scaled / 1000, following
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    text = f"{scaled:.{digits}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + unit


def parameters(number: int) -> str:
    """How many weights, or nothing where there are none."""
    return f"{count(number)} params" if number > 1 else "1 param" if number else ""


def shape(sizes: Iterable[int]) -> str:
    """Sizes joined by a cross; ``scalar`` where there are none."""
    return "×".join(map(str, sizes)) or "scalar"


def value(found: Value, usual: str = "float32") -> str:
    """A tensor in a few characters: its shape, and its dtype where it is not the usual."""
    text = shape(found.shape)
    return text if found.dtype == usual else f"{text} {DTYPES.get(found.dtype, found.dtype)}"


def source(line: SourceLine | None) -> str:
    """Where in the user's code, without the folder."""
    if line is None:
        return ""
    name = re.split(r"[/\\]", line.file)[-1]
    return f"{name}:{line.line} in {line.function}"


def shorten(text: str, limit: int = 48) -> str:
    """*text*, with dots in the middle where it is longer than *limit*."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - limit:]}"


def names(siblings: tuple[str, ...]) -> str:
    """The range of names of a fold: ``0 … 11``."""
    if len(siblings) < 3:
        return ", ".join(siblings)
    return f"{siblings[0]} … {siblings[-1]}"
