"""Threads that are started while they are recorded: as if it all had run in one."""

from __future__ import annotations

import gc
import queue
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import torchrecorder
from tests.capture import test_threads as threads
from tests.reach import disagreements
from tests.structure import structure
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import FLOPS_FORWARD, ScopeKind

BUILDS = [
    threads.beside, threads.alike, threads.replicas, threads.pool, threads.in_place,
    threads.back_and_forth, threads.thread_in_thread, threads.long,
]
each_model = pytest.mark.parametrize("build", BUILDS)
PLAIN_START = threading.Thread.start


@pytest.fixture(autouse=True)
def start_restored(strict):
    """Errors of instruments are raised, and the method that starts threads is put back."""
    yield
    assert threading.Thread.start is PLAIN_START


def _fresh(build):
    torch.manual_seed(0)
    return build()


def _record(build, **options):
    run = _fresh(build)
    return torchrecorder.record(run.model, run.args, run.kwargs, threads=True, **options)


def edges(recording):
    """Each operation with what it reads, in run order; values by what made them."""
    found = []
    for op in recording.ops.values():
        read = []
        for slot in op.inputs:
            value = recording.values[slot.value]
            maker = recording.ops[value.producer].name if value.producer else None
            read.append((slot.name, value.shape, value.role, maker or value.names))
        found.append((op.kind, op.name, op.arguments, tuple(read)))
    return found


@each_model
def test_as_in_one_thread(build, monkeypatch):
    """The operations, and what each of them reads, are those of the same calls in one thread."""
    recording = _record(build)
    assert structure(recording) == [] and recording.run.notes == ()
    monkeypatch.setattr(threads, "_in_thread", lambda function, *args: function(*args))
    monkeypatch.setattr(ThreadPoolExecutor, "map", lambda self, *args: map(*args))
    found, wanted = edges(recording), edges(_record(build))
    if build is threads.pool:  # there it is chance which thread is first
        found, wanted = sorted(found, key=repr), sorted(wanted, key=repr)
    assert found == wanted


@each_model
def test_gradients_find_the_way(build):
    """Every leaf leads to the output as in autograd's own graph, node by node."""
    recording = _record(build)
    assert disagreements(recording, _fresh(build)) == []


@each_model
def test_backward_runs_each_node_once(build):
    """In backward each node of every thread is one that runs, once; gradients are the same."""
    recording = _record(build, backward=True)
    assert len(recording.backward_runs) == 1
    ran = [each.grad for each in recording.grad_runs]
    assert len(set(ran)) == len(ran) == threads._count(build)

    def gradients(recorder=None):
        run = _fresh(build)
        with recorder(run.model) if recorder else torch.enable_grad():
            run.model(*run.args).sum().backward()
        return [each.grad for each in (*run.args, *run.model.parameters())]

    plain = gradients()
    recorded = gradients(lambda model: torchrecorder.Recorder(model, threads=True))
    assert all(map(torch.equal, plain, recorded))


def test_threads_lie_where_they_were_started():
    """A thread is a function in the module that started it, with the arguments it was given."""

    class Starts(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            made = []

            def work(part, out):
                out.append(self.fc(part))

            thread = threading.Thread(target=work, args=(x * 2, made))
            thread.start()
            thread.join()
            return made[0]

    recording = torchrecorder.record(Starts(), torch.ones(1, 2), threads=True)
    scopes = recording.scopes
    work, fc = (next(s for s in scopes.values() if s.name == name) for name in ("work", "fc"))
    assert scopes[work.parent].cls == "Starts" and fc.parent == work.id
    assert [slot.name for slot in work.inputs] == ["part"]
    assert recording.outputs[0].value == fc.outputs[0].value


def test_streaming():
    """What generates in a thread, and what reads the results, are one recording."""
    torch.manual_seed(0)
    model, results = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)).eval(), queue.Queue()

    @torch.no_grad()
    def generate(token, steps):
        for _ in range(steps):
            token = model(token).argmax(-1)
            results.put(token)
        results.put(None)

    def stream():
        arguments = {"token": torch.tensor([3]), "steps": 4}
        threading.Thread(target=generate, kwargs=arguments).start()
        return [token + 1 for token in iter(results.get, None)]

    plain = stream()
    with torchrecorder.Recorder(model, threads=True) as recorder:
        found = stream()
    assert all(map(torch.equal, plain, found))
    recording = recorder.recording
    paths = [scope.path for scope in recording.scopes.values() if scope.cls == "Linear"]
    assert paths == ["1"] * 4
    added = [op for op in recording.ops.values() if op.name == "add"]
    makers = [recording.values[op.inputs[0].value].producer for op in added]
    assert [recording.ops[each].name for each in makers] == ["argmax"] * 4


def test_one_that_goes_on():
    """A thread that is still running in the end is recorded until then, and goes on unharmed."""
    begun, ended, found = threading.Event(), threading.Event(), []

    def work(x):
        y = x.sin()
        begun.set()
        ended.wait()
        found.append(y.cos())

    with torchrecorder.Recorder(threads=True) as recorder:
        thread = threading.Thread(target=work, args=(torch.ones(2),))
        thread.start()
        begun.wait()
    ended.set()
    thread.join()
    recording = recorder.recording
    assert [op.name for op in recording.ops.values()] == ["ones", "sin"]
    assert recording.run.notes == ("thread (work) was still running when the recording ended",)
    assert [scope.failed for scope in recording.scopes.values()] == [False]
    assert torch.equal(found[0], torch.ones(2).sin().cos())


