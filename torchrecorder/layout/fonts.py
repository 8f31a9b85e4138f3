"""Fonts: let Graphviz measure and draw text, also on machines without fonts.

Graphviz measures text with the fonts of the machine. Containers often have none: every letter would
be an empty box in PDF and PNG, and labels in SVG would not fit. So Manrope, which pip installs, is
the last fallback font on Linux.

Variable fonts are excluded, because the Pango in the wheel of pygraphviz spaces their letters too
widely.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

PACKAGE = "font-manrope"
"""The package with fonts, on Linux."""

_MODULE = "font_manrope"
_GENERIC = ("helvetica", "arial", "times", "courier", "sans-serif", "sans", "serif", "monospace")
"""Font names that are available on every machine."""

_VARIABLE = ("*?wght?.*", "*,wght?.*", "*-VariableFont_*", "*[-_]VF.*", "*VF.ttf", "*VF.otf")
_LIKE_HELVETICA = ("Liberation Sans", "Arimo", "Nimbus Sans", "DejaVu Sans", "Manrope")
_CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<dir>/usr/share/fonts</dir>
<dir>/usr/local/share/fonts</dir>
<dir prefix="xdg">fonts</dir>
<dir>{folder}</dir>
<cachedir prefix="xdg">fontconfig</cachedir>
<selectfont><rejectfont>{rejected}</rejectfont></selectfont>
{aliases}
</fontconfig>
"""


@contextlib.contextmanager
def environment() -> Iterator[Mapping[str, str]]:
    """Environment variables of a process that uses fonts.

    An existing configuration of Fontconfig in the environment is kept.
    """
    folder = _folder()
    set_by_hand = any(name in os.environ for name in ("FONTCONFIG_FILE", "FONTCONFIG_PATH"))
    if folder is None or set_by_hand or not sys.platform.startswith("linux"):
        yield os.environ
        return
    with tempfile.NamedTemporaryFile("wb", suffix=".conf") as file:
        file.write(os.fsencode(configuration(folder)))
        file.flush()
        yield {**os.environ, "FONTCONFIG_FILE": file.name}


@functools.cache
def stand_in(family: str) -> str | None:
    """The font that replaces a missing font of this name; None if it is not missing.

    None also without Fontconfig's ``fc-match``, and for a list of families of which one is
    installed.
    """
    program = shutil.which("fc-match")
    wanted = [part.strip().casefold() for part in family.split(",")]
    if program is None or not wanted or wanted[0] in _GENERIC:
        return None
    with environment() as variables:
        try:
            found = subprocess.run(
                [program, "--format", "%{family}", family.partition(":")[0]],
                capture_output=True, text=True, timeout=10, env=dict(variables), check=True,
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return None
    given = [part.strip() for part in found.split(",")]
    there = any(name.casefold() in wanted for name in given)
    return None if there or not given[0] else given[0]


def configuration(folder: str) -> str:
    """Fontconfig's configuration with the fonts in *folder* as the last resort."""
    rejected = "".join(f"<glob>{escape(glob)}</glob>" for glob in _VARIABLE)
    aliases = "\n".join(_alias(family) for family in ("Helvetica", "Arial", "sans-serif"))
    return _CONFIGURATION.format(folder=escape(folder), rejected=rejected, aliases=aliases)


def _alias(family: str) -> str:
    stand_ins = "".join(f"<family>{item}</family>" for item in _LIKE_HELVETICA)
    return f"<alias><family>{family}</family><accept>{stand_ins}</accept></alias>"


def _folder() -> str | None:
    """The folder of the fonts from pip; None if they are not installed."""
    found = importlib.util.find_spec(_MODULE)
    if found is None or not found.submodule_search_locations:
        return None
    return str(Path(found.submodule_search_locations[0]) / "files")
