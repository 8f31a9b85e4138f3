"""The pytest fixtures, in test files of their own."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch

import torchrecorder
import torchrecorder.annotations.limits
from torchrecorder.capture.internals.table import SAVED_TENSORS

pytest_plugins = ["pytester"]

PLUGIN = "torchrecorder.integrations.pytest_plugin"
REGISTERED = any(each.value == PLUGIN for each in entry_points(group="pytest11"))

NET = """
import pytest, torch
from torch import nn

def net(width=8, act=nn.ReLU):
    return nn.Sequential(nn.Linear(4, width), act(), nn.Linear(width, 2))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Runs inside forget the modules they load, and some cannot be loaded twice."""
    recording = torchrecorder.record(torch.nn.Linear(4, 2), torch.zeros(1, 4), flops=True)
    torchrecorder.compare(recording, recording)
    torchrecorder.load(torchrecorder.save(recording, tmp_path_factory.mktemp("run") / "run.json"))


@pytest.fixture
def run(pytester: pytest.Pytester, loaded: None) -> Any:
    """Writes a test file and runs it; gives the result and what was printed."""

    def runner(body: str, *options: str) -> tuple[dict[str, int], str]:
        pytester.makepyfile(test_net=NET + body)
        plugin = () if REGISTERED else ("-p", PLUGIN)
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *plugin, *options)
        return result.parseoutcomes(), result.stdout.str()

    return runner


ASSERT = """
def test_it(assert_architecture):
    assert_architecture(net({}), torch.zeros(1, 4))
"""


def test_changed_architecture(run: Any, pytester: pytest.Pytester) -> None:
    """No snapshot yet; saved; equal; changed, with the difference; accepted."""
    outcome, said = run(ASSERT.format(""))
    assert outcome == {"failed": 1} and "there is no snapshot" in said
    assert "--update-architectures" in said
    assert run(ASSERT.format(""), "--update-architectures")[0] == {"passed": 1}
    assert (pytester.path / "__architectures__" / "test_net" / "test_it.json").is_file()
    assert run(ASSERT.format(""))[0] == {"passed": 1}
    outcome, said = run(ASSERT.format("act=nn.GELU"))
    assert outcome == {"failed": 1}
    assert "Sequential: 1 replaced" in said and "ReLU → GELU" in said
    assert run(ASSERT.format("act=nn.GELU"), "--update-architectures")[0] == {"passed": 1}
    assert run(ASSERT.format("act=nn.GELU"))[0] == {"passed": 1}


def test_snapshot_is_portable(run: Any, pytester: pytest.Pytester) -> None:
    """Nothing of the machine is in a snapshot, and one that still fits is not written again."""
    body = """
def helper(model, x):
    return model(x)

def test_it(assert_architecture):
    assert_architecture(lambda x: helper(net(), x), torch.zeros(1, 4))
"""
    assert run(body, "--update-architectures")[0] == run(body)[0] == {"passed": 1}
    path = next(Path(pytester.path).rglob("test_it.json"))
    assert "test_net.py" not in path.read_text()
    run(ASSERT.format(""), "--update-architectures")
    text = path.read_text()
    assert str(pytester.path) not in text and "test_net.py" not in text
    assert json.loads(text)["run"]["seconds"] is None
    path.write_text(text + "\n")
    assert run("\n\n" + ASSERT.format(""), "--update-architectures")[0] == {"passed": 1}
    assert path.read_text() == text + "\n"


SHARED = """
def test_one(assert_architecture):
    assert_architecture(net(2), torch.zeros(1, 4), snapshot="big")

def test_same(assert_architecture):
    assert_architecture(net(2), torch.zeros(1, 4), snapshot="big")

class TestOther:
    def test_it(self, assert_architecture):
        assert_architecture(net({width}), torch.zeros(1, 4), snapshot="big")

@pytest.mark.parametrize("width", [4, {width}], ids=["a/b", "a_b"])
def test_sizes(assert_architecture, width):
    assert_architecture(net(width if width != 2 else 4), torch.zeros(1, 4))
"""


def test_tests_that_share_a_snapshot(run: Any, pytester: pytest.Pytester) -> None:
    """Of one architecture they may; else the second names the first, and does not overwrite it."""
    body = SHARED.format(width=3)
    for options in (("--update-architectures",), ()):
        outcome, said = run(body, *options)
        assert outcome == {"passed": 3, "failed": 2}
        assert "test_one and TestOther.test_it assert different architectures as" in said
        assert "test_sizes[a/b] and test_sizes[a_b] assert different" in said
        assert "__architectures__/test_net/big.json" in said
        assert "pass each a name of its own as snapshot=" in said
        assert "pytest with --update" not in said
    same = SHARED.format(width=2)
    assert run(same)[0] == {"passed": 5}
    assert run(same, "--update-architectures")[0] == {"passed": 5}


def test_names_of_snapshots(run: Any, pytester: pytest.Pytester) -> None:
    """One for each set of parameters, and as many as are named; not two of one name."""
    body = """
