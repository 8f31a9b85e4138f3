"""Parts of the command line and of other hosts on their own."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import re
import socket
import sys
import threading
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.checks import FLAG
from torchrecorder.errors import Notice
from torchrecorder.integrations import cli
from torchrecorder.integrations.commands import render, serve
from torchrecorder.integrations.flags import add_flags
from torchrecorder.integrations.import_target import find
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.pytest_plugin import AssertArchitecture, check_budgets, portable
from torchrecorder.integrations.sphinx import sources
from torchrecorder.integrations.targets import Target, target_of
from torchrecorder.option_table import option, options_of


def test_an_interrupted_command_has_the_usual_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """128 and the number of the signal, as shells have it."""
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(render.RenderCommand, "run", interrupted)
    assert cli.main(["render", "nets:Net"]) == 130


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """That of the package."""
    with pytest.raises(SystemExit) as ended:
        cli.parser().parse_args(["--version"])
    assert not ended.value.code
    assert capsys.readouterr().out == f"torchrecorder {torchrecorder.__version__}\n"


def test_the_help_says_what_an_option_takes(capsys: pytest.CaptureFixture[str]) -> None:
    """What it stands for, the words that there are, or else its name."""
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["render", "--help"])
    said = capsys.readouterr().out
    assert "--shape SHAPE" in said and "--direction {TB,LR,BT,RL}" in said and "--dpi DPI" in said


def test_arguments_of_the_target_add_up() -> None:
    """In their order."""
    options = cli.parser().parse_args(["render", "nets:Net", "--arg", "3", "--arg", "gelu"])
    assert target_of(options).arg == (3, "gelu")


def test_a_target_is_recorded_as_by_the_function() -> None:
    """What is measured without being asked for is the same."""
    plain = inspect.signature(torchrecorder.record).parameters
    shared = [each for each in fields(Target) if each.name in plain and each.type == "bool"]
    assert {each.name for each in shared} >= {"backward", "fake", "flops", "memory", "stats"}
    assert {each.name: each.default for each in shared if each.name != "saved"} == {
        each.name: plain[each.name].default for each in shared if each.name != "saved"
    }


@dataclass
class Switches:
    """One that is off, one that is on, and one that is neither."""

    off: bool = option("It is loud.", FLAG, default=False)
    on: bool = option("It is loud.", FLAG, default=True)
    open: bool | None = option("It is loud.", FLAG.or_none(), default=None)


def test_flags_of_switches() -> None:
    """One that changes what is the default; both, where there is none."""
    parser = argparse.ArgumentParser(add_help=False)
    add_flags(parser, options_of(Switches).values())
    assert set(parser._option_string_actions) == {"--off", "--no-on", "--open", "--no-open"}


def test_a_file_imports_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else of that name."""
    for folder, size in (("own", 3), ("other", 4)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "sizes_of_it.py").write_text(f"SIZE = {size}")
    (tmp_path / "own" / "model_of_it.py").write_text("from sizes_of_it import SIZE")
    monkeypatch.syspath_prepend(tmp_path / "other")
    try:
        assert find(f"{tmp_path}/own/model_of_it.py:SIZE") == 3
    finally:
        for name in ("model_of_it", "sizes_of_it"):
            sys.modules.pop(name, None)
        sys.path.remove(str(tmp_path / "own"))


