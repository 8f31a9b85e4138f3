"""Paper: a page or a place of a given size, and how a figure of any size is put on it.

A figure is made smaller to fit, never larger: at ``fontsize=8`` its text has 8 points on
paper, or less where it must shrink, but never less than what is asked for.
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
"""Width and height that there are on a page of A4 or letter between its margins, in a column of a
paper, on a wide slide below its title, and in a cell of a notebook."""

_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
_NEARLY = 0.005
"""Points by which text may be too small: what is lost in rounding."""

READABLE = 5.0
"""Points that text has at least, if not told otherwise."""

LONGEST = 297 * UNITS["mm"]
"""The long side of A4, which is longer than letter."""

FEWER = "Show fewer boxes (a smaller depth, focus=, hide=, group=)"
ADVICE = (
    f"{FEWER}, say less on them "
    "(shapes=False, details=False, counts=False), shorten names (rename=), turn it "
    "(direction=), or ask for larger paper or for a smaller min_fontsize (0 takes any)"
)


@dataclass(frozen=True)
class Fit:
    """How a figure stands on its page, in points.

    Attributes:
        scale: By how much it is made smaller; 1 at most.
        width: Of the page.
        height: Of the page.
        left: Free space on the left, and as much on the right.
        top: Free space above, and as much below.
    """

    scale: float
    width: float
    height: float
    left: float
    top: float


@dataclass(frozen=True)
class Paper:
    """The page that a figure is put on, in points.

    Attributes:
        width: Its exact width; None is that of the figure.
        height: Its exact height; None is that of the figure.
        min_fontsize: No text may be smaller than this on it.
        place: The width and height that there are for the figure, which has its own size where
            it is smaller; None is any.
    """

    width: float | None = None
    height: float | None = None
    min_fontsize: float = 0.0
    place: tuple[float, float] | None = None

    def __bool__(self) -> bool:
        return self != Paper(min_fontsize=self.min_fontsize)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The width and height that a figure may have; None if one of them is not limited."""
        return self.place or ((self.width, self.height) if self.width and self.height else None)

    def scale(self, width: float, height: float) -> float:
        """By how much a figure of this size is made smaller; 1 at most."""
        across, down = self.place or (self.width or width, self.height or height)
        return min(1.0, across / width, down / height)

    def fit(self, width: float, height: float, smallest: float) -> Fit:
        """How a figure of this size, with text as small as *smallest*, stands on the page.

        Warns where a side that was not given is longer than that of any page, and where its
        text is too small in a place.

        Raises:
            DoesNotFit: Its text would be too small on a page of exact size; the message says how
                small, which size would do, and what else helps.
        """
        scale = self.scale(width, height)
        if smallest * scale < self.min_fontsize - _NEARLY:
            if self.place is None:
                raise DoesNotFit(self._complaint(width, height, smallest, scale))
            warn(self._complaint(width, height, smallest, scale), SmallText)
        across, down = self.width or width * scale, self.height or height * scale
        alone = self and self.place is None
        if alone and max(across, down) > LONGEST and None in (self.width, self.height):
            warn(self._too_long(across, down), LargerThanAPage)
        left, top = (across - width * scale) / 2, (down - height * scale) / 2
        return Fit(scale, across, down, left, top)

    def _too_long(self, across: float, down: float) -> str:
        given, other, size = ("width", "height", "higher") if self.width else (
            "height", "width", "wider"
        )
        return (
            f"a page of {_mm(across)} by {_mm(down)} is {size} than A4 is long, {_mm(LONGEST)}; "
            f"{given}= alone does not limit that. With {other}='240mm' too, the figure is made to "
            f"fit, in columns where that helps. {FEWER}, or turn it (direction=)"
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
            f"{math.ceil(much * need / UNITS['mm'])} mm {size}" for size, much, _ in short
        )
        return (
            f"{where} {page} the smallest text would have {smallest * scale:.1f} pt, and "
            f"{wanted}. The figure is {_mm(width)} wide and {_mm(height)} high at full size; it "
            f"would do {where} {enough}. {ADVICE}"
        )


def points(name: str, length: object) -> float | None:
    """A length such as ``"85mm"`` in points; None stays None.

    Raises:
        InvalidArgument: It is no length, or has no unit.
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
    """The width and height of what a figure is to fit, in points; None stays None.

    Raises:
        InvalidArgument: It is none of `PLACES`, and no pair of lengths.
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
