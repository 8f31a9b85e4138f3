"""The command line: what it takes, what it writes, how it ends."""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from tests.views.test_similar import stages
from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations import progress
from torchrecorder.integrations.cli import main
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.shapes import InputShape, parse_shape, tensors
from torchrecorder.integrations.targets import TARGET_OPTIONS

NETS = '''
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=3, *, bias=True):
        super().__init__()
        self.body = nn.Linear(4, 8, bias=bias)
        self.head = nn.Linear(8, classes)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1001, 4)
    def forward(self, ids, scale=None):
        found = self.table(ids)
        return found if scale is None else found * scale

class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(4, 8)
    def forward(self, x):
        return self.second(self.first(x))

ready = nn.Dropout()
batch = {"ids": torch.zeros(1, 5, dtype=torch.long)}
def make_batch():
    return (torch.ones(2, 4),)
def with_inputs():
    return Net(), torch.ones(2, 4)
def raises():
    raise KeyError("no such checkpoint")
def leaves():
    raise SystemExit(0)
def function(x, y):
    return (x * y).sum()
number = 3
'''


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a file of models, and nothing of it left behind."""
    (tmp_path / "cli_nets.py").write_text(NETS)
    (tmp_path / "cli_broken.py").write_text("import a_module_that_is_not_there")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("cli_nets", "cli_broken"):
        sys.modules.pop(name, None)


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_render_writes_what_it_names(folder, capsys):
    """One call, several files, their paths on stdout and nothing on stderr."""
    code, out, err = run(
        capsys, "render", "cli_nets:Net", "--shape", "2,4", "-o", "a.svg", "-o", "b.dot"
    )
    assert (code, out, err) == (0, "a.svg\nb.dot\n", "")
    assert "relu" in (folder / "a.svg").read_text()
    assert (folder / "b.dot").read_text().startswith("digraph")


def test_render_without_a_name_takes_the_class(folder, capsys):
    """The figure is called as the model is."""
    assert run(capsys, "render", "cli_nets:Net", "--shape", "2,4")[:2] == (0, "Net.svg\n")


def test_options_of_the_drawing(folder, capsys):
    """What is asked for reaches the figure; an option without a flag too."""
    asked = ["--direction", "LR", "--theme", "dark", "--legend", "--option", "shapes=False"]
    assert run(capsys, "render", "cli_nets:Net", "--shape", "2,4", "-o", "a.dot", *asked)[0] == 0
    text = (folder / "a.dot").read_text()
    assert 'rankdir="LR"' in text and "legend" in text and 'label=" 2×8' not in text
    run(capsys, "render", "cli_nets:Net", "--shape", "2,4", "-o", "a.dot", "--depth", "0")
    assert "relu" not in (folder / "a.dot").read_text()


def test_folding_of_what_differs(folder, capsys):
    """In figures and in the table; beside it the switch that turns folding off."""
    stages(1, 2).save("stages.json")
    for asked, counted in ((["--fold", "similar"], 1), (["--no-fold"], 0), ([], 0)):
        assert run(capsys, "render", "stages.json", "-o", "a.dot", "--depth", "1", *asked)[0] == 0
        assert (folder / "a.dot").read_text().count("Sequential  ×2") == counted
    assert "channels 16, 32" in run(capsys, "summary", "stages.json", "--fold", "similar")[1]
    assert "channels 16, 32" not in run(capsys, "summary", "stages.json", "--fold")[1]


def test_resolution_goes_where_it_fits(folder, capsys):
    """--dpi with a figure that has none is no error when another has."""
    arguments = ["--shape", "2,4", "-o", "a.png", "-o", "a.svg", "--dpi"]
    sizes = []
    for dpi in ("72", "144"):
        assert run(capsys, "render", "cli_nets:Net", *arguments, dpi)[0] == 0
        sizes.append(int.from_bytes((folder / "a.png").read_bytes()[16:20], "big"))
    assert abs(sizes[1] - 2 * sizes[0]) <= 2


def test_options_of_other_formats(capsys):
    """They have no effect, and a warning says so."""
    asked = ["--shape", "2,4", "-o", "a.svg", "-o", "b.dot", "--indent", "2", "--timeout", "9"]
    code, _, err = run(capsys, "render", "cli_nets:Net", *asked)
    assert (code, err) == (0, "torchrecorder: warning: --indent has no effect on .svg, .dot\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("cli_nets:Net", "--arg", "5", "--set", "bias=False", "--shape", "2,4"),
        ("cli_nets.py:Net", "--shape", "x=2,4"),
        ("cli_nets:with_inputs",),
        ("cli_nets:Net", "--inputs", "cli_nets:make_batch"),
        ("cli_nets:Text", "--inputs", "cli_nets:batch"),
        ("cli_nets:Text", "--shape", "1,16:int64:0-1000", "--shape", "scale=scalar"),
        ("cli_nets:ready", "--shape", "2,4", "--eval"),
        ("cli_nets:function", "--as-is", "--shape", "x=2,3", "--shape", "y=2,3"),
        ("cli_nets:Net", "--shape", "2,4", "--device", "meta"),
        ("cli_nets:Net", "--shape", "2,4", "--fake"),
        ("cli_nets:Net", "--shape", "2,4", "--no-grad", "--name", "again"),
        ("cli_nets:Net", "--shape", "2,4", "--backward", "--seed", "1", "--train"),
    ],
)
def test_targets(capsys, arguments):
    """Classes, factories, objects and functions; inputs of every kind."""
    code, out, err = run(capsys, "summary", *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Scope") and "Total params" in out


def test_factory_gets_its_arguments(capsys):
    """Positional and keyword arguments reach the constructor as Python values."""
    table = run(capsys, "summary", "cli_nets:Net", "--set", "classes=7", "--shape", "2,4")[1]
    assert "2×7" in table
    table = run(capsys, "summary", "cli_nets:Net", "--set", "bias=False", "--shape", "2,4")[1]
    assert "Total params             59" in table


def test_saved_recording_needs_no_model(folder, capsys):
    """A run that was saved is drawn and listed as the model would be."""
    run(capsys, "render", "cli_nets:Net", "--shape", "2,4", "-o", "run.json.gz", "-o", "a.dot")
    (folder / "cli_nets.py").unlink()
    assert run(capsys, "render", "run.json.gz", "-o", "b.dot")[0] == 0
    assert (folder / "a.dot").read_text() == (folder / "b.dot").read_text()
    assert "body (Linear)" in run(capsys, "summary", "run.json.gz")[1]


def test_summary_columns(capsys):
    """The columns that are asked for, in that order, one by one or as a list."""
    for columns in (["parameters", "--column", "input"], ["parameters,input"]):
        asked = ["--shape", "2,4", "--ops", "--depth", "1", "--column", *columns]
        head = run(capsys, "summary", "cli_nets:Net", *asked)[1].splitlines()[0]
        assert head.split() == ["Scope", "Params", "Input"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ("render cli_nets", 2, "package.module:name, file.py:name"),
        ("render cli_nets:Nett --shape 2,4", 2, "has no 'Nett'; it has 'Net', 'Text', 'Wrong'"),
        ("render cli_nets:zzz", 2, "it has 'Net', 'Text', 'Wrong'"),
        ("render nowhere:Net", 2, "no module 'nowhere'"),
        ("render nowhere.py:Net", 2, "no file 'nowhere.py'"),
        ("render cli_broken:Net", 1, "importing cli_broken raised ModuleNotFoundError"),
        ("render cli_nets:number", 2, "type int"),
        ("render cli_nets:function", 2, "--as-is"),
        ("render cli_nets:make_batch", 2, "type tuple, which is neither a model nor a recording"),
        ("render cli_nets:Net --set clases=2", 2, "unexpected keyword argument 'clases'"),
        ("render cli_nets:raises", 1, "KeyError: 'no such checkpoint'"),
        ("render cli_nets:leaves", 1, "raised SystemExit: 0"),
        ("render cli_nets:Net", 2, "--shape 1,3,224,224"),
        ("render cli_nets:Net --shape 2,4:int65", 2, "'int65' is not a dtype"),
        ("render cli_nets:Net --shape 2,4 --device moon", 2, "device 'moon'"),
        ("render cli_nets:Net --shape 2,4 -o a.swg", 2, "did you mean '.svg'"),
        ("render cli_nets:Net --shape 2,4 -o no/a.svg", 2, "no folder 'no'"),
        ("render cli_nets:Net --shape 2,4 --color-by flop", 2, "did you mean 'flops'"),
        ("render cli_nets:Net --shape 2,4 --numbers flops,zero", 2, "did you mean 'zeros'"),
        ("render cli_nets:Net --shape 2,5,4 --rename a=b --width 3", 2, "--width must be a length"),
        ("render cli_nets:Net --shape 2,4 --option dept=1", 2, "did you mean 'depth'"),
        ("summary missing.json", 2, "there is no file 'missing.json'"),
        ("summary cli_nets:Net --shape 2,4 --column flop", 2, "flops"),
    ],
)
def test_mistakes(capsys, arguments, code, said):
    """Each mistake ends in one sentence and its exit code, without a traceback."""
    got, out, err = run(capsys, *arguments.split())
    assert (got, out) == (code, "")
    assert err.startswith("torchrecorder: error: ") and said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["-o", "a.swg"], ".swg"),
        (["-o", "no/a.svg"], "no folder 'no'"),
        (["-o", "."], "Known: .svg"),
        (["--fold", "--width", "3"], "--width must be a length with its unit"),
        (["--option", "zz=1"], "unknown option 'zz'. Known options: "),
    ],
)
def test_mistakes_about_the_drawing_are_found_before_the_model_is_made(capsys, wrong, said):
    """Nobody waits for a model to learn that its figure cannot be written."""
    code, _, err = run(capsys, "render", "cli_nets:raises", *wrong)
    assert code == 2 and said in err and "checkpoint" not in err


def test_the_name_of_a_recording_is_no_path(folder, capsys):
    """A recording named like a path is written into this folder, under a name that fits."""
    asked = ["cli_nets:Net", "--shape", "2,4", "--name", "../out/side", "-o", "run.json"]
    run(capsys, "render", *asked)
    code, out, _ = run(capsys, "render", "run.json")
    assert (code, out) == (0, ".._out_side.svg\n")
    assert (folder / ".._out_side.svg").exists()


def test_a_model_that_raises_is_drawn_until_then(folder, capsys, monkeypatch):
    """The user's error with its place, exit code 1, and a figure of what ran."""
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(RuntimeError) as plain:
        importlib.import_module("cli_nets").Wrong()(torch.ones(2, 4))
    code, out, err = run(capsys, "render", "cli_nets:Wrong", "--shape", "2,4", "-o", "a.svg")
    assert (code, out) == (1, "")
    assert "the run until the failure is drawn in a.svg" in err
    assert f"RuntimeError: {plain.value}" in err and "while running `second`" in err
    assert "first" in (folder / "a.svg").read_text()


