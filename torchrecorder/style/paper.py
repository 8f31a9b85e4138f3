"""Paper: a page of a given size, and how a figure of any size is put on it.

A figure is made smaller to fit, never larger: at ``fontsize=8`` its text has 8 points on
paper, or less where it must shrink, but never less than what is asked for.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from torchrecorder.checks import warn
from torchrecorder.errors import DoesNotFit, InvalidArgument, LargerThanAPage

UNITS = {"mm": 72 / 25.4, "cm": 720 / 25.4, "in": 72.0, "pt": 1.0}
"""Points of 1/72 inch, as in PDF and CSS, in each unit."""

_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*")
_NEARLY = 0.005
"""Points by which text may be too small: what is lost in rounding."""

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
    """

    width: float | None = None
    height: float | None = None
    min_fontsize: float = 0.0

    def __bool__(self) -> bool:
        return self.width is not None or self.height is not None

    def fit(self, width: float, height: float, smallest: float) -> Fit:
        """How a figure of this size, with text as small as *smallest*, stands on the page.

        Warns where a side that was not given is longer than that of any page.

        Raises:
            DoesNotFit: Its text would be too small; the message says how small, which size
                would do, and what else helps.
        """
        scale = min(1.0, (self.width or width) / width, (self.height or height) / height)
        if smallest * scale < self.min_fontsize - _NEARLY:
            raise DoesNotFit(self._complaint(width, height, smallest, scale))
        across, down = self.width or width * scale, self.height or height * scale
        if self and max(across, down) > LONGEST and None in (self.width, self.height):
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
        given = zip(("wide", "high"), (self.width, self.height), (width, height))
        short = [
            (size, much, has) for size, has, much in given if has and has < much * need - _NEARLY
        ]
        page = " and ".join(f"{_mm(has)} {size}" for size, _, has in short)
        enough = " and ".join(
            f"{math.ceil(much * need / UNITS['mm'])} mm {size}" for size, much, _ in short
        )
        return (
            f"on paper {page} the smallest text would have {smallest * scale:.1f} pt, and "
            f"{wanted}. The figure is {_mm(width)} wide and {_mm(height)} high at full size; it "
            f"would do on paper {enough}. {ADVICE}"
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
            f"{name} must be a length with its unit, such as '85mm', '8.5cm', '3.35in' or "
            f"'241pt', not {length!r}"
        )
    return float(found[1]) * unit


def _mm(length: float) -> str:
    return f"{length / UNITS['mm']:.0f} mm"