@pytest.mark.parametrize("width", [2, 3])
def test_it(assert_architecture, width):
    recording = assert_architecture(net(width), torch.zeros(1, 4))
    assert_architecture(recording, snapshot=f"../again {width}")

def test_twice(assert_architecture):
    assert_architecture(net(), input_shapes=(1, 4))
    assert_architecture(net(), input_shapes=(1, 4))

def test_keywords(assert_architecture):
    assert_architecture(nn.Bilinear(4, 4, 1), {"input1": torch.ones(1, 4), "input2": torch.ones(4)})
"""
    outcome, said = run(body.replace("torch.ones(4)", "torch.ones(1, 4)"), "--update-architectures")
    assert outcome == {"passed": 3, "failed": 1} and "asserted twice" in said
    names = sorted(each.name for each in (pytester.path / "__architectures__").rglob("*"))
    assert names == [
        "again_2.json", "again_3.json", "test_it[2].json", "test_it[3].json",
        "test_keywords.json", "test_net", "test_twice.json",
    ]


def test_budgets(run: Any) -> None:
    """Every budget that is exceeded is listed; those that are kept are not."""
    body = """
def test_kept(assert_budgets):
    assert_budgets(net(), torch.zeros(1, 4), budgets={
        "": {"parameters": 58, "flops": 1000, "MEASURED": 1000}, "?": {"parameters": 40},
    })

def test_exceeded(assert_budgets):
    assert_budgets(net(), torch.zeros(1, 4), budgets={
        "": {"parameters": 57, "flops": 10}, "[02]": {"parameters": 39}, "2": {"flops": 31},
    })

def test_misspelled(assert_budgets):
    with pytest.raises(ValueError, match="no module is called '00'"):
        assert_budgets(net(), torch.zeros(1, 4), budgets={"00": {"parameters": 1}})
    with pytest.raises(KeyError, match="did you mean 'parameters'"):
        assert_budgets(net(), torch.zeros(1, 4), budgets={"": {"paramters": 1}})
    with pytest.raises(ValueError, match="no numbers of 'device_time'"):
        assert_budgets(net(), torch.zeros(1, 4), budgets={"": {"device_time": 1}})

def test_measured(assert_budgets):
    recording = assert_budgets(net(), torch.zeros(1, 4), budgets={"": {"backward_time": 1e6}})
    assert recording.grad_runs
"""
    measured = "saved_bytes" if SAVED_TENSORS.present else "output_bytes"
    outcome, said = run(body.replace("MEASURED", measured))
    assert outcome == {"passed": 3, "failed": 1}
    shown = [line.removeprefix("E").strip() for line in said.splitlines()]
    assert "the whole run: parameters: 58 of 57" in shown
    assert "0: parameters: 40 of 39" in shown
    assert not any(line.startswith("2: parameters") for line in shown)
    assert any(line.startswith("2: flops") for line in shown)


WRONG = {
    "assert_architecture(net(), torch.zeros(1, 4), fak=True)": "did you mean 'fake'",
    "assert_architecture(net(), torch.zeros(1, 4), snapshot=3)": "snapshot must be a string",
    "assert_architecture(net())": "but was given ()",
    "assert_architecture(net(), torch.zeros(1, 3))": "while running `0` (Linear)",
    "assert_budgets(net(), torch.zeros(1, 4), budgets=[3])": "budgets must be a mapping",
    "assert_budgets(net(), torch.zeros(1, 4), budgets={'': {'flop': 1}})": "did you mean 'flops'",
    "assert_budgets(net(), torch.zeros(1, 4), budgets={'': {'flops': 'x'}})": "budgets must be",
    "assert_budgets(net(), torch.zeros(1, 4), budgets={'3': {'flops': 1}})": "module is called '3'",
}


@pytest.mark.parametrize("call", WRONG)
def test_no_line_of_torchrecorder_is_shown(run: Any, call: str) -> None:
    """What went wrong is said below the line of the test; of the model, its lines stay."""
    body = f"\ndef test_it(assert_architecture, assert_budgets):\n    {call}\n"
    outcome, said = run(body)
    assert outcome == {"failed": 1}
    assert WRONG[call] in said
    assert f">       {call}" in said
    assert "torchrecorder/" not in said and "object at 0x" not in said
    assert ("F.linear(" in said) == ("zeros(1, 3)" in call)


def test_equal_names_in_two_classes(run: Any, pytester: pytest.Pytester) -> None:
    """Each test has a snapshot of its own."""
    body = "".join(
        f"""
class Test{width}:
    def test_net(self, assert_architecture):
        assert_architecture(net({width}), torch.zeros(1, 4))
"""
        for width in (8, 9)
    )
    assert run(body, "--update-architectures")[0] == {"passed": 2}
    assert run(body)[0] == {"passed": 2}
    written = (pytester.path / "__architectures__" / "test_net").iterdir()
    assert sorted(each.name for each in written) == ["Test8.test_net.json", "Test9.test_net.json"]
