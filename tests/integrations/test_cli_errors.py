"""What the command line says when something goes wrong, and to whom."""

from __future__ import annotations

import argparse
import subprocess
import sys

import pytest
import torch
from torch import nn

from tests.integrations.test_cli import folder, run
from torchrecorder.integrations.commands.doctor import DoctorCommand
from torchrecorder.integrations.drawing_arguments import add_output_argument
from torchrecorder.integrations.sphinx.sources import Dependencies, behind, used
from torchrecorder.layout import engine

__all__ = ["folder"]  # a fixture for every test here


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "Net takes (x), but was given (): missing a required argument: 'x'"),
        (["--shape", "2,4", "--shape", "3"],
         "Net takes (x), but was given (Tensor, Tensor): too many positional arguments"),
    ],
)
def test_inputs_that_do_not_fit(given, said, capsys):
    """What the model takes, and how inputs are given here, not in Python."""
    code, _, err = run(capsys, "summary", "cli_nets:Net", *given)
    assert (code, err) == (2, (
        f"torchrecorder: error: {said}. Give inputs by --shape 1,3,224,224 or --inputs\n"
    ))


FAULTS = '''
from torch import nn
def __getattr__(name):
    raise ImportError(f"{name} needs another package")
class Fixed(nn.Linear):
    def to(self, *args):
        raise RuntimeError("cannot be moved")
    def train(self, mode=True):
        raise RuntimeError("cannot be switched")
def make():
    return Fixed(4, 2)
def inputs():
    raise ValueError("no data")
'''
FIXED = ["cli_faults:make", "--shape", "1,4"]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["cli_faults:Lazy"], 1, "importing cli_faults:Lazy raised ImportError: Lazy needs"),
        ([*FIXED, "--device", "cpu"], 1, "Fixed.to('cpu') raised RuntimeError: cannot be moved"),
        ([*FIXED, "--eval"], 1, "Fixed.train(False) raised RuntimeError: cannot be switched"),
        (["cli_faults:make", "--inputs", "cli_faults:inputs"], 1,
         "calling cli_faults:inputs raised ValueError: no data"),
        (["cli_nets:Net", "--shape", "9999999999,9999999"], 1, "making random inputs raised"),
        (["cli_nets:Net", "--shape", "2,4", "--inputs", "cli_nets:batch"], 2,
         "give either --shape or --inputs"),
        (["./cli_nets:Net"], 2, "'./cli_nets' is not the name of a module; that of a file ends in"),
    ],
)
def test_what_the_code_around_a_model_raises(folder, given, code, said, capsys):
    """One sentence, as for the model itself."""
    (folder / "cli_faults.py").write_text(FAULTS)
    try:
        found, _, err = run(capsys, "summary", *given)
    finally:
        sys.modules.pop("cli_faults", None)
    assert found == code and err.startswith(f"torchrecorder: error: {said}")


def test_seeds_that_pytorch_does_not_take(capsys):
    """They are refused before anything runs."""
    with pytest.raises(SystemExit):
        run(capsys, "summary", "cli_nets:Net", "--seed", str(2**64))
    assert "--seed: it must be a whole number from 0 to 2**64 - 1" in capsys.readouterr().err


def test_a_traceback_is_that_of_the_cause(capsys):
    """The model's error alone, of our errors all; without being asked for, none."""
    wrong = ["summary", "cli_nets:Wrong", "--shape", "2,4"]
    _, _, err = run(capsys, *wrong, "--traceback")
    assert err.count("Traceback") == 1 and "ModelFailed" not in err
    asked = ["summary", "cli_nets:Net", "--shape", "2,4:int65"]
    _, _, err = run(capsys, *asked, "--traceback")
    assert "Traceback" in err and "InvalidArgument: 'int65' is not a dtype" in err
    for arguments in (wrong, asked):
        assert "Traceback" not in run(capsys, *arguments)[2]


def test_doctor_lists_internals_where_all_is_well(capsys, monkeypatch):
    """What is broken comes first."""
    assert DoctorCommand().run(argparse.Namespace()) == 0
    assert "Internals of PyTorch" in capsys.readouterr().out
    monkeypatch.setattr(engine, "require", lambda: "/nowhere")
    assert DoctorCommand().run(argparse.Namespace()) == 1
    assert "Internals of PyTorch" not in capsys.readouterr().out


@pytest.mark.parametrize("format", ["", "svg"])
def test_standard_output_is_for_what_has_a_format(format):
    """Its help says so."""
    parser = argparse.ArgumentParser()
    add_output_argument(parser, format)
    text = " ".join(parser.format_help().split())
    assert ("- is standard output" in text) == bool(format)
    assert ("--format" in text) == bool(format)


def test_sources_of_a_model(folder, monkeypatch):
    """Its own files, those that they use, and installed packages by their name."""
    (folder / "far.py").write_text("import torch\nLIMIT = 3\n")
    (folder / "near.py").write_text(
        "import far\nfrom torch import nn\nclass Net(nn.Module):\n    pass\n"
    )
    monkeypatch.syspath_prepend(folder)
    import near  # type: ignore[import-not-found]

    files = tuple(str(folder / name) for name in ("far.py", "near.py"))
    try:
        found = behind("near:Net")
        assert found.files == files and "torch" in found.packages
        assert behind(f"{folder / 'near.py'}:Net") == found
        assert behind("elsewhere/near.py:Net") == Dependencies(("elsewhere/near.py",))
        assert behind("nowhere:Net") == Dependencies()
        assert used({"net": near.Net(), "torch": torch}) == found
        layer, plain = used({"layer": nn.Linear(2, 2)}), used({"one": 1, "nothing": None})
        assert layer.files == plain.files == () and "torch" in layer.packages
        before = found.state()
        assert found.state() == before == (found + Dependencies()).state()
        (folder / "far.py").write_text("import torch\nLIMIT = 4\n")
        assert found.state() != before != Dependencies(packages=("pytest",)).state()
    finally:
        for name in ("near", "far"):
            sys.modules.pop(name, None)


def test_sources_add_up():
    """Each once, in order."""
    one, other = Dependencies(("b", "a"), ("q",)), Dependencies(("a", "c"), ("p", "q"))
    assert one + other == Dependencies(("a", "b", "c"), ("p", "q"))


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [("", 0, ""), ("None", 0, ""), ("0", 0, ""), ("3", 3, ""), ("'no data'", 1, "no data")],
)
def test_a_script_ends_as_it_does_in_python(folder, given, code, said, capsys):
    """Its exit code, and what it says with it."""
    (folder / "job.py").write_text(
        f"import sys, torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\nsys.exit({given})\n"
    )
    found, _, err = run(capsys, "run", "job.py")
    assert found == code and (said in err if said else "Error" not in err)
    plain = subprocess.run([sys.executable, "job.py"], capture_output=True, text=True)
    assert plain.returncode == code and said in plain.stderr
