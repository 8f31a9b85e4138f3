"""Colors: parsing, mixing, contrast, and color scales."""

from __future__ import annotations

import colorsys
import re
from functools import lru_cache

from torchrecorder.checks import Check
from torchrecorder.style.color_names import NAMES, SCHEMES

_HEX = re.compile(r"#[0-9a-f]{3,4}|#[0-9a-f]{6}|#[0-9a-f]{8}")
_SHARE = r"(0?\.\d+|0\.?|1(?:\.0*)?)"
_HSV = re.compile(_SHARE + rf"[\s,]+{_SHARE}" * 2)
_WEIGHT = re.compile(r";(0?\.\d+|1(\.0*)?)$")
_NOTHING = ("transparent", "none", "invis")

READABLE = 4.5
"""The minimum contrast of readable text (WCAG, level AA)."""

FADED = (0.3, 0.22, 0.14, 0.07)
"""How much of the background may be mixed into the color of small text: the shares to try."""

SHARES = (0.5, 0.4, 0.3, 0.24, 0.18, 0.13, 0.09, 0.06)
"""How much of a color may be in a tint: the shares to try."""

MAX_TINT = {"light": 1.18, "dark": 1.45}
"""The maximum contrast of a tint to light and to dark paper."""

MIN_EDGE = 2.0
"""The minimum contrast to a fill of the color that is mixed into its outline."""


@lru_cache(maxsize=1024)
def solid(text: str, scheme: str = "") -> str | None:
    """One color as ``"#rrggbb"``, ``"#rrggbbaa"`` or ``"transparent"``; None if it is invalid.

    Colors of a *scheme* are returned unchanged, because only Graphviz knows them.

    Example:
        >>> solid("SteelBlue"), solid("#f80"), solid("/blues9/3"), solid("blurple")
        ('#4682b4', '#ff8800', '/blues9/3', None)
    """
    name = text.lower()
    if _HEX.fullmatch(name):
        return name if len(name) > 5 else "#" + "".join(2 * digit for digit in name[1:])
    if name in _NOTHING:
        return "transparent"
    if parts := _HSV.fullmatch(name):
        mixed = colorsys.hsv_to_rgb(*map(float, parts.groups()))
        return "#" + "".join(f"{int(255 * part):02x}" for part in mixed)
    if not scheme and name in NAMES:
        return NAMES[name]
    return text if _in_scheme(name, scheme.lower()) else None


def _in_scheme(name: str, scheme: str) -> bool:
    if name.startswith("/") and name.count("/") == 2:
        _, scheme, name = name.split("/")
    if scheme in SCHEMES:
        return name.isdecimal() and 1 <= int(name) <= SCHEMES[scheme]
    return scheme in ("", "x11", "svg") and name in NAMES


def listed(text: str, scheme: str = "") -> str | None:
    """Colors separated by colons, maybe with fractions, ``"red;0.3:blue"``; None for others."""
    several, found = ":" in text, []
    for part in text.split(":"):
        weight = _WEIGHT.search(part) if several else None
        plain = part[: weight.start()] if weight else part
        color = solid(plain, scheme)
        if color is None:
            return None
        found.append((color if plain.startswith("#") else plain) + (weight[0] if weight else ""))
    return ":".join(found)


def color_check(scheme: str = "") -> Check:
    """The check for a color or a list of colors."""
    names = f"what the scheme {scheme!r} has" if scheme else "an X11 name such as 'steelblue'"
    return Check(
        f"a color ({names}; '#rgb' or '#rrggbb', also with opacity; 'transparent'; several "
        "with colons, 'red:blue')",
        lambda value: isinstance(value, str) and listed(value, scheme) is not None,
        tuple(NAMES),
        read=str,
    )


COLOR = color_check()
OPAQUE = Check(
    "a color (an X11 name such as 'steelblue'; '#rgb' or '#rrggbb')",
    lambda value: isinstance(value, str) and re.fullmatch("#.{6}", solid(value) or ""),
    tuple(NAMES),
    read=str,
)
"""The check for a single color without opacity."""


def rgb(color: str) -> tuple[int, int, int]:
    """A valid color as three numbers from 0 to 255."""
    found = solid(color) or ""
    return int(found[1:3], 16), int(found[3:5], 16), int(found[5:7], 16)


def mix(one: str, other: str, share: float) -> str:
    """*one* mixed with a *share* of *other*; only *one* if either is not a single color."""
    if not all((solid(color) or "").startswith("#") for color in (one, other)):
        return one
    pairs = zip(rgb(one), rgb(other))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def luminance(color: str) -> float:
    """The relative luminance of a color, from 0 to 1 (WCAG)."""
    parts = [part / 255 for part in rgb(color)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colors, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(maxsize=1024)
def ink(fill: str) -> str:
    """Dark gray or white, whichever is easier to read on *fill*; black if neither is readable."""
    soft = max(("#1b1f24", "#ffffff"), key=lambda color: contrast(color, fill))
    return soft if contrast(soft, fill) >= READABLE else "#000000"


def scale(stops: tuple[str, ...], share: float) -> str:
    """The color at *share* (0 to 1) of the way through *stops*."""
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    return mix(stops[low], stops[low + 1], place - low)


@lru_cache(maxsize=1024)
def faded(text: str, fill: str) -> str:
    """The color of small text on *fill*: as much less prominent than titles as is readable."""
    if not fill.startswith("#"):
        return text
    mixed = (mix(text, fill, share) for share in FADED)
    return next((color for color in mixed if contrast(color, fill) >= READABLE), text)


@lru_cache(maxsize=1024)
def edge(fill: str, text: str) -> str:
    """The color of an outline around *fill*: closer to the *text* of the theme, if that is seen."""
    return mix(fill, text if contrast(text, fill) >= MIN_EDGE else ink(fill), 0.45)


@lru_cache(maxsize=1024)
def tint(color: str, paper: str, text: str) -> str:
    """As much of *color* on *paper* as leaves it close to the paper; *text* is that of the theme.

    Paper without a color counts as white or black, as the text needs.
    """
    if not (solid(paper) or "").startswith("#"):
        paper = ink(text)
    most = MAX_TINT["light" if luminance(paper) > luminance(text) else "dark"]
    tints = [mix(paper, color, share) for share in SHARES]
    return next((item for item in tints if contrast(item, paper) <= most), tints[-1])
