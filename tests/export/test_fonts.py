"""Fonts that a machine does not have: said, where a file is painted with another."""

from __future__ import annotations

import shutil
import warnings

import pytest

from tests.figures import network
from torchrecorder.errors import Notice
from torchrecorder.layout import fonts


@pytest.fixture
def matcher(tmp_path, monkeypatch):
    """An ``fc-match`` that knows one font, and gives it for every other."""
    program = tmp_path / "fc-match"
    program.write_text("#!/bin/sh\nprintf 'Known Sans,Known Sans Book'\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if name == "fc-match" else None)
    fonts.stand_in.cache_clear()
    yield program
    fonts.stand_in.cache_clear()


@pytest.mark.parametrize(
    ("family", "instead"),
    [
        ("Comic Foo", "Known Sans"),
        ("known sans", None),
        ("Comic Foo, Known Sans Book", None),
        ("Helvetica", None),
        ("Helvetica, Comic Foo", None),
        ("Comic Foo, Helvetica", "Known Sans"),
    ],
)
def test_what_stands_in(matcher, family, instead):
    """Nothing does for a font that is there, one of a list that is there, and the usual ones."""
    assert fonts.stand_in(family) == instead


def test_no_substitute_is_named_without_the_program(matcher, monkeypatch):
    """Without the program, or where it fails, nothing is claimed."""
    matcher.write_text("#!/bin/sh\nexit 1\n")
    assert fonts.stand_in("Comic Foo") is None
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert fonts.stand_in("Comic Bar") is None


@pytest.mark.dot
def test_bitmaps_and_pdf_show_which_font_they_have(matcher, tmp_path):
    """SVG has the font of whoever looks at it."""
    for suffix in ("png", "pdf"):
        with pytest.warns(Notice, match="'Comic Foo' is not installed .* with 'Known Sans'"):
            network().render(tmp_path / f"net.{suffix}", fontname="Comic Foo")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network().render(tmp_path / "net.svg", fontname="Comic Foo")
        network().render(tmp_path / "net.png")


@pytest.mark.skipif(shutil.which("fc-match") is None, reason="Fontconfig's programs are not there")
def test_the_real_program():
    """It names some font for a name that nobody has."""
    fonts.stand_in.cache_clear()
    assert fonts.stand_in("Surely No Such Font 7")
