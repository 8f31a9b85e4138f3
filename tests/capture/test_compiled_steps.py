"""Compiled steps of optimizers: compiled under the recorder, too, and one operation each."""

from __future__ import annotations

import contextlib
import threading

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.capture.hooks.deferred_recorder import Awaited
from torchrecorder.capture.internals.compiled_calls import optimizer_hooks
from torchrecorder.errors import Notice
from torchrecorder.events import ScopeKind

pytest.importorskip("torch._dynamo")


class Backend:
    """Counts graphs and runs; what it makes computes other bits than eager mode."""

    def __init__(self):
        self.graphs = self.runs = 0
        self.fails = False

    def __call__(self, graph, inputs):
        self.graphs += 1

        def run(*args):
            self.runs += 1
            if self.fails:
                raise ArithmeticError("the kernel failed")
            result = graph.forward(*args)
            for tensor in args:
                if isinstance(tensor, nn.Parameter):
                    tensor.mul_(1.001)
            return result

        return torch._dynamo.disable(run)


@pytest.fixture
def backend():
    """A new one; the compiler forgets everything before and after."""
    torch._dynamo.reset()
    yield Backend()
    torch._dynamo.reset()


class Each(torch.optim.Optimizer):
    """Calls a compiled function for each parameter, as optimizers of few bits do."""

    def __init__(self, parameters, backend):
        super().__init__(parameters, {"lr": 0.1})
        self.update = torch.compile(update, backend=backend)

    @torch.no_grad()
    def step(self, closure=None):
        """Take one."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, parameter.grad, group["lr"])


def update(parameter, gradient, rate):
    """One parameter."""
    parameter.sub_(helper(gradient) * rate)


def helper(gradient):
    """Another function."""
    return gradient.sign()


def of_method(net, backend):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return optimizer, torch.compile(optimizer.step, backend=backend)


def of_function(net, backend):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @torch.compile(backend=backend)
    def step():
        optimizer.step()

    return optimizer, step


def of_each(net, backend):
    optimizer = Each(net.parameters(), backend)
    return optimizer, optimizer.step


KINDS = (of_method, of_function, of_each)


def trained(kind, backend, recorded=(), **options):
    """The weights after four steps, what was recorded of some of them, and graphs by step."""
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    optimizer, step = kind(net, backend)
    recordings, graphs = [], []
    for number in range(4):
        block = tr.Recorder(net, **options) if number in recorded else contextlib.nullcontext()
        with block as recorder:
            net(torch.ones(2, 4)).pow(2).mean().backward()
            step()
            optimizer.zero_grad()
            net(torch.ones(2, 4))
        if recorder is not None:
            recordings.append(recorder.recording)
        graphs.append(backend.graphs)
    return net.weight.detach().clone(), recordings, graphs


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recorded", [(0,), (2,), (0, 1, 2, 3)])
def test_weights_are_those_of_the_plain_run(kind, recorded, backend):
    """Bit for bit, with as many graphs and runs, whether it was compiled before or not."""
    plain, _, graphs = trained(kind, backend)
    runs = backend.runs
    torch._dynamo.reset()
    backend.graphs = backend.runs = 0
    weights, recordings, ours = trained(kind, backend, recorded)
    assert torch.equal(weights, plain)
    assert (ours, backend.runs) == (graphs, runs)
    assert [recording.run.notes for recording in recordings] == [()] * len(recorded)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_one_operation(kind, backend):
    """In the region of its optimizer; it reads gradients, and the next call reads what it wrote."""
    _, (recording,), _ = trained(kind, backend, (2,))
    assert recording.run.lost == 0
    names = [op.name for op in recording.ops.values()]
    expected = ["update", "update"] if kind is of_each else ["step"]
    first = names.index(expected[0])
    assert names[first : first + len(expected)] == expected and "sub_" not in names
    steps = [op for op in recording.ops.values() if op.name in expected]
    for op in steps:
        assert recording.scopes[op.scope].kind is ScopeKind.OPTIMIZER
        assert recording.scopes[op.scope].name in ("SGD", "Each")
    last = [op for op in recording.ops.values() if op.name == "linear"][-1]
    writers = {recording.values[slot.value].producer for slot in last.inputs[1:]}
    assert writers == {op.id for op in steps}
    backward = next(op for op in recording.ops.values() if op.name == "backward")
    read = {recording.values[slot.value].producer for op in steps for slot in op.inputs}
    assert backward.id in read


@pytest.mark.parametrize(
    "options", [{"flops": True}, {"memory": True}, {"stats": True}, {"compiled": True}]
)
def test_with_other_instruments(options, backend):
    """Which hear nothing of it, and go on afterwards."""
    plain, _, graphs = trained(of_method, backend)
    torch._dynamo.reset()
    backend.graphs = 0
    weights, (recording,), ours = trained(of_method, backend, (2,), **options)
    assert torch.equal(weights, plain) and ours == graphs and recording.run.lost == 0
    assert [op.name for op in recording.ops.values()][-1] == "linear"


def test_recorders_inside_each_other(backend):
    """Each has the step."""
    plain, _, _ = trained(of_method, backend)
    with tr.Recorder() as outer:
        weights, recordings, _ = trained(of_method, backend, (2,))
    assert torch.equal(weights, plain)
    names = [op.name for op in outer.recording.ops.values()]
    assert names.count("step") == 4 and outer.recording.run.lost == 0
    assert [op.name for op in recordings[0].ops.values()].count("step") == 1


def test_a_step_that_raises(backend):
    """The error is the program's, the recording says where it was, and the recorder goes on."""
    net = nn.Linear(4, 4)
    _, step = of_method(net, backend)
    net(torch.ones(2, 4)).sum().backward()
    step()
    backend.fails = True
    with tr.Recorder(net) as recorder:
        with pytest.raises(ArithmeticError, match="the kernel failed"):
            step()
        torch.ones(3).exp()
    recording = recorder.recording
    assert [op.name for op in recording.ops.values()] == ["step", "ones", "exp"]
    assert recording.run.lost == 0 and not optimizer_hooks()
    assert torch._C._len_torch_function_stack() == 0