def test_traceback_on_demand(capsys):
    """--traceback shows the line of the user's code."""
    code, _, err = run(
        capsys, "summary", "cli_nets:Wrong", "--shape", "2,4", "--traceback"
    )
    assert code == 1 and "Traceback" in err and "return self.second(self.first(x))" in err


def test_usage_errors_are_argparse_ones(capsys):
    """An unknown command or flag exits with 2."""
    for arguments in (["draw", "x:y"], ["render", "x:y", "--dept", "1"], []):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "usage: torchrecorder" in capsys.readouterr().err


def test_help_and_version_do_not_import_torch(folder):
    """They are quick, and work where torch does not."""
    (folder / "torch.py").write_text("raise SystemError('imported')")
    for arguments, said in (["--version"], "torchrecorder "), (["render", "--help"], "examples:"):
        command = [sys.executable, "-m", "torchrecorder", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        assert said in done.stdout and done.stderr == ""


def test_usage_names_what_is_needed(capsys):
    """The first line of a command's help has its arguments in order."""
    with pytest.raises(SystemExit):
        main(["render", "--help"])
    assert capsys.readouterr().out.startswith("usage: torchrecorder render TARGET [options]")


def test_output_may_be_cut_off(folder):
    """A reader that has enough (head, less) is no error."""
    code = textwrap.dedent(
        """
        import os, sys
        from torchrecorder.integrations.cli import main
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        sys.exit(main(["summary", "cli_nets:Net", "--shape", "2,4"]))
        """
    )
    command = [sys.executable, "-W", "ignore", "-c", code]  # PyTorch warns where numpy is missing
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1,3,224,224", InputShape(None, (1, 3, 224, 224))),
        ("(1, 3)", InputShape(None, (1, 3))),
        ("5", InputShape(None, (5,))),
        ("(5,)", InputShape(None, (5,))),
        ("1x16:torch.int64", InputShape(None, (1, 16), "int64")),
        ("scalar:bool", InputShape(None, (), "bool")),
        ("x_1=2,0:float16:-1..1.5", InputShape("x_1", (2, 0), "float16", -1.0, 1.5)),
    ],
)
def test_shapes_are_read(text, shape):
    """Sizes, a type, a range, a name."""
    read = parse_shape(text)
    assert (read.name, read.sizes, read.low, read.high) == (
        shape.name,
        shape.sizes,
        shape.low,
        shape.high,
    )
    assert (read.dtype or "").removeprefix("torch.") == (shape.dtype or "")


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-1,2", "1,2:", "1,2:int64:5-1", "1=2,3"])
def test_shapes_that_mean_nothing(text):
    """What cannot be read is refused."""
    with pytest.raises(InvalidArgument):
        parse_shape(text)


