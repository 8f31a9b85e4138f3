"""Consoles whose encoding knows neither lines of tables nor arrows."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torchrecorder
from tests import figures
from torchrecorder.console import encodable, printable
from torchrecorder.graph.saved_files import save
from torchrecorder.integrations.cli import main

ENCODINGS = ["cp1252", "cp437", "ascii", "shift_jis"]


class Console(io.TextIOWrapper):
    """Standard output with an encoding, as where it is redirected into a file."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="")

    def written(self) -> str:
        """What arrived."""
        self.flush()
        contents: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return contents.decode(self.encoding)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recording on disk, of a model whose name no western encoding has."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    recording = torchrecorder.record(model, input_shapes=(1, 4), name="网络")
    save(recording, tmp_path / "run.json")
    return tmp_path / "run.json"


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "arguments",
    [["summary", "--ops"], ["top", "--by", "parameters"], ["compare", "run.json"], ["--help"]],
)
def test_the_command_line(
    monkeypatch: pytest.MonkeyPatch, recorded: Path, encoding: str, arguments: list[str]
) -> None:
    """Every table can be printed, and the stream is as before afterwards."""
    monkeypatch.chdir(recorded.parent)
    monkeypatch.setattr(sys, "stdout", Console(encoding))
    if arguments == ["--help"]:
        with pytest.raises(SystemExit):
            main(arguments)
    else:
        assert main([arguments[0], "run.json", *arguments[1:]]) == 0
    assert sys.stdout.errors == "strict"
    assert len(sys.stdout.written()) > 20  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_printing_tables(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """So can those of Python code: print does not raise."""
    recording = figures.network()
    usual = recording.summary(ops=True).splitlines()
    monkeypatch.setattr(sys, "stdout", Console(encoding))
    print(recording.summary(ops=True))
    print(torchrecorder.compare(recording, figures.regions()).text())
    written = sys.stdout.written().splitlines()  # type: ignore[attr-defined]
    assert written[1] in (usual[1], "-" * len(usual[1])) and len(written[0]) == len(usual[0])


def test_utf_8_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is replaced where everything can be shown, or where there is no console."""
    text = "├─ x → 1×2 … 网络 \U0001f525"
    for stream in (Console("utf-8"), Console("utf-16"), None, io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        assert encodable(text) == text
        with printable():
            pass


def test_a_console_that_replaces_characters_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on as it was set up, by ``PYTHONIOENCODING=ascii:replace`` for example."""
    stream = Console("ascii")
    stream.reconfigure(errors="replace")
    monkeypatch.setattr(sys, "stdout", stream)
    with printable():
        print("1×2", end="")
    assert stream.written() == "1?2" and stream.errors == "replace"


def test_what_stands_for_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """A likeness in ASCII where there is one; else its code, as JSON reads it."""
    monkeypatch.setattr(sys, "stdout", Console("ascii"))
    assert encodable("├─ a → 1×2 …") == "+- a -> 1x2 ..."
    text = "网络 \U0001f525 é"
    assert json.loads(encodable(json.dumps(text, ensure_ascii=False))) == text


def test_files_are_utf_8_whatever_the_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A table that is written to a file keeps its lines."""
    before = figures.network().render(tmp_path / "before.txt").read_bytes()
    monkeypatch.setattr(sys, "stdout", Console("cp1252"))
    assert figures.network().render(tmp_path / "after.txt").read_bytes() == before
    assert "─" in before.decode()


def test_a_process_with_such_a_console(recorded: Path) -> None:
    """From outside: redirected into a file, as a shell on Windows does it."""
    command = [sys.executable, "-X", "utf8=0", "-m", "torchrecorder", "summary", str(recorded)]
    with (recorded.parent / "summary.txt").open("wb") as file:
        done = subprocess.run(
            command,
            stdout=file,
            stderr=subprocess.PIPE,
            env=_environment(PYTHONIOENCODING="cp1252"),
            cwd=recorded.parent,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Total params" in (recorded.parent / "summary.txt").read_text(encoding="cp1252")


def test_a_script_under_the_recorder_keeps_its_own_console(tmp_path: Path) -> None:
    """What the script prints fails there as it does without us."""
    script = tmp_path / "train.py"
    script.write_text("print('\\u2192')", encoding="utf-8")
    command = [sys.executable, "-m", "torchrecorder", "run", str(script)]
    done = subprocess.run(
        command, capture_output=True, env=_environment(PYTHONIOENCODING="cp1252"), cwd=tmp_path
    )
    assert done.returncode != 0 and b"UnicodeEncodeError" in done.stderr


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, **more}
