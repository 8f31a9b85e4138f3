"""Paper: a page or space of a given size, and how a figure is scaled to it.

A figure is scaled down to fit, never up. At ``fontsize=8`` its text has 8 points on paper, or less
if it must shrink, but at least ``min_fontsize``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from torchrecorder.checks import guess, shown, warn
from torchrecorder.errors import DoesNotFit, InvalidArgument, LargerThanAPage, SmallText

UNITS = {"mm": 72 / 25.4, "cm": 720 / 25.4, "in": 72.0, "pt": 1.0, "px": 0.75}
"""Points of 1/72 inch, as in PDF and CSS, in each unit."""

PLACES = {
    "page": ("170mm", "240mm"),
    "column": ("85mm", "240mm"),
    "slide": ("300mm", "150mm"),
    "cell": ("900px", "600px"),
}
"""The usable width and height of an A4 or letter page, a column of a paper, a wide slide below its
title, and a notebook cell."""

_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
_NEARLY = 0.005
"""Tolerance of text sizes in points, for rounding."""

READABLE = 5.0
"""The default of ``min_fontsize``, in points."""

A4_LENGTH = 297 * UNITS["mm"]
"""The long side of A4 in points; letter is shorter."""

NOUNS = {"wide": "width", "high": "height"}
FEWER = "(a smaller depth=, focus=, hide=, group=)"
ADVICE = (
    f"Draw fewer boxes {FEWER}, leave out captions (shapes=False, details=False, counts=False), "
    "shorten names (rename=), change the direction=, or allow a larger size or smaller text "
    "(a min_fontsize of 0 allows any)"
)


@dataclass(frozen=True)
class Fit:
    """The position of a figure on its page, in points."""

    scale: float  # 1 at most
    width: float  # of the page, as the height
    height: float
    left: float  # free space, as on the right
    top: float  # free space, as below


@dataclass(frozen=True)
class Paper:
    """The page on which a figure is printed, in points."""

    width: float | None = None  # its exact width; None for that of the figure
    height: float | None = None  # its exact height; None for that of the figure
    min_fontsize: float = 0.0  # the minimum size of text
    # the maximum width and height of the figure, which is not enlarged; None for no limit
    place: tuple[float, float] | None = None

    def __bool__(self) -> bool:
        return self != Paper(min_fontsize=self.min_fontsize)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The width and height that a figure may have; None if one of them is not limited."""
        return self.place or ((self.width, self.height) if self.width and self.height else None)

    def scale(self, width: float, height: float) -> float:
        """The scale factor of a figure of this size; 1 at most."""
        across, down = self.place or (self.width or width, self.height or height)
        return min(1.0, across / width, down / height)

    def fit(self, width: float, height: float, smallest: float) -> Fit:
        """The position on the page of a figure of this size; *smallest* is its smallest text.

        Warns if a side without a given length is longer than any page, and if the text is too
        small.

        Raises:
            DoesNotFit: Its text would be too small on a page of exact size; the message has the
                font size, a sufficient page size, and advice.
        """
        scale = self.scale(width, height)
        if smallest * scale < self.min_fontsize - _NEARLY:
            if self.place is None:
                raise DoesNotFit(self._complaint(width, height, smallest, scale))
            warn(self._complaint(width, height, smallest, scale), SmallText)
        across, down = self.width or width * scale, self.height or height * scale
        alone = self and self.place is None
        if alone and max(across, down) > A4_LENGTH and None in (self.width, self.height):
            warn(self._too_long(across, down), LargerThanAPage)
        left, top = (across - width * scale) / 2, (down - height * scale) / 2
        return Fit(scale, across, down, left, top)

    def _too_long(self, across: float, down: float) -> str:
        given, other, size = ("width", "height", "higher") if self.width else (
            "height", "width", "wider"
        )
        return (
            f"the figure is {_mm(across)} by {_mm(down)}, {size} than the longer side of A4 "
            f"({_mm(A4_LENGTH)}), because only {given}= is set. Set {other}='240mm' as well: the "
            "figure is then made to fit, in columns where this makes it larger. "
            f"Or draw fewer boxes {FEWER}, or change the direction="
        )

    def _complaint(self, width: float, height: float, smallest: float, scale: float) -> str:
        wanted = f"min_fontsize is {self.min_fontsize:g} pt"
        if smallest < self.min_fontsize - _NEARLY:
            return (
                f"the smallest text has {smallest:g} pt before anything is made to fit, and "
                f"{wanted}: small print has 0.8 times the fontsize. Give a larger fontsize, or "
                "a smaller min_fontsize"
            )
        need = self.min_fontsize / smallest
        sides = self.place or (self.width, self.height)
        given = zip(("wide", "high"), sides, (width, height))
        short = [
            (size, much, has) for size, has, much in given if has and has < much * need - _NEARLY
        ]
        page = " and ".join(f"{_mm(has)} {size}" for size, _, has in short)
        where = "on paper" if self.place is None else "in a place"
        enough = " and ".join(
            f"a {NOUNS[size]} of at least {math.ceil(much * need / UNITS['mm'])} mm"
            for size, much, _ in short
        )
        return (
            f"{where} {page} the smallest text would be {smallest * scale:.1f} pt, and {wanted}. "
            f"The figure is {_mm(width)} wide and {_mm(height)} high at full size, and needs "
            f"{enough}. {ADVICE}"
        )


def points(name: str, length: object) -> float | None:
    """A length such as ``"85mm"`` in points; None stays None.

    Raises:
        InvalidArgument: It is not a length with a unit.
    """
    if length is None:
        return None
    found = _LENGTH.fullmatch(length.lower()) if isinstance(length, str) else None
    unit = UNITS.get(found[2]) if found else None
    if found is None or unit is None or not 0 < float(found[1]) * unit < 1e6:
        raise InvalidArgument(
            f"{name} must be a length with its unit, such as '85mm', '8.5cm', '3.35in', "
            f"'241pt' or '321px', not {length!r}"
        )
    return float(found[1]) * unit


def place(fit: object) -> tuple[float, float] | None:
    """The width and height that a figure must fit, in points; None stays None.

    Raises:
        InvalidArgument: It is neither one of `PLACES` nor a pair of lengths.
    """
    if fit is None:
        return None
    sides = PLACES.get(fit, fit) if isinstance(fit, str) else fit
    if not isinstance(sides, (tuple, list)) or len(sides) != 2 or None in sides:
        known = ", ".join(map(repr, PLACES))
        raise InvalidArgument(
            f"fit must be {known}, or a width and a height such as ('170mm', '240mm'), not "
            f"{shown(fit)}{guess(fit, tuple(PLACES)) if isinstance(fit, str) else ''}"
        )
    width, height = (points("fit", side) for side in sides)
    return None if width is None or height is None else (width, height)


def _mm(length: float) -> str:
    return f"{length / UNITS['mm']:.0f} mm"