class SlowTerminal(io.StringIO):
    """A terminal that takes its time."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        time.sleep(0.05)
        return super().write(text)


def test_progress_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is printed next begins in an empty line."""
    monkeypatch.setattr("torchrecorder.integrations.progress.PATIENCE", 0.0)
    monkeypatch.setattr("torchrecorder.integrations.progress._BEAT", 0.01)
    terminal = SlowTerminal()
    with Progress(terminal) as progress:
        progress.now("recording")
        while "recording" not in terminal.getvalue():
            time.sleep(0.01)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line has the next mark, and after the last one comes the first again."""
    monkeypatch.setattr("torchrecorder.integrations.progress.PATIENCE", 0.0)
    monkeypatch.setattr("torchrecorder.integrations.progress._BEAT", 0.01)
    terminal = SlowTerminal()
    with Progress(terminal):
        while terminal.getvalue().count("…") < 5:
            time.sleep(0.01)
    assert re.findall(r"\x1b\[K(\S)", terminal.getvalue())[:5] == [*"|/-\\|"]


def test_notices_reach_a_document_in_spite_of_filters() -> None:
    """Each text once."""
    notices_to = pytest.importorskip("torchrecorder.integrations.sphinx.notices").notices_to
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with notices_to(told.append):
            for text in ("one", "other", "one"):
                warnings.warn(text, Notice, stacklevel=1)
    assert told == ["one", "other"]


def test_other_warnings_about_a_document_are_shown_as_usual() -> None:
    """A warning of the model is no notice of torchrecorder."""
    notices_to = pytest.importorskip("torchrecorder.integrations.sphinx.notices").notices_to
    told: list[str] = []
    with pytest.warns(DeprecationWarning, match="of the model") as shown, notices_to(told.append):
        warnings.warn("of the model", DeprecationWarning, stacklevel=1)
        warnings.warn("ours", Notice, stacklevel=1)
    assert told == ["ours"] and len(shown) == 1


def test_a_snapshot_shows_nothing_of_the_machine() -> None:
    """Nor of what was lost in the run that it is from."""
    recording = torchrecorder.record(nn.Linear(4, 2), torch.zeros(1, 4))
    assert portable(recording).run.lost == 0 and portable(recording).run.torch_version == ""
    run = replace(recording.run, lost=2, notes=("a note",), torch_version="9.9")
    assert portable(replace(recording, run=run)) == portable(recording)


@pytest.mark.parametrize(
    ("test", "snapshot", "name"),
    [("test_it[a/b c]", None, "test_it[a_b_c]"), ("test_it", "my net", "my_net"),
     ("...", None, "model")],
)
def test_names_of_snapshots(tmp_path: Path, test: str, snapshot: str | None, name: str) -> None:
    """That of the test, unless there is another; with letters that any file system has."""
    asserting = AssertArchitecture(tmp_path, test, update=True, asserted={})
    asserting(nn.Linear(4, 2), torch.zeros(1, 4), snapshot=snapshot)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            "saved_bytes",
            marks=pytest.mark.skipif(
                not SAVED_TENSORS.present,
                reason="this PyTorch does not tell what is kept for backward",
            ),
        ),
        "parameters",
    ],
)
def test_a_budget_measures_what_it_is_about(asked: str) -> None:
    """Also without a backward pass; and nothing else."""
    recording = check_budgets(
        nn.Linear(4, 2), torch.zeros(1, 4, requires_grad=True), budgets={"": {asked: 1e9}}
    )
    assert ("saved_bytes" in recording.annotations) == (asked == "saved_bytes")


def test_only_headers_answer_a_request_for_them() -> None:
    """The page follows only where it is asked for."""
    server = serve.Server("127.0.0.1", 0)
    server.page = b"<p>page</p>"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for method, ends in (("HEAD", b"\r\n\r\n"), ("GET", b"<p>page</p>")):
            with socket.create_connection(server.server_address) as line:
                line.sendall(f"{method} {server.path} HTTP/1.0\r\n\r\n".encode())
                answer = b"".join(iter(lambda: line.recv(4096), b""))
            assert answer.startswith(b"HTTP/1.0 200") and answer.endswith(ends)
    finally:
        server.shutdown()
        server.server_close()


def test_json_of_a_comparison_has_names_as_they_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In any language."""
    paths = []
    for name in ("größe", "вес"):
        model = nn.Sequential(OrderedDict({name: nn.Linear(2, 2)}))
        recording = torchrecorder.record(model, torch.zeros(1, 2))
        paths.append(str(torchrecorder.save(recording, tmp_path / f"{len(paths)}.json")))
    assert cli.main(["compare", *paths, "--json"]) == 0
    printed = capsys.readouterr().out
    assert "größe" in printed and "вес" in printed and json.loads(printed)


class Around(nn.Linear):
    """A layer with another one in it."""

    def __init__(self) -> None:
        super().__init__(40, 1)
        self.inner = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(super().forward(x))


def test_a_ranking_is_aligned_at_its_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shares end below each other, and what they are of begins so."""
    recording = torchrecorder.record(Around(), torch.zeros(1, 40))
    path = str(torchrecorder.save(recording, tmp_path / "run.json"))
    assert cli.main(["top", path, "--by", "parameters"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "%" in line]
    assert len(lines) == 2 and len({line.index("%") for line in lines}) == 1
    assert [line.split("%")[1].split()[0] for line in lines] == ["Around", "inner"]


def test_sources_of_several_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all of them, with what their modules use."""
    for name in ("first_of_it", "second_of_it"):
        (tmp_path / f"{name}_base.py").write_text("SIZE = 3")
        (tmp_path / f"{name}.py").write_text(f"import {name}_base\nclass Net: pass")
    monkeypatch.syspath_prepend(tmp_path)
    nets = {name: __import__(name).Net() for name in ("first_of_it", "second_of_it")}
    try:
        assert len(sources.used(nets).files) == 4
    finally:
        for name in nets:
            sys.modules.pop(name), sys.modules.pop(f"{name}_base")


def test_sources_of_packages_in_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are installed too, as those of the user and below a virtual environment. A module that
    cannot have the attributes that Python asks for is passed over."""
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "library_of_it.py").write_text("class Layer: pass")
    (tmp_path / "nets_of_it.py").write_text(
        "from types import ModuleType\nimport library_of_it\n"
        "class Raising(ModuleType):\n    def __getattr__(self, name): raise RuntimeError(name)\n"
        "raising = Raising('raising')\nclass Net: pass"
    )
    for folder in (site, tmp_path):
        monkeypatch.syspath_prepend(folder)
    try:
        found = sources.used({"net": __import__("nets_of_it").Net()})
        assert found.files == (str(tmp_path / "nets_of_it.py"),)
    finally:
        for name in ("nets_of_it", "library_of_it"):
            sys.modules.pop(name)


class Scaled(nn.Module):
    """Takes its inputs by name."""

    def forward(self, *, x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
        """One operation."""
        return x * by


@pytest.mark.parametrize("is_exported", [True, False])
def test_inputs_that_come_with_a_model(is_exported: bool) -> None:
    """Those of an exported program are its own; a factory may give them by name."""
    target, progress = Target("nets:make"), Progress(io.StringIO())
    if is_exported:
        program = torch.export.export(nn.Sequential(nn.Linear(4, 2)), (torch.ones(3, 4),))
        found = target.record(lambda: program, progress)
    else:
        found = target.record(lambda: lambda: (Scaled(), {"x": torch.ones(3, 2)}), progress)
    assert [found.values[slot.value].shape for slot in found.outputs] == [(3, 2)]