def test_errors_stay_in_their_thread(monkeypatch):
    """What a thread raises reaches Python's hook as ever; its scopes have failed."""
    raised = []
    monkeypatch.setattr(threading, "excepthook", lambda given: raised.append(given.exc_value))

    def work():
        nn.Linear(2, 2)(torch.ones(3))

    with torchrecorder.Recorder(threads=True) as recorder:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.ones(2).exp()
    (error,) = raised
    assert isinstance(error, RuntimeError)
    recording = recorder.recording
    assert recording.run.failure is None and list(recording.ops.values())[-1].name == "exp"
    assert {scope.name: scope.failed for scope in recording.scopes.values()} == {
        "work": True, "Linear.__init__": False, "Linear": True
    }


def test_classes_of_threads_and_marks():
    """A ``run`` of a class, or of the thread itself, runs as ever; nothing is left on a thread."""

    class Own(threading.Thread):
        def run(self):
            self.found = "run" in vars(self), torch.ones(2).exp()

    own, timer = Own(), threading.Timer(0, torch.zeros, (2,))
    timer.run = lambda: torch.ones(2).sin()
    kept = timer.run
    with torchrecorder.Recorder(threads=True) as recorder:
        for thread in (own, timer):
            thread.start()
            thread.join()
    assert own.found[0] is False and "run" not in vars(own) and timer.run is kept
    assert [op.name for op in recorder.recording.ops.values()] == ["ones", "exp", "ones", "sin"]


def test_others_are_left_alone():
    """Threads that started before, or are started by others, are not recorded but told."""
    model, started, go = nn.Tanh(), threading.Event(), threading.Event()

    def before():
        started.set()
        go.wait()
        after = threading.Thread(target=model, args=(torch.ones(2),))
        after.start()
        after.join()

    thread = threading.Thread(target=before)
    thread.start()
    started.wait()
    with torchrecorder.Recorder(model, threads=True) as recorder:
        model(torch.ones(2))
        go.set()
        thread.join()
    assert [op.name for op in recorder.recording.ops.values()] == ["ones", "tanh"]
    (note,) = recorder.recording.run.notes
    assert "ran modules meanwhile (1 call)" in note


def test_tensors_are_let_go():
    """Those of a thread live no longer than the thread keeps them."""
    alive = []

    def work():
        y = torch.ones(2).sin()
        alive.append(weakref.ref(y))

    with torchrecorder.Recorder(threads=True):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        gc.collect()
        assert alive[0]() is None


def test_at_the_same_time():
    """Threads that run side by side, each a model: every edge is there, and every result right."""
    torch.manual_seed(0)
    models = [nn.Sequential(*(nn.Linear(4, 4) for _ in range(9))) for _ in range(4)]
    x, start = torch.randn(2, 4), threading.Barrier(4)

    def work(model):
        start.wait()
        return [model(x * step).sum() for step in range(20)]

    with torchrecorder.Recorder(nn.ModuleList(models), threads=True) as recorder:
        with ThreadPoolExecutor(4) as workers:
            found = list(workers.map(work, models))
        sum(map(sum, found)).backward()
    recording = recorder.recording
    assert structure(recording) == [] and recording.run.lost == 0
    names = [op.name for op in recording.ops.values()]
    assert (names.count("linear"), names.count("sum"), names.count("backward")) == (720, 80, 1)
    assert not [op for op in recording.ops.values() if op.kind == "hidden"]
    grads = [each.grad.clone() for model in models for each in model.parameters()]
    for each in models:
        each.zero_grad()
    sum(model(x * step).sum() for model in models for step in range(20)).backward()
    plain = [each.grad for model in models for each in model.parameters()]
    assert all(map(torch.allclose, grads, plain))


def test_several_recorders():
    """Each records the thread; measured amounts are those of one thread."""

    def work():
        torch.ones(4, 4) @ torch.ones(4, 4)

    with torchrecorder.Recorder(threads=True, flops=True) as outer:
        with torchrecorder.Recorder(threads=True, flops=True, stats=True) as inner:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    for recorder in (outer, inner):
        recording = recorder.recording
        assert [op.name for op in recording.ops.values()] == ["ones", "ones", "matmul"]
        assert sum(recording.measured[FLOPS_FORWARD].values()) == 2 * 4**3


def test_not_a_flag():
    """The option is checked early."""
    for call in (torchrecorder.Recorder, lambda **options: torchrecorder.record(len, **options)):
        with pytest.raises(InvalidArgument, match="threads"):
            call(threads="yes")


def test_the_time_of_a_thread_that_outlives_the_recording():
    """Its scopes end with the recording, and have the time until then."""
    begun, over = threading.Event(), threading.Event()

    def endless():
        torch.ones(2).exp()
        begun.set()
        over.wait(30)

    thread = threading.Thread(target=endless)
    with torchrecorder.Recorder(threads=True) as recorder:
        thread.start()
        assert begun.wait(30)
    over.set()
    thread.join()
    recording = recorder.recording
    (scope,) = [scope for scope in recording.scopes.values() if scope.name == "endless"]
    assert 0 < scope.seconds <= recording.run.seconds and not scope.failed
    assert "still running" in " ".join(recording.run.notes)


def test_a_thread_that_starts_after_a_region():
    """The making of a model has ended when the thread starts, though no operation says so."""
    x = torch.ones(1, 2)
    with torchrecorder.Recorder(threads=True) as recorder:
        layer = nn.Linear(2, 2)
        thread = threading.Thread(target=layer, args=(x,))
        thread.start()
        thread.join()
    recording = recorder.recording
    ran = [op.scope for op in recording.ops.values() if op.name == "linear"]
    around = [recording.scopes[scope].kind for scope in recording.within(*ran)]
    assert ScopeKind.MODULE in around and ScopeKind.CONSTRUCTION not in around
