"""Amounts: counts, bytes and times as short text."""

from __future__ import annotations

BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def exact(number: float) -> str:
    """Every digit, in groups of three: ``11,689,512``."""
    return f"{number:,.0f}"


def of_bytes(number: float) -> str:
    """Bytes in three digits, a thousand to the kilobyte: ``602 kB``."""
    scaled, unit = float(number), 0
    while abs(scaled) >= 999.5 and unit + 1 < len(BYTES):
        scaled, unit = scaled / 1000, unit + 1
    return f"{_digits(scaled) if unit else f'{scaled:.0f}'} {BYTES[unit]}"


def of_seconds(number: float) -> str:
    """A time in three digits: ``1.25 ms``."""
    for size, unit in SECONDS:
        if abs(number) >= 0.9995 * size:
            return f"{_digits(number / size)} {unit}"
    return f"{number * 1e9:.0f} ns"


def _digits(number: float) -> str:
    size = abs(number)
    return f"{number:.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"
