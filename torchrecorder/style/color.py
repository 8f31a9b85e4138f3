"""Colours: mixing, contrast, and scales from number to colour."""

from __future__ import annotations

from functools import lru_cache


def rgb(color: str) -> tuple[int, int, int]:
    """``"#rrggbb"`` as three numbers."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def mix(one: str, other: str, share: float) -> str:
    """*one*, with a *share* of *other* mixed in."""
    pairs = zip(rgb(one), rgb(other))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def luminance(color: str) -> float:
    """How bright a colour is, from 0 to 1, as contrast rules count it."""
    parts = [part / 255 for part in rgb(color)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink(fill: str) -> str:
    """Black or white, whichever reads better on *fill*."""
    return max(("#1b1f24", "#ffffff"), key=lambda color: contrast(color, fill))


def scale(stops: tuple[str, ...], share: float) -> str:
    """The colour at *share* (0 to 1) of the way through *stops*."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    return mix(stops[low], stops[low + 1], place - low)


@lru_cache(maxsize=1024)
def faded(text: str, fill: str) -> str:
    """The colour of small print on *fill*: still well readable, but quieter than titles."""
    return mix(text, fill, 0.3) if fill.startswith("#") else text
