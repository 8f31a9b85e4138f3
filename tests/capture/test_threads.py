"""Threads inside a model: their grad nodes carry numbers that this thread has given out too."""

from __future__ import annotations

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import torchrecorder
from tests.notation import flow
from tests.reach import disagreements
from tests.structure import structure
from tests.zoo.case import Run, leaf, net, parameter
from torchrecorder.capture.internals.access import next_node_number
from torchrecorder.capture.recorder import Recorder
from torchrecorder.testing.inert import assert_inert

pytestmark = pytest.mark.usefixtures("strict")


def _in_thread(function, *args):
    made = []
    thread = threading.Thread(target=lambda: made.append(function(*args)))
    thread.start()
    thread.join()
    return made[0]


def beside():
    """The thread makes as many nodes as this one, of other kinds."""

    def forward(self, x):
        y = x * 2
        z = _in_thread(lambda: (y.sin() * self.w).cos())
        return y.tanh() + z

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def alike():
    """The thread makes the very nodes that this one makes, from the same tensors."""

    def forward(self, x):
        y = (x * self.w).sin()
        z = _in_thread(lambda: (x * self.w).sin().exp())
        return y + z

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def replicas():
    """Parts of the input go through replicas of a module, each in its thread."""

    def forward(self, x):
        pairs = zip(x.chunk(2), (self.a, self.b))
        parts = [_in_thread(lambda: module(part).relu()) for part, module in pairs]
        return torch.cat(parts) * x.sum()

    return Run(net(forward, a=nn.Linear(3, 3), b=nn.Linear(3, 3)), (leaf(4, 3),))


def pool():
    """Threads that take turns."""

    def forward(self, x):
        with ThreadPoolExecutor(2) as threads:
            return sum(threads.map(lambda each: (x * self.w + each).exp(), range(3)))

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def in_place():
    """The thread writes a tensor of this one."""

    def forward(self, x):
        y = x * 1
        _in_thread(lambda: y.mul_(self.w).sin_())
        return y + 1

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def back_and_forth():
    """A thread reads what another gave."""

    def forward(self, x):
        y = _in_thread(lambda: x.sin().cos()).exp()
        return _in_thread(lambda: y.sin().cos() * self.w).tan()

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def thread_in_thread():
    """A thread starts a thread."""

    def forward(self, x):
        return _in_thread(lambda: _in_thread(lambda: x.sin()) * self.w).exp() * x.sin()

    return Run(net(forward, w=parameter(3)), (leaf(3),))


def long():
    """Many nodes on both sides."""

    def forward(self, x):
        y = x
        for _ in range(5):
            y = y + 1

        def work():
            z = x
            for _ in range(8):
                z = z * self.w
            return z

        z = _in_thread(work)
        for _ in range(5):
            y = y.sin()
        return y * z

    return Run(net(forward, w=parameter(3)), (leaf(3),))


each_model = pytest.mark.parametrize(
    "build",
    [beside, alike, replicas, pool, in_place, back_and_forth, thread_in_thread, long],
)


def _fresh(build):
    torch.manual_seed(0)
    return build()


def _record(build, **options):
    run = _fresh(build)
    return torchrecorder.record(run.model, run.args, run.kwargs, **options)


@each_model
def test_gradients_find_the_way(build):
    """Every leaf leads to the output as in autograd's own graph, node by node."""
    recording = _record(build)
    assert structure(recording) == []
    assert disagreements(recording, _fresh(build)) == []


@each_model
def test_is_inert(build):
    """The run cannot be told from a plain one; no node is held when it is over."""

    def make():
        run = _fresh(build)
        return run.model, run.args, {}

    assert_inert(make)


@each_model
def test_backward_runs_each_node_once(build):
    """In backward each node of every thread is one that runs, once."""
    recording = _record(build, backward=True)
    assert len(recording.backward_runs) == 1
    ran = [each.grad for each in recording.grad_runs]
    assert len(set(ran)) == len(ran) == _count(build)


def _count(build):
    """How many nodes autograd has behind the output."""
    run = _fresh(build)
    stack = [run.model(*run.args).grad_fn]
    seen = set()
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(parent for parent, _ in node.next_functions)
    return len(seen)


def test_what_a_thread_did_is_hidden():
    """Its steps are hidden ops with the right inputs, beside those of this thread."""
    assert flow(_record(beside)).splitlines() == [
        "mul = mul(x)",
        "tanh = tanh(mul)",
        "sin = sin?(mul)",
        "mul2 = mul?(sin, w)",
        "cos = cos?(mul2)",
        "add = add(tanh, cos)",
        "return add",
    ]


def test_equal_work_is_not_mixed_up():
    """The thread's own sine is not this thread's, which has the same number and inputs."""
    assert flow(_record(alike)).splitlines() == [
        "mul = mul(x, w)",
        "sin = sin(mul)",
        "mul2 = mul?(x, w)",
        "sin2 = sin?(mul2)",
        "exp = exp?(sin2)",
        "add = add(sin, exp)",
        "return add",
    ]


def test_a_profile_of_the_users_goes_on():
    """A profile function for threads hears every one of them, and is there afterwards."""
    heard = []

    def profile(frame, event, argument):
        heard.append(event)

    threading.setprofile(profile)
    try:
        with Recorder():
            _in_thread(len, "abc")
        assert threading.getprofile() is profile
    finally:
        threading.setprofile(None)
    assert heard
    with Recorder():
        pass
    assert threading.getprofile() is None
    assert sys.getprofile() is None


def _pooled(work, *args):
    """The result of a thread that was there before any recorder, and has made nodes."""
    return POOL.submit(work, *args).result()


POOL = ThreadPoolExecutor(1)