def test_tensors_keep_to_type_and_range():
    """Types and bounds as asked, the same numbers each time, no random state touched."""
    import torch

    before = torch.get_rng_state()
    asked = [parse_shape("3,50:int64:5-7"), parse_shape("x=40:float64:-2..-1")]
    (whole,), named = tensors(asked, None, None)
    assert whole.dtype == torch.int64 and set(whole.flatten().tolist()) == {5, 6, 7}
    assert named["x"].dtype == torch.float64 and -2 <= named["x"].min() <= named["x"].max() <= -1
    assert torch.equal(tensors(asked, None, None)[0][0], whole)
    for model, device in ((torch.nn.Linear(2, 2, device="meta"), None), (None, "meta")):
        assert tensors(asked, model, device)[0][0].device.type == "meta"
    assert torch.equal(before, torch.get_rng_state())


def test_settings():
    """Values are Python literals where they can be, and else text."""
    texts = ["a=1", "b=(2, 3)", "c=gelu", "d=true", "e=a=b", "f=None", "g=1e-3"]
    read = TARGET_OPTIONS["set"].joined([TARGET_OPTIONS["set"].read(text) for text in texts])
    assert read == {
        "a": 1, "b": (2, 3), "c": "gelu", "d": True, "e": "a=b", "f": None, "g": 0.001
    }


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_progress_is_for_terminals_and_for_waiting(monkeypatch):
    """Nothing where it is quick, nothing in a pipe; else a line that is wiped away."""
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress, "_BEAT", 0.01)
    cases = ((Terminal(), 0.3, True), (Terminal(), 0, False), (io.StringIO(), 0.3, False))
    for stream, wait, shown in cases:
        with Progress(stream) as shower:
            shower.now("recording")
            time.sleep(wait)
        assert ("recording … 0 s" in stream.getvalue()) == shown
        assert not shown or stream.getvalue().endswith("\r\x1b[K")
