"""What is printed about trouble, word for word where another word would mislead."""

from __future__ import annotations

import argparse
import io
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchrecorder.capture.internals import table
from torchrecorder.errors import InvalidArgument, LargerThanAPage, LayoutFailed, Notice
from torchrecorder.integrations.cli import _warned
from torchrecorder.integrations.commands.doctor import DoctorCommand
from torchrecorder.integrations.drawing_arguments import STDOUT, _name
from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.progress import Progress


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_warning_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """As a sentence; those of others as ever."""
    with pytest.warns(UserWarning, match="theirs"), _warned():
        for text in ("one", "two", "one"):
            warnings.warn(LargerThanAPage(text), stacklevel=1)
        warnings.warn("theirs", stacklevel=1)
    assert issubclass(LargerThanAPage, Notice)
    printed = capsys.readouterr().err
    assert printed == "torchrecorder: warning: one\ntorchrecorder: warning: two\n"


def test_a_warning_is_printed_whatever_filters_there_are(
    capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of Python are about the warnings of others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with _warned():
            warnings.warn(LargerThanAPage("one"), stacklevel=1)
    assert capsys.readouterr().err == "torchrecorder: warning: one\n"


def test_doctor_shows_what_is_lost_without_an_internal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only of those that are missing, and which versions of PyTorch have them."""
    common = {"gives": "a fact", "without": "a gap", "since": "2.9"}
    internals = [
        SimpleNamespace(name=name, present=name == "here", until=until, **common)
        for name, until in (("here", ""), ("gone", ""), ("over", "2.12"))
    ]
    monkeypatch.setattr(table, "INTERNALS", internals)
    assert DoctorCommand().run(argparse.Namespace()) == 0
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [" ".join(line.split()) for line in lines] == [
        "yes here: a fact",
        "no gone: a fact (PyTorch 2.9 has it). Without: a gap",
        "no over: a fact (PyTorch 2.9 has it, 2.12 no longer). Without: a gap",
    ]


def test_names_of_what_is_written() -> None:
    """Standard output has a name by its format, and none where it has other text."""
    assert _name(Path("a/b.svg"), "") == _name(Path("a/b.svg"), "pdf") == "b.svg"
    assert _name(STDOUT, "svg") == _name(STDOUT, ".svg") == "stdout.svg"
    with pytest.raises(InvalidArgument, match="standard output has other text"):
        _name(STDOUT, "")


def test_sphinx_names_the_errors_of_others() -> None:
    """Those of this package are sentences that need no name."""
    message_of = pytest.importorskip("torchrecorder.integrations.sphinx.node").message_of
    assert message_of(InvalidArgument("no such depth")) == "no such depth"
    assert message_of(ValueError("no such depth")) == "ValueError: no such depth"


def test_sphinx_names_flags_as_options_but_in_errors_of_the_model() -> None:
    """These are those of the user's program, whose flags are its own."""
    message_of = pytest.importorskip("torchrecorder.integrations.sphinx.node").message_of
    assert message_of(InvalidArgument("give --shape or --inputs")) == "give :shape: or :inputs:"
    failed = ModelFailed("the model", ValueError("give --lr too"))
    assert "give --lr too" in message_of(failed)


@pytest.mark.parametrize("final", [True, False])
def test_a_failed_layout_shows_why(final: bool) -> None:
    """And whether another way may still do it."""
    error = LayoutFailed("too large", final=final)
    assert str(error) == "too large" and error.final is final


def test_doctor_shows_which_versions_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    """As the packages themselves say."""
    assert DoctorCommand().run(argparse.Namespace()) == 0
    printed = capsys.readouterr().out
    assert torch.__version__.split("+")[0] in printed and "of unknown version" not in printed


def test_short_work_shows_no_progress() -> None:
    """Not even what would take it away."""
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress.now("recording")
    assert terminal.getvalue() == ""