@pytest.mark.parametrize("before", [0, 60])
def test_waiting_pool(before):
    """Nodes of a waiting thread are told from ours by their numbers, above or below."""
    _pooled(lambda: leaf(3) * 2)
    for _ in range(before):
        leaf(3).sin()

    def forward(self, x):
        y = x.sin()
        return y * _pooled(lambda: y.cos().exp())

    recording = torchrecorder.record(net(forward), (leaf(3),))
    assert flow(recording) == "\n".join(
        ["sin = sin(x)", "cos = cos?(sin)", "exp = exp?(cos)", "mul = mul(sin, exp)", "return mul"]
    )
    assert structure(recording) == []


def test_pool_takes_every_number():
    """Whatever number a waiting thread has come to, none of its nodes is one of ours."""

    def forward(self, x):
        y = x.sin()
        return y * _pooled(lambda: y.exp().cos())

    model = net(forward)
    for _ in range(20):
        (sin, exp, cos, mul) = torchrecorder.record(model, (leaf(3),)).ops.values()
        assert [each.name for each in (sin, exp, cos, mul)] == ["sin", "exp", "cos", "mul"]
        assert mul.inputs[1].value == cos.outputs[0]


def test_another_thread_gets_the_scopes_of_the_recorded_one():
    """As a sampling profiler asks, while the model runs and after it."""
    inside, go_on, told = threading.Event(), threading.Event(), []

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            assert go_on.wait(60)
            return x * 2

    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Waits()))

    def sample():
        assert inside.wait(60)
        told.append(recorder.scopes)
        go_on.set()

    sampler = threading.Thread(target=sample)
    with torchrecorder.Recorder(model) as recorder:
        sampler.start()
        model(torch.ones(1, 2))
        sampler.join()
    assert told == [("Sequential", "1", "1.0")]
    assert recorder.scopes == ()


class Tasks(nn.Module):
    """Adds one so many times in a task of its own, and what it makes itself."""

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        task = torch.jit.fork(_add_ones, x, times)
        return torch.cos(x) + torch.jit.wait(task)


@torch.jit.script
def _add_ones(x: torch.Tensor, times: int) -> torch.Tensor:
    for _ in range(times):
        x = x + 1.0
    return x


@pytest.mark.parametrize("ahead", range(6))
def test_task_of_a_script_takes_every_number(ahead):
    """Nodes of a task and of the script around it are told apart, also by equal numbers."""
    script = torch.jit.script(Tasks())
    model = net(lambda self, x: self.script(x * 2, 1), script=script)
    number = leaf(3).sin().grad_fn._sequence_nr()
    task = script(leaf(3), 1).grad_fn.next_functions[1][0]._sequence_nr()
    script(leaf(3), max(1, number + 20 - task))  # its thread has given out more numbers now
    task = script(leaf(3), 1).grad_fn.next_functions[1][0]._sequence_nr()
    while leaf(3).sin().grad_fn._sequence_nr() < task - ahead:
        pass
    run = Run(model, (leaf(3),))
    assert disagreements(torchrecorder.record(run.model, run.args), run) == []


def in_two_threads(pool):
    return lambda x: x.cos() + pool.submit(torch.sinh, x).result()


@pytest.mark.parametrize("equal", (1, 2))
def test_operator_creates_nodes_in_two_threads(equal):
    """A node of the other thread has the number of the cosine, or of the sum."""
    scoped = torch.library._scoped_library("two_threads", "DEF")
    with scoped as library, ThreadPoolExecutor(1) as pool:
        library.define("both(Tensor x) -> Tensor")
        library.impl("both", in_two_threads(pool), "CompositeImplicitAutograd")
        while pool.submit(next_node_number).result() < next_node_number() + equal:
            pool.submit(leaf(3).sin).result()
        run = Run(net(lambda self, x: torch.ops.two_threads.both(x * 2)), (leaf(3),))
        assert disagreements(torchrecorder.record(run.model, run.args), run) == []


def test_what_a_thread_ran_is_reported():
    """A thread that ran modules is named in a note; if nothing else ran, a warning says so."""
    model, x = nn.Sequential(nn.Tanh(), nn.Tanh()), torch.ones(2)
    told = r"nothing was recorded .*; thread \(model\) ran modules .* threads=True"
    with pytest.warns(match=told):
        with Recorder(model) as recorder:
            for _ in range(2):
                thread = threading.Thread(target=model, args=(x,), name="Thread-9 (model)")
                thread.start()
                thread.join()
    (note,) = recorder.recording.run.notes
    assert note == (
        "thread (model) ran modules meanwhile (6 calls): what it ran is not recorded"
    )


def test_threads_with_a_recorder_are_not_reported():
    """Nor is one that runs no module, of which nobody knows what it did."""
    model, x = nn.Tanh(), torch.ones(2)

    def recorded():
        with Recorder(model) as other:
            model(x)
        return other.recording

    with Recorder(model) as recorder:
        model(x)
        assert len(_in_thread(recorded).ops) == 1
        _in_thread(torch.sin, x)
    assert recorder.recording.run.notes == ()


def test_a_block_that_ends_in_another_thread():
    """What runs afterwards is not recorded, although PyTorch keeps the mode of the first thread."""
    recorder, x = torchrecorder.Recorder(), torch.ones(2)

    def leave():
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            recorder.__exit__(None, None, None)
        return [str(item.message) for item in found]

    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        first.submit(recorder.__enter__).result()
        tape = recorder._tape
        first.submit(torch.add, x, 1).result()
        (caught,) = second.submit(leave).result()
        first.submit(torch.mul, x, 2).result()
    assert "ended in another thread" in caught
    assert [op.name for op in recorder.recording.ops.values()] == ["add"]
    assert not tape.events
