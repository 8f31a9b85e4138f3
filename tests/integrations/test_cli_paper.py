"""The command line: figures of an exact size, names and groups of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integrations.test_cli import folder, run

__all__ = ["folder"]  # a fixture that all tests here use

NET = ("render", "cli_nets:Net", "--shape", "2,4", "--depth", "1")


def test_size_and_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes, new names, colors and groups reach the figure."""
    asked = ("--width", "60mm", "--min-fontsize", "2", "--rename", "x=features", "--rename",
             "Linear = Dense", "--colors", "x=#abcdef")
    assert run(capsys, *NET, *asked, "-o", "a.svg")[0] == 0
    svg = (folder / "a.svg").read_text()
    assert '<svg width="60mm"' in svg
    assert ">features<" in svg and ": Dense<" in svg and ": Linear<" not in svg
    assert 'fill="#abcdef"' in svg
    plain = run(capsys, *NET, "-o", "b.svg", "--group", "Everything=*")
    assert plain[0] == 0 and ">Everything<" in (folder / "b.svg").read_text()


@pytest.mark.parametrize("asked, said", [
    (("--width", "60"), "--width must be a length with its unit"),
    (("--width", "5mm"), "on paper 5 mm wide the smallest text would be"),
    (("--colors", "x=blurple"), "--colors: the color of 'x' must be a color"),
    (("--colors", "x=red", "--color-by", "parameters"), "--colors and --color-by both color"),
    (("--group", "A=nothing"), "no module or operation is called 'nothing'"),
])
def test_what_cannot_be(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], said: str
) -> None:
    """A mistake is one line, without Python in it, and no file is written."""
    code, _, error = run(capsys, *NET, *asked, "-o", "a.svg")
    assert code != 0 and said in error and "=" not in error and not (folder / "a.svg").exists()
