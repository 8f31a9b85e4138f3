"""The command line: scripts with a main of their own."""

from __future__ import annotations

import json
import os
import py_compile
import subprocess
import sys
import zipapp
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import torchrecorder
from tests.integrations.test_cli import run
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder

TRAIN = '''
import sys
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

def main(arguments):
    torch.manual_seed(0)
    net, scale = Net(), nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    normalize = nn.Softmax(dim=1)
    for step in range(3):
        x = normalize(torch.ones(2, 4))
        x = scale(x) if "scale" in arguments else x
        loss = nn.functional.mse_loss(net(x), torch.zeros(2, 1))
        if "fail" in arguments and step == 1:
            net(torch.ones(2, 3))
        loss.backward()
        optimizer.step()
        print("step", step, f"{loss.item():.6f}", __name__, sys.argv[1:])
    return 7 if "seven" in arguments else 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder with scripts."""
    package = tmp_path / "a_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(TRAIN)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "idle.py").write_text("print('nothing to do')")
    (tmp_path / "text.py").write_text("import sys; sys.exit('no data here')")
    (tmp_path / "late.py").write_text("import train\ntrain.main([])\nraise ValueError('late')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in ("a_package", "a_package.train", "train"):
        sys.modules.pop(name, None)


def ops(path: Path) -> list[str]:
    """The names of the ops in a saved recording."""
    return [op.name for op in torchrecorder.load(path).ops.values()]


def test_first_step(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model, its loss, backward and optimizer; not what lies before and after."""
    code, out, err = run(capsys, "run", "train.py", "-o", "a.json", "-o", "a.svg")
    assert code == 0 and len(out.splitlines()) == 3
    assert err == "torchrecorder: wrote a.json\ntorchrecorder: wrote a.svg\n"
    recording = torchrecorder.load(folder / "a.json")
    assert recording.name == "Net" and recording.backward_runs
    assert ops(folder / "a.json")[:5] == ["linear", "relu", "linear", "zeros", "mse_loss"]
    assert "item" not in ops(folder / "a.json") and "softmax" not in ops(folder / "a.json")
    assert [each.path for each in recording.scopes.values()][:3] == ["", "body", "head"]


def test_the_script_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Its arguments, output and exit code are those of a run without us."""
    assert run(capsys, "run", "train.py", "--", "seven", "-o", "x")[0] == 7
    said = run(capsys, "run", "train.py", "--name", "again", "--", "--steps", "3")[1]
    before = [line.split()[:3] for line in said.splitlines()]
    assert "__main__ ['--steps', '3']" in said
    import runpy

    with pytest.raises(SystemExit):
        runpy.run_path("train.py", run_name="__main__")
    assert before == [line.split()[:3] for line in capsys.readouterr().out.splitlines()]


def test_a_script_knows_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its names are those that Python gives it, and data beside it are found from other folders."""
    (folder / "a_package" / "where.py").write_text(
        "import sys, inspect, torch\n"
        "def f(): pass\n"
        "print([__file__, __package__, __spec__, sys.argv[0], inspect.getsourcefile(f)])\n"
        "print(__builtins__.__name__, sys.modules[__name__].__dict__ is globals())\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
    )
    script = os.path.join("a_package", "where.py")
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert run(capsys, "run", script, "-o", "a.json")[:2] == (0, plain.stdout)
    assert str(folder / script) in plain.stdout


@pytest.mark.parametrize("name", ["app", "app.pyz", "app.zip", "app.pyc"])
def test_what_else_python_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Folders and archives with a program in them, and compiled files."""
    source = folder / "app"
    source.mkdir()
    (source / "beside.py").write_text("NUMBER = 3")
    (source / "__main__.py").write_text(
        "import sys, torch\n"
        "if not __file__.endswith('.pyc'): import beside\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
        "print(__name__, sys.argv)\n"
    )
    if name.endswith("c"):
        py_compile.compile(str(source / "__main__.py"), folder / name)
    elif name != "app":
        zipapp.create_archive(source, folder / name)
    plain = subprocess.run([sys.executable, name, "x"], capture_output=True, text=True, check=True)
    assert run(capsys, "run", name, "-o", "a.json", "--", "x")[:2] == (0, plain.stdout)
    assert ops(folder / "a.json") == ["linear"]


def test_a_script_has_no_future_statements_of_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Annotations are evaluated unless it says otherwise."""
    (folder / "annotated.py").write_text(
        "import torch\ndef f(x: 1 + 1): pass\nprint(f.__annotations__)\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
    )
    assert run(capsys, "run", "annotated.py", "-o", "a.json")[1] == "{'x': 2}\n"


def test_module(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As python -m runs it."""
    assert run(capsys, "run", "-m", "a_package.train", "-o", "a.json")[0] == 0
    assert "mse_loss" in ops(folder / "a.json")


def test_a_module_knows_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its names are those that Python gives it, as is the first argument."""
    (folder / "a_package" / "where.py").write_text(
        "import sys, torch\n"
        "print([__file__, __package__, __spec__.name, sys.argv])\n"
        "print(sys.modules[__name__].__dict__ is globals())\n"
        "torch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
    )
    plain = subprocess.run(
        [sys.executable, "-m", "a_package.where", "x"], capture_output=True, text=True, check=True
    )
    asked = ("-m", "a_package.where", "-o", "a.json", "--", "x")
    assert run(capsys, "run", *asked)[:2] == (0, plain.stdout)


def test_a_package_that_cannot_be_imported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its error is that of the run: there is such a module, as far as anybody knows."""
    package = folder / "failing"
    package.mkdir()
    (package / "__init__.py").write_text("raise ValueError('broken')")
    code, _, err = run(capsys, "run", "-m", "failing.train")
    assert code == 1 and "ValueError: broken" in err


@pytest.mark.parametrize(("steps", "calls"), [("1", 1), ("2", 2), ("0", 3), ("9", 3)])
def test_steps(
    folder: Path, capsys: pytest.CaptureFixture[str], steps: str, calls: int
) -> None:
    """So many calls of the model with all that follows them."""
    assert run(capsys, "run", "train.py", "--steps", steps, "-o", "a.json")[0] == 0
    recording = torchrecorder.load(folder / "a.json")
    assert [each.cls for each in recording.scopes.values()].count("Net") == calls
    assert len(recording.backward_runs) == calls


@pytest.mark.parametrize(
    ("variable", "first"), [("net", "Net"), ("scale", "Linear"), ("net.head", "Linear")]
)
def test_variable(
    folder: Path, capsys: pytest.CaptureFixture[str], variable: str, first: str
) -> None:
    """The module that a variable of the script holds, wherever it is called."""
    asked = ("--model-var", variable, "-o", "a.json", "--", "scale")
    assert run(capsys, "run", "train.py", *asked)[0] == 0
    recording = torchrecorder.load(folder / "a.json")
    assert next(iter(recording.scopes.values())).cls == first


def test_variables_with_properties_that_raise(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until they are set, they hold no model."""
    (folder / "late.py").write_text(
        "import torch\n"
        "class Trainer:\n"
        "    net = None\n"
        "    @property\n"
        "    def model(self):\n"
        "        if self.net is None:\n"
        "            raise RuntimeError('not attached')\n"
        "        return self.net\n"
        "trainer, first, second = Trainer(), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)\n"
        "x = first(torch.ones(1, 4))\n"
        "trainer.net = second\n"
        "second(x)\n"
    )
    code, _, err = run(capsys, "run", "late.py", "--model-var", "trainer.model", "-o", "a.json")
    assert (code, err) == (0, "torchrecorder: wrote a.json\n")
    assert torchrecorder.load(folder / "a.json").outputs


def test_scripts_that_change_the_folder(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are where the command was called; their whole paths are printed."""
    (folder / "moving.py").write_text(
        "import os, torch\nos.chdir('a_package')\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
    )
    for asked, name in ((("-o", "a.json"), "a.json"), ((), "Linear.svg")):
        monkeypatch.chdir(folder)
        code, _, err = run(capsys, "run", "moving.py", *asked)
        assert (code, err) == (0, f"torchrecorder: wrote {folder / name}\n")
        assert (folder / name).exists()


def test_compiled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Graphs and breaks of the model; the script goes on as if it had been called once."""
    forward = "def forward(self, x):"
    breaking = TRAIN.replace(forward, f"{forward}\n        x.sum().item()")
    (folder / "breaking.py").write_text(breaking)
    plain = run(capsys, "run", "breaking.py", "-o", "a.json")[1]
    code, out, _ = run(
        capsys, "run", "breaking.py", "--compiled", "-o", "a.json", "-o", "a.svg",
        "--color-by", "compiled_graph",
    )
    assert code == 0 and out == plain
    recording = torchrecorder.load(folder / "a.json")
    assert [each["op"] for each in recording.breaks] == ["item"]
    assert [each.unmatched for each in recording.compiled_graphs] == [(), ()]
    assert "graph break" in (folder / "a.svg").read_text()


def test_what_raises(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's traceback as Python shows it, exit code 1, and a figure of what ran."""
    asked = ("--steps", "0", "-o", "a.json", "--", "fail")
    code, out, err = run(capsys, "run", "train.py", *asked)
    assert code == 1 and "step 0" in out and "step 1" not in out
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "train.py" in lines[1] and "while running `body` (Linear)" in err
    failure = torchrecorder.load(folder / "a.json").run.failure
    assert failure is not None and failure.error == "RuntimeError"
    assert "--steps 0" not in err


def test_what_raises_later(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not the failure of a step that was recorded before; advice how to record it, too."""
    code, _, err = run(capsys, "run", "late.py", "-o", "a.json")
    assert code == 1 and "ValueError: late" in err
    assert "failed after the recorded steps; --steps 0 records it to its end" in err
    assert torchrecorder.load(folder / "a.json").run.failure is None


def test_nothing_to_record(capsys: pytest.CaptureFixture[str]) -> None:
    """A script without a model, and one that holds none under this name."""
    code, out, err = run(capsys, "run", "idle.py")
    assert (code, out) == (1, "nothing to do\n") and "called no module with parameters" in err
    code, _, err = run(capsys, "run", "train.py", "--model-var", "network")
    assert code == 1 and "'network' held" in err
    code, _, err = run(capsys, "run", "text.py")
    assert code == 1 and err.startswith("no data here\n")


def test_nothing_is_left_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in PyTorch nor in Python."""
    from torch.nn.modules import module as hooks
    from torch.optim import optimizer as steps

    def state() -> list[Any]:
        return [
            list(sys.argv), list(sys.path), sys.modules["__main__"],
            dict(hooks._global_forward_hooks), dict(hooks._global_forward_pre_hooks),
            dict(steps._global_optimizer_pre_hooks), dict(steps._global_optimizer_post_hooks),
            torch._C._len_torch_function_stack(),
        ]

    before = state()
    for arguments in ((), ("fail",), ("seven",)):
        run(capsys, "run", "train.py", "-o", "a.json", "--", *arguments)
        assert state() == before


class Mode(TorchFunctionMode):
    """A function mode of the program's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("context", [Mode, lambda: torch.device("meta")])
def test_modes_of_the_program_end_in_their_order(context: Any) -> None:
    """We may begin in the middle of one and end after it, or in the middle of another."""
    net = torch.nn.Linear(4, 4, device="meta")
    x = torch.ones(1, 4, device="meta")
    with DeferredRecorder(lambda module, frame: module is net, 2) as awaited:
        with context():
            net(x).relu()
        net(x).tanh()
        with context(), Mode():
            net(x).sin()
        x.cos()
    assert torch._C._len_torch_function_stack() == 0
    assert awaited.recording is not None
    names = [op.name for op in awaited.recording.ops.values()]
    assert names == ["linear", "relu", "linear", "tanh"]


def test_default_device_may_change_meanwhile() -> None:
    """Its mode expects to be the lowest of all."""
    net = torch.nn.Linear(4, 4)
    before = torch.empty(0).device
    torch.set_default_device("cpu")
    try:
        with DeferredRecorder(lambda module, frame: module is net) as awaited:
            net(torch.ones(1, 4))
            torch.set_default_device("meta")
            made = torch.ones(3)
            net(torch.ones(1, 4, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert torch._C._len_torch_function_stack() == 0 and torch.empty(0).device == before
    assert made.device.type == "meta" and awaited.recording is not None
    assert [op.name for op in awaited.recording.ops.values()][0] == "linear"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run", "give either a script or a module with -m"),
        ("run train.py -m train", "give either a script"),
        ("run missing.py", "there is no file 'missing.py'"),
        ("run -m missing.module", "there is no module 'missing.module'"),
        ("run -m a_package.missing", "there is no module 'a_package.missing'"),
        ("run train.py --steps -1", "--steps must be 0 or more"),
        ("run train.py --model-var a+b", "'a+b' is not the name of a variable"),
        ("run train.py -o a.swg", "did you mean '.svg'"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    """Found before the script begins."""
    code, out, err = run(capsys, *arguments.split())
    assert (code, out) == (2, "") and said in err and "Traceback" not in err


def test_json_of_the_run_is_a_recording(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which the other commands work on."""
    run(capsys, "run", "train.py", "-o", "a.json", "--flops")
    assert json.loads((folder / "a.json").read_text())["format"] == "torchrecorder recording"
    assert "head" in run(capsys, "top", "a.json", "--by", "backward_time", "-n", "0")[1]
    assert "body" in run(capsys, "top", "a.json", "--by", "flops")[1]
