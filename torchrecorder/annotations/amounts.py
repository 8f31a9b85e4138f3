"""Amounts: counts, bytes and times as short text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def exact(number: float) -> str:
    """*number* with all digits, in groups of three: ``11,689,512``."""
    return f"{number:,.0f}"


def of_bytes(number: float) -> str:
    """Bytes with three digits; a kilobyte is 1000 bytes: ``602 kB``."""
    return _in_thousands(number, ("B", "kB", "MB", "GB", "TB", "PB"))


def of_flops(number: float) -> str:
    """Floating-point operations with three digits: ``4.09 GFLOP``."""
    return _in_thousands(number, ("FLOP", *(f"{item}FLOP" for item in "kMGTPE")))


def of_seconds(number: float) -> str:
    """A time with three digits: ``1.25 ms``."""
    for size, unit in SECONDS:
        if abs(number) >= 0.9995 * size:
            return f"{three_digits(number / size)} {unit}"
    return f"{number * 1e9:.0f} ns"


def ranges(numbers: Iterable[int], dash: str) -> str:
    """Integers as text, consecutive ones as a range: ``1-3, 5``."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join(dash.join(map(str, span)) for span in spans)


def _in_thousands(number: float, units: Sequence[str]) -> str:
    scaled, unit = thousands(number, units)
    return f"{f'{scaled:.0f}' if unit == units[0] else three_digits(scaled)} {unit}"


def thousands(number: float, units: Sequence[str]) -> tuple[float, str]:
    """*number* in the first of *units* in which it is below 1000; each is 1000 times the last."""
    scaled, unit = float(number), 0
    while abs(scaled) >= 999.5 and unit + 1 < len(units):
        scaled, unit = scaled / 1000, unit + 1
    return scaled, units[unit]


def three_digits(number: float) -> str:
    """``1.23``, ``45.6``, ``789``."""
    size = abs(number)
    return f"{number:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
