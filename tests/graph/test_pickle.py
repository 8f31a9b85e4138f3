"""Recordings as pickles and copies: equal, whole, and without what belongs to the process."""

import copy
import io
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import pytest
import torch
from hypothesis import given, settings
from torch import nn

import torchrecorder
from tests.random_recordings import recordings
from tests.stepped import stepped
from torchrecorder.errors import NotKept
from torchrecorder.testing import Builder


def _by_torch(recording):
    """*recording* through ``torch.save`` and back."""
    file = io.BytesIO()
    torch.save(recording, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def _by_pickle(recording):
    return pickle.loads(pickle.dumps(recording))


def test_equal_recordings_have_one_hash():
    """So they can be keys, and arguments of functions with a cache."""
    first, second = stepped(), _by_pickle(stepped())
    assert first is not second and {first, second} == {first}
    assert {first: "a run"}[second] == "a run"


WAYS = pytest.mark.parametrize("copied", [_by_pickle, copy.deepcopy, copy.copy, _by_torch])


@WAYS
@settings(max_examples=20, deadline=None)
@given(recording=recordings())
def test_a_copy_is_equal_and_of_the_same_class(copied, recording):
    """All that is recorded comes along, of every kind of fact."""
    again = copied(recording)
    assert again == recording and type(again) is torchrecorder.Recording


@WAYS
def test_a_copy_of_a_real_run_computes_and_draws(copied, tmp_path):
    """A step with its backward pass: the copy gives the same numbers and the same drawing."""
    recording = torchrecorder.record(
        nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.ones(2, 4), backward=True, stats=True
    )
    recording.graph, recording.structures  # what is computed once must not be in the way
    again = copied(recording)
    assert again == recording
    assert again.table() == recording.table()
    assert again.render(tmp_path / "a.dot").read_text() == recording.render(
        tmp_path / "b.dot"
    ).read_text()


def test_a_copy_is_frozen():
    """Nothing can be put into the mappings of a copy."""
    again = copy.deepcopy(stepped())
    for name in ("scopes", "modules", "ops", "values", "grad_nodes", "measured"):
        with pytest.raises(TypeError):
            getattr(again, name)["new"] = None
    with pytest.raises(TypeError):
        next(iter(again.measured.values()))["new"] = 1.0


@WAYS
def test_kept_tensors_come_along(copied):
    """What was asked for with ``keep=`` is in the copy."""
    recording = torchrecorder.record(
        nn.Sequential(nn.Linear(4, 3)), torch.ones(2, 4), backward=True, keep=["0"]
    )
    again = copied(recording)
    assert torch.equal(again.activations["0"], recording.activations["0"])
    assert torch.equal(again.gradients["0"], recording.gradients["0"])


def test_the_autograd_graph_does_not_come_along():
    """A copy cannot run grad nodes again, and says so; the original still can."""
    recording = torchrecorder.record(
        nn.Linear(4, 3), torch.ones(2, 4), backward=True, replay=True
    )
    ran = recording.grad_runs[0].grad
    with pytest.raises(NotKept, match="replay=True"):
        copy.copy(recording).replay(ran)
    assert recording.replay(ran)


def test_a_pickle_needs_no_torch(tmp_path):
    """A real run's pickle is loaded where PyTorch is not installed."""
    recording = torchrecorder.record(nn.Linear(4, 3), torch.ones(2, 4), backward=True)
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(recording))
    program = (
        "import pickle, sys; sys.modules['torch'] = None;"
        "print(pickle.load(open(sys.argv[1], 'rb')))"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run.pickle")]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert printed.strip() == repr(recording)


def test_a_recording_goes_to_another_process_and_back():
    """A new process, which has not imported anything of ours, gets and gives recordings."""
    recording = stepped()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(copy.copy, recording).result(timeout=300) == recording


def test_tables_are_read_only_whoever_makes_them():
    """A recording has its own copy of each table that it is given, also of nested ones."""
    measured = {"peak": {"o0": 1.0}}
    changed = replace(Builder("Net").recording(), measured=measured)
    measured["peak"]["o0"] = 2.0
    assert changed.measured == {"peak": {"o0": 1.0}}
    with pytest.raises(TypeError):
        changed.measured["peak"]["o0"] = 3.0
