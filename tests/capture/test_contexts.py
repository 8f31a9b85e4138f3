"""Recorders inside recorders, threads, modes and contexts of the user."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import torchrecorder
from tests.callers import called
from tests.notation import flow, op_names
from tests.structure import structure
from tests.zoo.case import net
from torchrecorder.errors import RecorderInUse
from torchrecorder.events import OpKind


def test_a_recorder_in_a_recorder():
    """Both hear what runs inside them, and the outer one nothing of the inner one's."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3)
    with torchrecorder.Recorder(model) as outer:
        y = x + 1
        with torchrecorder.Recorder(model) as inner:
            z = model(y)
        z * 2
    assert op_names(inner.recording) == ["linear", "relu"]
    assert op_names(outer.recording) == ["add", "linear", "relu", "mul"]
    alone = flow(torchrecorder.record(model, y))
    assert flow(inner.recording) == alone.replace("input", called("y", "input"))


def test_record_inside_a_recorder():
    """A look at a part inside a recorded run disturbs neither."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with torchrecorder.Recorder(model) as outer:
        inner = torchrecorder.record(model, torch.ones(2, 3))
        model(torch.ones(2, 3))
    assert op_names(inner) == ["linear", "add_", "batch_norm"]
    assert structure(outer.recording) == []
    called = [op.name for op in outer.recording.ops.values() if op.kind is OpKind.CALLED]
    assert called == ["ones", "linear", "add_", "batch_norm"] * 2


def test_two_recorders_in_two_threads():
    """Each hears its own thread."""
    models = [nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 3), nn.Tanh())]
    recordings, barrier = {}, threading.Barrier(2)

    def work(number):
        barrier.wait()
        for _ in range(20):
            found = torchrecorder.record(models[number], torch.ones(2, 3))
            recordings.setdefault(number, []).append(flow(found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number, model in enumerate(models):
        assert set(recordings[number]) == {flow(torchrecorder.record(model, torch.ones(2, 3)))}
        assert len(recordings[number]) == 20


def test_a_recorder_serves_once():
    """Entering again, or asking too early, says what to do."""
    recorder = torchrecorder.Recorder(nn.Linear(3, 3))
    with pytest.raises(RecorderInUse):
        recorder.recording
    with recorder:
        with pytest.raises(RecorderInUse):
            recorder.recording
        with pytest.raises(RecorderInUse):
            recorder.__enter__()
    with pytest.raises(RecorderInUse):
        with recorder:
            pass
    assert op_names(recorder.recording) == []


def test_a_block_that_does_not_run_cannot_be_left():
    """One that was not entered, and one that was left before."""
    recorder = torchrecorder.Recorder()
    with pytest.raises(RecorderInUse, match="was never entered"):
        recorder.__exit__(None, None, None)
    with recorder:
        pass
    with pytest.raises(RecorderInUse, match="has ended"):
        recorder.__exit__(None, None, None)


def test_a_recorder_says_where_the_methods_of_its_recording_are():
    """A name that neither has gets no advice; an error in a property keeps its own text."""
    recorder = torchrecorder.Recorder()
    with pytest.raises(AttributeError, match=r": recorder\.recording\.render$") as raised:
        recorder.render
    assert raised.value.name == "render"
    with pytest.raises(AttributeError, match="no attribute 'rendre'$"):
        recorder.rendre
    with recorder:
        pass
    recorder._built = lambda events: events.missing
    with pytest.raises(AttributeError, match="'tuple' object has no attribute 'missing'"):
        recorder.recording


class Heard(TorchFunctionMode):
    """A function mode of the user's that lists what it hears."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    """A dispatch mode of the user's that lists what it hears."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def residual():
    """A model with a norm, an identity and a dropout that does something."""

    def forward(self, x):
        return self.drop(self.norm(self.fc(x))) + self.skip(x)

    return net(forward, fc=nn.Linear(3, 3), norm=nn.BatchNorm1d(3), drop=nn.Dropout(0.5),
               skip=nn.Identity())


@pytest.mark.parametrize("mode", [Heard, Dispatched])
def test_inside_a_mode_of_the_user(mode):
    """A mode around the recording hears what it hears of a plain run, and no more."""
    model = residual()
    torch.manual_seed(0)
    with mode() as plain:
        model(torch.ones(2, 3))
    with mode() as around:
        with torchrecorder.Recorder(model) as recorder:
            model(torch.ones(2, 3))
    made_by_test = ["ones"] if mode is Heard else ["aten.ones.default"]
    assert [each for each in around.calls if each not in made_by_test] == [
        each for each in plain.calls if each not in made_by_test
    ]
    assert structure(recorder.recording) == []
    assert "linear" in op_names(recorder.recording)


@pytest.mark.parametrize("mode", [Heard, Dispatched])
def test_a_mode_of_the_user_inside_the_model(mode):
    """A mode that the model enters itself hears its calls; the recorder hears them too."""
    heard = []

    def forward(self, x):
        with mode() as inside:
            y = self.fc(x) * 2
        heard.append(list(inside.calls))
        return y

    model = net(forward, fc=nn.Linear(3, 3))
    model(torch.ones(2, 3))
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert heard[0] == heard[1]
    assert [name for name in op_names(recording) if name in ("linear", "mul")] == ["linear", "mul"]


def test_inside_the_profiler():
    """Recording inside a profiler works, and the profiler sees the same operators."""
    model, x = residual(), torch.ones(2, 3)
    model(x)

    def profiled(run):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run()
        return sorted(each.name for each in profile.events() if each.name.startswith("aten::lin"))

    plain = profiled(lambda: model(x))
    assert profiled(lambda: torchrecorder.record(model, x)) == plain


@pytest.mark.parametrize(
    "context",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.device("cpu"),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.graph.save_on_cpu(),
        lambda: torch.random.fork_rng(),
    ],
    ids="no_grad inference autocast device anomaly save_on_cpu fork_rng".split(),
)
def test_inside_a_context_of_the_user(context):
    """Contexts of PyTorch around the recording change neither it nor the run."""

    def run():
        torch.manual_seed(0)
        model = residual()
        with context():
            torch.manual_seed(1)
            with torchrecorder.Recorder(model) as recorder:
                recorded = model(torch.ones(2, 3))
        return recorded, recorder.recording

    torch.manual_seed(0)
    model = residual()
    with context():
        torch.manual_seed(1)
        plain = model(torch.ones(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anomaly mode says that it is slow
        recorded, recording = run()
    assert torch.equal(plain, recorded)
    assert plain.requires_grad == recorded.requires_grad
    assert structure(recording) == []
    assert recording.run.lost == 0
