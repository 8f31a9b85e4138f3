"""The command line: what many processes would do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integrations.test_cli import run
from torchrecorder.capture.internals.table import FAKE_GROUPS

pytestmark = pytest.mark.skipif(not FAKE_GROUPS.present, reason="this PyTorch cannot plan")

FACTORY = """
import torch

def step(mesh, size=4):
    def run():
        torch.distributed.all_reduce(torch.ones(size), group=mesh.get_group("tp"))
    return run

def broken(mesh):
    raise ValueError("no such model")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with factories in it, in the current folder."""
    path = tmp_path / "job.py"
    path.write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return path


def test_figure_and_numbers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The factory of a file, called with the mesh and settings; a figure, and JSON."""
    code, out, err = run(
        capsys, "plan", "job.py:step", "--mesh", "dp=2, tp=2", "--world", "4", "--set", "size=8",
        "--ranks", "2,3", "--name", "job", "-o", "plan.svg", "--json", "--exit-code",
    )
    found = json.loads(out)
    assert (code, err, found["name"]) == (0, "plan.svg\n", "job")
    assert (found["ranks"], found["world"], found["problems"]) == ([2, 3], 4, [])
    (collective,) = found["collectives"]
    assert (collective["bytes"], collective["ranks"]) == (32, [2, 3])
    assert "ranks 2–3" in Path("plan.svg").read_text(encoding="utf-8")


def test_mistakes_of_the_factory(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own message, the rank, and exit code 1."""
    code, _, err = run(capsys, "plan", "job.py:broken", "--mesh", "dp=1")
    assert code == 1
    assert "ValueError: no such model" in err and "by rank 0 (dp=0)" in err


@pytest.mark.parametrize(("arguments", "message"), [
    (["--mesh", "dp8"], "write it as dp=8,tp=8"),
    (["--mesh", "dp=2,dp=2"], "write it as dp=8,tp=8"),
    (["--mesh", "dp=x"], "mesh must be sizes by name"),
    (["--mesh", "dp=2", "--world", "3"], "a mesh of dp=2 has 2 processes, not 3"),
    (["--mesh", "dp=2", "--ranks", "5"], "numbers from 0 to 1"),
    (["--mesh", "dp=2", "--ranks", "first"], "numbers from 0 to 1"),
    (["--mesh", "dp=2", "-o", "a.nonesuch"], "nonesuch"),
])
def test_invalid_arguments(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """They are errors before a process is started."""
    code, _, err = run(capsys, "plan", "job.py:step", *arguments)
    assert code == 2 and message in err
