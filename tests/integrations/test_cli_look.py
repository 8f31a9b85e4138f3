"""The command line: pages, pictures in the browser, rankings, figures of comparisons."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest
import torch

import torchrecorder
from tests.graph.test_consistency import changed
from tests.integrations.test_cli import folder, run
from torchrecorder.annotations import ANNOTATIONS
from torchrecorder.annotations.annotation import DEVICE, INDUCTOR, JOINED, PROCESSES
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.testing import Builder

__all__ = ["folder"]  # a fixture that all tests here use

NET = ("cli_nets:Net", "--shape", "2,4")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the browser was asked to open."""
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: not asked.append(url))
    return asked


def test_html(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page, named after the model."""
    assert run(capsys, "html", *NET)[:2] == (0, "Net.html\n")
    assert "<html" in (folder / "Net.html").read_text()


def test_open_shows_a_page(capsys: pytest.CaptureFixture[str], opened: list[str]) -> None:
    """In a folder of its own if no file is named."""
    code, out, err = run(capsys, "open", *NET)
    assert (code, err) == (0, "") and opened == [Path(out.strip()).as_uri()]
    assert out.endswith("Net.html\n")


def test_open_a_file(folder: Path, capsys: pytest.CaptureFixture[str], opened: list[str]) -> None:
    """Another suffix, another format; the file is where it was asked for."""
    assert run(capsys, "open", *NET, "-o", "a.svg", "--depth", "0")[0] == 0
    assert opened == [(folder / "a.svg").resolve().as_uri()]
    assert "relu" not in (folder / "a.svg").read_text()


def test_open_without_a_browser(capsys: pytest.CaptureFixture[str], opened: list[str]) -> None:
    """It is written, and its path said."""
    code, out, _ = run(capsys, "open", *NET, "--format", "svg", "--no-browser")
    assert code == 0 and Path(out.strip()).read_text().startswith("<") and opened == []


def test_no_browser_is_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then that is said; the file is there all the same."""
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    code, out, err = run(capsys, "open", *NET, "--format", ".svg")
    assert code == 0 and "no browser was found" in err and Path(out.strip()).exists()


def test_show(tmp_path: Path, opened: list[str]) -> None:
    """A recording opens itself."""
    recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))
    written = recording.show(tmp_path / "a.svg", theme="dark")
    assert opened == [written.as_uri()]
    recording.show(tmp_path / "a.svg", browser=False)
    assert len(opened) == 1


OTHERS = {DEVICE, INDUCTOR, JOINED, PROCESSES}
ELSEWHERE = {each.name for each in ANNOTATIONS if OTHERS & {*each.needs}}
"""What a run of one process on a CPU, without a compiler, does not have."""

NONE = {"buffer_bytes", "random_draws"}
"""Numbers of what the model has none of."""


@pytest.mark.parametrize(
    "by", sorted({each.name for each in ANNOTATIONS} - ELSEWHERE - NONE)
)
def test_top_measures_what_it_needs(capsys: pytest.CaptureFixture[str], by: str) -> None:
    """No other option is needed for a ranking."""
    code, out, err = run(capsys, "top", *NET, "--by", by, "-n", "2")
    if by == "saved_bytes" and not SAVED_TENSORS.present:
        assert code == 2 and "--saved has no effect" in err
    else:
        assert (code, err) == (0, "") and 3 <= len(out.splitlines()) <= 4


def test_top_of_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """Largest first, with shares of the whole."""
    lines = run(capsys, "top", *NET, "--by", "parameters")[1].splitlines()
    assert lines[0].split() == ["Params", "Share", "Where", "What"]
    assert [line.split() for line in lines[2:]] == [
        ["40", "59.7", "%", "body", "Linear"],
        ["27", "40.3", "%", "head", "Linear"],
    ]


def test_top_of_a_module_that_runs_twice(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed once, with the number of its calls."""
    layer = torch.nn.Linear(4, 4)
    torchrecorder.record(torch.nn.Sequential(layer, layer), torch.ones(2, 4)).save("twice.json")
    lines = run(capsys, "top", "twice.json", "--by", "parameters")[1].splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["20", "100.0", "%", "0", "Linear,", "2", "calls"],
    ]


def test_top_of_ops_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """For programs: names, numbers, ids."""
    arguments = ("--by", "flops", "--of", "op", "--json")
    found = json.loads(run(capsys, "top", *NET, *arguments)[1])
    assert [(each["name"], each["flops"]) for each in found] == [
        ("body: linear", 128),
        ("head: linear", 96),
    ]


def test_top_of_ops(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with the line that called it, if one did."""
    lines = run(capsys, "top", *NET, "--by", "flops", "--of", "op")[1].splitlines()
    assert [line.split()[-3:] for line in lines[2:]] == [
        ["body:", "linear", "cli_nets.py:11"], ["head:", "linear", "cli_nets.py:11"],
    ]
    alone = Builder("Net")
    alone.op("sin", alone.input("x"))
    recording = changed(alone.recording(), "ops", "o0", source=None)
    recording.save("alone.json")
    line = run(capsys, "top", "alone.json", "--by", "output_bytes", "--of", "op")[1].splitlines()[2]
    assert line.split()[-1] == "sin"


def test_top_of_what_nothing_has(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no list without a line."""
    empty = Builder("Net")
    empty.op("sin", empty.input("x"))
    empty.recording().save("empty.json")
    code, out, err = run(capsys, "top", "empty.json", "--by", "output_bytes")
    assert (code, out) == (2, "") and "no module has a number for 'output_bytes'" in err


def test_top_of_a_saved_recording(capsys: pytest.CaptureFixture[str]) -> None:
    """What it does not know it cannot rank; it says what it knows."""
    run(capsys, "render", *NET, "-o", "run.json.gz")
    assert "body" in run(capsys, "top", "run.json.gz", "--by", "parameters")[1]
    code, _, err = run(capsys, "top", "run.json.gz", "--by", "backward_time")
    said = "has no 'backward_time': recording with --backward of tensors that require grad measures"
    assert code == 2 and said in err


def test_times_of_several_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """--repeat is a number of runs."""
    assert run(capsys, "top", *NET, "--repeat", "3")[0] == 0


def test_comparison_as_figure_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both laid over each other; the changes; and the text as ever."""
    asked = ("--then", "classes=5", "-o", "a.svg", "-o", "a.json", "-o", "b.dot")
    code, out, _ = run(capsys, "compare", "cli_nets:Net", *NET, *asked)
    assert code == 0 and "head" in out
    changes = json.loads((folder / "a.json").read_text())
    assert changes["format"] == "torchrecorder comparison" and changes["changes"]
    assert "<svg" in (folder / "a.svg").read_text()
    assert "head" in (folder / "b.dot").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("open cli_nets:raises --format swg", "did you mean '.svg'"),
        ("open cli_nets:raises -o no/a.svg", "no folder 'no'"),
        ("top cli_nets:raises --by flop", "did you mean 'flops'"),
        ("top cli_nets:raises -n -1", "-n must be 0 or more"),
        ("top cli_nets:Net --shape 2,4 --by flops --of grad",
         "'flops' has no numbers by 'grad', only by 'module', 'scope', 'op', 'type'"),
        ("compare cli_nets:raises cli_nets:raises -o a.swg", "did you mean '.svg'"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    """Found before the model is made where they can be; one sentence, exit code 2."""
    code, _, err = run(capsys, *arguments.split())
    assert code == 2 and said in err and "Traceback" not in err