def test_what_calls_modules_is_seen_inside(backend):
    """A compiled training step, and the closure of an optimizer: they run eagerly, as before."""
    net = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def step(x):
        net(x).sum().backward()
        optimizer.step()

    with pytest.warns(Notice, match="ran eagerly"), tr.Recorder(net) as recorder:
        step(torch.ones(2, 4))
    names = [op.name for op in recorder.recording.ops.values()]
    assert "linear" in names and "add_" in names and backend.runs == 0


def test_other_threads_are_not_affected(backend):
    """What is compiled in a thread that is not recorded runs eagerly, as before."""
    net = nn.Linear(4, 4)
    _, step = of_method(net, backend)
    net(torch.ones(2, 4)).sum().backward()
    with tr.Recorder(net):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
    assert backend.runs == 0


def test_an_awaited_step_runs_eagerly(backend):
    """Where hooks of ours have to hear of the optimizer, there is a note instead."""
    net = nn.Linear(4, 4)
    _, step = of_method(net, backend)
    with pytest.warns(Notice, match="ran eagerly"):
        with Awaited(lambda module, frame: module is net) as awaited:
            net(torch.ones(2, 4)).sum().backward()
            step()
            net(torch.ones(2, 4))
    assert any("ran eagerly" in note for note in awaited.recording.run.notes)
    assert backend.runs == 0


def test_nothing_is_left_behind(backend):
    """PyTorch's functions are its own again."""
    home = torch._dynamo.eval_frame
    before = home._callback_from_stance, home._maybe_set_eval_frame
    with tr.Recorder() as recorder:
        assert home._callback_from_stance is not before[0]
    assert (home._callback_from_stance, home._maybe_set_eval_frame) == before
    assert recorder.recording.run.lost == 0
