"""The command line, as somebody at a shell meets it."""

import os
import pty
import subprocess
import sys

import pytest

from torchrecorder.integrations import cli, targets

SHOP = '''
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2)

    def forward(self, x, mask=None):
        x = self.first(x)
        return self.second(x if mask is None else x * mask)


class Broken(Net):
    def forward(self, x):
        return self.second(x @ torch.ones(3, 3))


ready = Net()


def two():
    return 2
'''


@pytest.fixture(autouse=True)
def shop(tmp_path, monkeypatch):
    """A folder with a module of models, and the shell in it."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("shop", None)


def test_draws_a_class(shop, capsys):
    """A class is made with the given settings, run on the given shape, and drawn."""
    arguments = ["render", "shop:Net", "--set", "width=8", "--shape", "1,4", "-o", "net.svg"]
    assert cli.main([*arguments, "--depth", "1", "--theme", "print"]) == cli.OK
    assert capsys.readouterr().out == "net.svg\n"
    assert "4 → 8" in (shop / "net.svg").read_text()


def test_takes_a_file_and_names_the_figure_after_the_class(shop):
    """A path to a file is as good as a module, and the output has a default."""
    assert cli.main(["render", "shop.py:Net", "--shape", "1,4"]) == cli.OK
    assert (shop / "Net.svg").exists()


def test_takes_a_ready_model_and_named_inputs(capsys):
    """A model object needs no settings; inputs may have names and data types."""
    arguments = ["summary", "shop:ready", "--shape", "x=2,4", "--shape", "mask=2,4:bool"]
    assert cli.main(arguments) == cli.OK
    assert "Linear" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["render", "shop:Nett", "--shape", "1,4"], "did you mean 'Net'"),
        (["render", "nowhere:Net", "--shape", "1,4"], "no module 'nowhere'"),
        (["render", "shop.Net", "--shape", "1,4"], "package.module:name"),
        (["render", "lost.py:Net", "--shape", "1,4"], "no file lost.py"),
        (["render", "shop:two"], "gave no model but int"),
        (["render", "shop:ready", "--set", "width=3", "--shape", "1,4"], "takes no settings"),
        (["render", "shop:Net", "--set", "width", "--shape", "1,4"], "name=value"),
        (["render", "shop:Net", "--shape", "one,two"], "name=size"),
        (["render", "shop:Net", "--shape", "1,4:int7"], "no data type 'int7'"),
        (["render", "shop:Net"], "missing a required argument: 'x'"),
        (["render", "shop:Net", "--shape", "1,4", "-o", "net.swg"], "did you mean '.svg'"),
        (["render", "shop:Net", "--shape", "1,4", "-o", "no/net.svg"], "no folder no"),
        (["render", "shop:Net", "--shape", "1,4", "--theme", "blue"], "blue"),
    ],
)
def test_wrong_usage_is_one_line(arguments, says, capsys):
    """Wrong usage ends with status 2 and says what is possible, without a traceback."""
    assert cli.main(arguments) == cli.MISUSED
    told = capsys.readouterr().err
    assert says in told and "Traceback" not in told


def test_failing_model_says_where(capsys):
    """A model that raises ends with status 1, its own error, and where it happened."""
    assert cli.main(["render", "shop:Broken", "--shape", "1,4"]) == cli.MODEL_FAILED
    told = capsys.readouterr().err
    assert "RuntimeError" in told and "op `matmul`" in told and "shop.py:20" in told
    assert "Traceback" not in told


def test_traceback_on_request(capsys):
    """The whole traceback is there for who asks."""
    cli.main(["render", "shop:Broken", "--shape", "1,4", "--traceback"])
    assert "Traceback" in capsys.readouterr().err


def test_saved_recording_is_a_target(shop, capsys):
    """What was saved can be drawn where the model is not."""
    assert cli.main(["render", "shop:Net", "--shape", "1,4", "-o", "run.json"]) == cli.OK
    (shop / "shop.py").unlink()
    assert cli.main(["summary", "run.json"]) == cli.OK
    assert "Linear" in capsys.readouterr().out


def test_literals_and_text_as_settings():
    """Settings are Python literals where they can be, text where not."""
    assert targets.parse_setting("sizes=(1, 2)") == ("sizes", (1, 2))
    assert targets.parse_setting("act=relu") == ("act", "relu")


def test_module_runs_as_a_program(shop):
    """``python -m torchrecorder`` is the same command."""
    command = [sys.executable, "-m", "torchrecorder", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("torchrecorder ")


def test_progress_shows_on_a_terminal_only(monkeypatch):
    """A long task is announced on a terminal, and wiped out when it is done."""
    from torchrecorder.integrations.progress import Progress

    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, Progress(terminal, patience=0.0) as progress:
        progress.say("drawing net.svg")
        progress._done.wait(0.2)
    shown = os.read(master, 1000).decode()
    os.close(master)
    assert "drawing net.svg ..." in shown and shown.endswith("\x1b[K")


def test_progress_is_silent_elsewhere(tmp_path):
    """Nothing is written to a file or a pipe."""
    from torchrecorder.integrations.progress import Progress

    with (tmp_path / "log").open("w") as log, Progress(log, patience=0.0) as progress:
        progress.say("drawing")
    assert (tmp_path / "log").read_text() == ""
