"""Targets that are recorded already: a saved file, and a function that returns a recording."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.annotations import by_name
from torchrecorder.integrations import targets
from torchrecorder.integrations.cli import main
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.sphinx import options as directive_options

STEPS = """
import torch, torchrecorder
from torch import nn

def step(size=4):
    model = nn.Linear(size, 2)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(1, size)).sum().backward()
    return recorder.recording
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with both."""
    (tmp_path / "recorded_steps.py").write_text(STEPS)
    torchrecorder.record(nn.Linear(4, 2), torch.ones(1, 4)).save(tmp_path / "run.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("recorded_steps", None)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """What a command that works prints, and what it warns of."""
    assert main(arguments) == 0
    said = capsys.readouterr()
    return said.out, said.err


def test_a_function_that_returns_a_recording(folder, capsys):
    """It is called with its arguments, and drawn with what was recorded."""
    out, err = run(capsys, "render", "recorded_steps:step", "--set", "size=6", "-o", "a.dot")
    assert (out, err) == ("a.dot\n", "")
    text = (folder / "a.dot").read_text()
    assert "backward" in text and "6 → 2" in text


@pytest.mark.parametrize(
    ("target", "asked", "named"),
    [
        ("recorded_steps:step", ["--set", "size=6", "--stats"], "--stats has"),
        ("recorded_steps:step", ["--shape", "1,4", "--backward"], "--shape, --backward have"),
        ("recorded_steps:step", ["--seed", "0", "--no-grad"], "--no-grad has"),
        ("run.json", ["--set", "size=6", "--shape", "1,4"], "--set, --shape have"),
        ("run.json", ["--backward", "--repeat", "3"], "--backward, --repeat have"),
        ("run.json", ["--as-is", "--seed", "0"], "--as-is, --seed have"),
        ("run.json", ["--eval"], "--eval has"),
        ("run.json", ["--train", "--no-grad"], "--train, --no-grad have"),
    ],
)
def test_flags_without_effect(capsys, target, asked, named):
    """A warning names those that only apply to what is still to be run."""
    _, err = run(capsys, "summary", target, *asked)
    assert f"{target} is a recording: {named} no effect on it" in err


def test_what_numbers_need_was_not_given(capsys):
    """No warning says that a flag has no effect which only the number asks for."""
    out, err = run(capsys, "top", "recorded_steps:step", "--by", "backward_time")
    assert "backward" in out.casefold() and err == ""


@pytest.mark.parametrize(("given", "taken"), [("inductor", "inductor"), (False, True)])
def test_numbers_leave_what_was_given(monkeypatch, given, taken):
    """A number that needs ``compiled`` is measured by ``--compiled inductor`` too."""
    options = []
    monkeypatch.setattr(targets, "_recorded", lambda *found: options.append(found[-1]))
    target = targets.Target("the layer", as_is=True, compiled=given)
    targets.measuring(target, [by_name("breaks")]).record(lambda: nn.ReLU(), Progress())
    assert options == [{"compiled": taken}]


@pytest.mark.parametrize(("given", "named"), [({}, ""), ({"train": "yes"}, "--train has")])
def test_defaults_of_documents_are_not_told(given, named):
    """A directive without options has nothing that is without an effect."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        directive_options.target("run.json", given).recording(Progress())
    told = [str(warning.message) for warning in found]
    assert told == ([f"run.json is a recording: {named} no effect on it"] if named else [])


def test_a_saved_program_of_torch_export(folder, capsys, monkeypatch):
    """It has inputs of its own, and takes others; so does one in a module."""
    program = torch.export.export(nn.Sequential(nn.Linear(4, 2)), (torch.ones(3, 4),))
    torch.export.save(program, folder / "model.pt2")
    (folder / "programs.py").write_text("import torch\nit = torch.export.load('model.pt2')\n")
    for path in ("model.pt2", "programs.py:it"):
        out, err = run(capsys, "summary", path)
        assert "Sequential     3×4    3×2" in out and err == ""
        drawn = run(capsys, "render", path, "--shape", "3,4", "--color-by", "time", "-o", "a.dot")
        assert drawn == ("a.dot\n", "")
    assert main(["summary", "other.pt2"]) == 2
    assert "there is no file 'other.pt2'" in capsys.readouterr().err


def test_arguments_for_what_is_made_already(folder, capsys):
    """There is no function to give them to."""
    (folder / "made_already.py").write_text("import torch\nnet = torch.nn.Linear(4, 2)\n")
    asked = ("--shape", "1,4", "--set", "size=6", "--arg", "3")
    _, err = run(capsys, "summary", "made_already.py:net", *asked)
    said = "made_already.py:net is a module: --arg, --set have no effect on it"
    assert err == f"torchrecorder: warning: {said}\n"
    program = torch.export.export(nn.Sequential(nn.Linear(4, 2)), (torch.ones(3, 4),))
    torch.export.save(program, folder / "model.pt2")
    _, err = run(capsys, "summary", "model.pt2", "--eval")
    assert "model.pt2 is an exported program: --eval has no effect on it" in err
