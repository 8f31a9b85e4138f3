"""What help and guide state about the command line holds."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import pytest

from torchrecorder.integrations.cli import main, parser, parted
from torchrecorder.integrations.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guide" / "command-line.md").read_text()


def _examples() -> list[str]:
    """The lines that a reader may type, from docstrings and from the page."""
    texts = [inspect.getdoc(type(command)) or "" for command in COMMANDS]
    pages = PAGE + (ROOT / "README.md").read_text()
    texts += re.findall(r"```bash\n(.*?)```", pages, flags=re.S)
    found = re.findall(r"^ *(torchrecorder .*)$", "\n".join(texts), flags=re.M)
    found += re.findall(r"\$\((torchrecorder .*?)\)", "\n".join(texts))
    return sorted({re.split(r" >| \||  +#", line)[0] for line in found})


@pytest.mark.parametrize("line", _examples())
def test_examples_can_be_typed(line: str) -> None:
    """Their commands and options are there."""
    own, _ = parted(shlex.split(line)[1:])
    assert parser().parse_args(own).run is not None


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_is_explained(command, capsys: pytest.CaptureFixture[str]) -> None:
    """In the page; in a help text with examples, if it takes anything; in one line each."""
    assert f"torchrecorder {command.name}" in PAGE
    with pytest.raises(SystemExit) as left:
        main([command.name, "--help"])
    said = capsys.readouterr().out
    assert left.value.code == 0 and said.startswith(f"usage: torchrecorder {command.name}")
    assert command.name == "doctor" or "examples:" in said


def test_what_the_page_prints() -> None:
    """Each command whose output it shows is there, and asks for help."""
    shown = re.findall(r"```\{console\} (.*)", PAGE)
    assert "--help" in shown and len(shown) > 5
    names = {command.name for command in COMMANDS}
    for line in shown:
        name, _, rest = line.rpartition(" ")
        assert rest == "--help" and name in {"", *names}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("rendr nets:Net", "'render'?"),
        ("render nets:Net --depth x",
         "--depth: it must be a whole number of at least 0 or 'ops', not 'x'"),
        ("render nets:Net --fontsize big", "a number of points above 0, at most 1,000,000"),
        ("render nets:Net --bakground red", "did you mean '--background'?"),
        ("render nets:Net --min_fontsize 3", "did you mean '--min-fontsize'?"),
        ("render nets:Net --dept 2", "render: error: it does not take --dept 2; did you mean"),
        ("render nets:Net --direction tb", "did you mean 'TB'?"),
        ("render nets:Net --theme pink", "--theme: it must be 'light', 'dark' or 'print'"),
        ("render nets:Net --fold maybe", "--fold: it must be yes, no or 'similar', not 'maybe'"),
        ("render nets:Net --color-range 3", "it must be two numbers, the smaller one first"),
        ("render nets:Net --rename Linear", "cannot read 'Linear': write NAME=TEXT"),
        ("render nets:Net --group A=", "cannot read 'A=': write NAME=TEXT"),
        ("render nets:Net --set 2", "cannot read '2': write NAME=VALUE"),
        ("render nets:Net --shape 2,y", "cannot read the shape '2,y'"),
        ("top nets:Net --repeat 0", "--repeat: it must be a whole number of at least 1, not 0"),
        ("open nets:Net more", "open: error: it does not take more; see torchrecorder open --help"),
        ("run train.py --epochs 2", "arguments of the script after --: train.py -- --epochs 2"),
        ("run -m train --epochs=2", "arguments of the script after --: -m train -- --epochs=2"),
        ("plan nets:Net --mesh dp=2 --shape 2,8", "--shape 2,8: the factory makes the inputs"),
        ("plan nets:Net --mesh dp=2 --inputs=a:b", "--inputs=a:b: the factory makes the inputs"),
        ("completion bsh", "'bash'?"),
        ("", "see torchrecorder --help"),
    ],
)
def test_mistyped_lines(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What was probably meant (Python 3.15 has words of its own), and where the rest is listed."""
    with pytest.raises(SystemExit) as left:
        main(line.split())
    assert left.value.code == 2 and said in capsys.readouterr().err


def test_a_failure_in_no_line_of_the_user_names_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What called the command line is not where the model failed."""
    (tmp_path / "plain.py").write_text("from torch import nn\nnet = nn.Linear(4, 2)\n")
    assert main(["summary", f"{tmp_path / 'plain.py'}:net", "--shape", "1,5"]) == 1
    said = capsys.readouterr().err
    assert "while running `Linear` (Linear), op `linear`, inputs" in said


def test_a_recording_has_no_use_for_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so, unless they are meant for the model that it is compared with."""
    (tmp_path / "plain.py").write_text("from torch import nn\nnet = nn.Linear(4, 2)\n")
    net, run = f"{tmp_path / 'plain.py'}:net", str(tmp_path / "run.json")
    assert main(["render", net, "--shape", "1,4", "-o", run]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["summary", run, "--shape", "1,4"]) == 0
    assert "run.json is a recording" in capsys.readouterr().err
    assert main(["compare", run, net, "--shape", "1,4"]) == 0
    assert main(["compare", net, run, "--shape", "1,4"]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["compare", run, run, "--limit", "-4"]) == 2
    assert "--limit must be a whole number of at least 0" in capsys.readouterr().err
