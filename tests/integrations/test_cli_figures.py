"""The command line: figures by flags, what they measure, standard output, and pages to serve."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchrecorder
from tests.integrations.test_cli import folder, run
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.integrations.cli import parser
from torchrecorder.integrations.flags import in_shell
from torchrecorder.integrations.targets import TARGET_OPTIONS
from torchrecorder.options import OPTIONS

__all__ = ["folder"]  # a fixture that all tests here use

NET = ("cli_nets:Net", "--shape", "2,4")

SAVED = "saved_bytes" if SAVED_TENSORS.present else "backward_time"
"""A number that needs a backward pass, in any version of PyTorch."""


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_every_option_that_text_can_express_is_a_flag(name: str) -> None:
    """A switch turns off what is on, or on what is off."""
    option = OPTIONS[name]
    render = next(one for one in parser()._actions if one.dest == "==SUPPRESS==" or one.choices)
    flags = render.choices["render"]._option_string_actions  # type: ignore[index, union-attr]
    offers = {flag for flag in (f"--{option.spelled}", option.negated[0]) if flag in flags}
    if option.check.read is None:
        assert not offers
    elif option.check.switch and option.default is not False:
        assert option.negated[0] in offers
    else:
        assert f"--{option.spelled}" in offers


def test_flags_reach_the_figure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that take several names add up, in one flag or in several."""
    asked = ("--hide", "relu", "--hide", "x", "--no-counts", "--color-by", "parameters",
             "--background", "steelblue", "--node-attributes", "penwidth=3")
    assert run(capsys, "render", *NET, "-o", "a.svg", "-o", "a.dot", *asked)[::2] == (0, "")
    text = (folder / "a.svg").read_text()
    assert ">relu<" not in text and ">x<" not in text and "body" in text
    assert "40 params" not in text and "#4682b4" in text
    assert "penwidth=\"3\"" in (folder / "a.dot").read_text()
    run(capsys, "render", *NET, "-o", "b.dot", "--focus", "head")
    assert "head" in (folder / "b.dot").read_text()
    assert "body" not in (folder / "b.dot").read_text()
    run(capsys, "render", *NET, "--backward", "-o", "c.dot", "--view", "backward")
    assert "AddmmBackward0" in (folder / "c.dot").read_text()


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        (("--numbers", "flops,zeros"), {"flops", "zeros"}),
        (("--color-by", "backward_time"), {"backward_time"}),
        (("--numbers", SAVED, "--color-by", "gradient_norm"), {SAVED, "gradient_norm"}),
        ((), set()),
    ],
)
def test_a_figure_measures_what_it_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], measured: set[str]
) -> None:
    """And no more."""
    asked = (*NET, "-o", "a.svg", "-o", "run.json", *asked)
    assert run(capsys, "render", *asked)[::2] == (0, "")
    names = {"flops", "zeros", "backward_time", "gradient_norm", SAVED}
    assert {*torchrecorder.load("run.json").annotations} & names >= measured
    if not measured:
        assert not {*torchrecorder.load("run.json").annotations} & names


def test_a_table_measures_what_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are numbers too."""
    code, out, err = run(capsys, "summary", *NET, "--column", "flops")
    assert (code, err) == (0, "") and "128" in out


def test_a_script_measures_what_its_figure_shows(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a recorder can measure; the backward pass is the script's."""
    (folder / "train.py").write_text("import torch, cli_nets\ncli_nets.Net()(torch.ones(2, 4))\n")
    asked = ("--numbers", "flops", "-o", "run.json")
    assert run(capsys, "run", "train.py", *asked)[0] == 0
    assert torchrecorder.load("run.json").annotations["flops"].total() > 0


@pytest.mark.parametrize(
    ("command", "format", "start"),
    [("render", None, b"<?xml"), ("render", "png", b"\x89PNG"), ("html", None, b"<!doctype html")],
)
def test_standard_output(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes], command: str, format: str | None,
    start: bytes,
) -> None:
    """It has the figure and nothing else; paths of other files go to stderr."""
    from torchrecorder.integrations.cli import main

    more = ["--format", format] if format else []
    assert main([command, *NET, "-o", "-", "-o", "a.dot", *more]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(start) and b"a.dot" not in out
    assert err == b"a.dot\n" and not (folder / "-").exists()


def test_standard_output_that_has_other_text(capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison prints its list there, a script what it likes."""
    code, _, err = run(capsys, "compare", NET[0], *NET, "-o", "-")
    assert code == 2 and "standard output has other text" in err


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("depth must be a whole number of at least 0 or 'ops' or None, not -1",
         "--depth must be a whole number of at least 0 or 'ops', not -1"),
        ("this has no 'flops': record(..., flops=True, stats=True) measures it",
         "this has no 'flops': recording with --flops, --stats measures it"),
        ("say less (shapes=False, rename=), layout=\"nested\"",
         "say less (--no-shapes, --rename), --layout nested"),
        ("min_fontsize must be small", "--min-fontsize must be small"),
        ("name a script, or a module", "name a script, or a module"),
        ("smaller than min_fontsize, 5 pt", "smaller than --min-fontsize, 5 pt"),
        ("no number is called 'color_by'", "no number is called 'color_by'"),
        ("hide: no name matches 'x'", "--hide: no name matches 'x'"),
        ("the name of a view is no name=here", "the name of a view is no name=here"),
    ],
)
def test_messages_name_flags(message: str, said: str) -> None:
    """Nobody at a shell reads how Python would write it."""
    assert in_shell(message, {**TARGET_OPTIONS, **OPTIONS}) == said


@contextlib.contextmanager
def served(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address that ``torchrecorder serve`` prints, and the process."""
    command = [sys.executable, "-m", "torchrecorder", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # else a background
    )  # job of a shell, which these tests may be, ignores Ctrl-C
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def test_serve(folder: Path) -> None:
    """The page, at an address of this machine that nobody guesses, until Ctrl-C."""
    with served(*NET, "--theme", "dark") as (address, process):
        assert address.startswith("http://127.0.0.1:") and len(address.split("/")[3]) > 12
        with urllib.request.urlopen(address) as answer:
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert b"<!doctype html" in answer.read()
        for other in (address + "x", address.rpartition("/")[0].rpartition("/")[0] + "/"):
            with pytest.raises(urllib.error.HTTPError, match="404") as raised:
                urllib.request.urlopen(other)
            raised.value.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """It is said before the model is made, and which port would do."""
    with served(*NET) as (address, _):
        port = address.split(":")[2].split("/")[0]
        code, _, err = run(capsys, "serve", "cli_nets:raises", "--port", port)
    assert code == 2 and "--port 0 takes a free one" in err and f"port {port} of 127.0.0.1" in err
