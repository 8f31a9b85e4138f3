"""Every example runs, and leaves the pictures it prints or promises."""

import functools
import runpy
import sys
from pathlib import Path

import pytest

import torchrecorder
from tests import torchvision_shim

EXAMPLES = Path(__file__).parent.parent / "examples"
NEEDS = {
    "backward_time": "torchvision",
    "gnn": "torch_geometric",
    "resnet50": "torchvision",
    **dict.fromkeys(
        "bert clip gpt2 llama mixtral saved_bytes swin t5 vit whisper".split(), "transformers"
    ),
}
FEWER = {"plan_llama": {"layers": 8}}
"""Arguments of what a script plans: 80 equal layers take a minute, and say no more than eight."""


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch, capsys):
    """A script runs from any folder and writes what it says."""
    torchvision_shim.install()
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    if path.stem in FEWER:
        planned, fewer = torchrecorder.plan, FEWER[path.stem]
        monkeypatch.setattr(
            torchrecorder,
            "plan",
            lambda factory, *args, **options: planned(
                functools.partial(factory, **fewer), *args, **options
            ),
        )
    runpy.run_path(str(path), run_name="__main__")
    written = [each for each in tmp_path.iterdir() if each.stat().st_size]
    named = [line for line in capsys.readouterr().out.split() if line.endswith(".svg")]
    assert written or not named
    assert all((tmp_path / name).stat().st_size for name in named)


def test_graph_questions(capsys):
    """The narrow layer, the tied weight and the probe that leads nowhere are found."""
    runpy.run_path(str(EXAMPLES / "graph_questions.py"), run_name="__main__")
    answers = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    path = answers["longest path"].split(" → ")
    assert path[0] == "embedding" and path[-3:] == ["linear", "gelu", "linear"]
    assert answers["readers of letters.weight"] == "letters (embedding), spell (linear)"
    assert answers["never reach the output"] == "probe.bias, probe.weight"
    assert answers["everything passes"].endswith("squeeze, widen.0, widen.1, spell")
    assert answers["cheapest cut"] == f"{12 * 4 * 4} bytes, after squeeze"
