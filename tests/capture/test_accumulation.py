"""Several backward passes: who left which gradient, and what a pass adds to."""

from __future__ import annotations

import contextlib
from typing import Any

import networkx as nx
import pytest
import torch
from torch import nn

import torchrecorder
from tests.callers import called
from tests.structure import structure
from torchrecorder.events import Role
from torchrecorder.recording import Recording

pytestmark = pytest.mark.usefixtures("strict")


def model() -> nn.Module:
    """Two layers, the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))


def passes(recording: Recording) -> list[str]:
    """The calls of backward."""
    return [run.op for run in recording.backward_runs]


def behind(recording: Recording, scope: str) -> set[str]:
    """The calls of backward that the step of an optimizer depends on."""
    ops = [op.id for op in recording.ops.values() if scope in recording.within(op.scope)]
    before = set().union(*(nx.ancestors(recording.graph, op) for op in ops))
    return before & set(passes(recording))


def steps(recording: Recording) -> list[str]:
    """The steps of optimizers."""
    return [each.id for each in recording.scopes.values() if each.kind.value == "optimizer"]


def accumulated(net: nn.Module, times: int, **options: Any) -> None:
    """So many passes, and a step."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    optimizer.zero_grad()
    for number in range(times):
        net(torch.full((2, 3), float(number + 1))).sum().backward(**options)
    optimizer.step()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_accumulated_passes_are_a_chain(create_graph: bool) -> None:
    """Each reads what the one before left; the step depends on all; the result is the same."""
    plain, watched = model(), model()
    accumulated(plain, 3, create_graph=create_graph)
    with torchrecorder.Recorder(watched) as recorder:
        accumulated(watched, 3, create_graph=create_graph)
    recording = recorder.recording
    assert structure(recording) == []
    for one, other in zip(plain.parameters(), watched.parameters()):
        assert one.grad is not None and other.grad is not None
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    first, second, third = passes(recording)
    assert nx.has_path(recording.graph, first, second)
    assert nx.has_path(recording.graph, second, third)
    assert behind(recording, steps(recording)[0]) == {first, second, third}
    assert len(recording.ops[second].inputs) == 1 + 4


def test_what_a_pass_adds_to_is_written_although_it_is_not_read() -> None:
    """By the pass that reads it as well; the first only writes."""
    net = model()
    with torchrecorder.Recorder(net) as recorder:
        for _ in range(3):
            net(torch.ones(2, 3)).sum().backward()
    recording = recorder.recording
    _, *others = (recording.ops[each] for each in passes(recording))
    for op in others:
        added = [slot.value for slot in op.inputs if slot.name.endswith(".grad")]
        assert len(op.writes) == len(added) == len(list(net.parameters()))
        assert op.outputs == op.writes and not {*op.writes} & {*added}


def test_a_pass_after_zero_grad_adds_to_nothing() -> None:
    """Gradients were freed: the passes have nothing to do with each other, and write nowhere."""
    net = model()
    with torchrecorder.Recorder(net) as recorder:
        accumulated(net, 1)
        accumulated(net, 1)
    recording = recorder.recording
    for op in map(recording.ops.__getitem__, passes(recording)):
        assert len(op.inputs) == 1 and len(op.outputs) == 4 and not op.writes
        assert recording.annotations["output_bytes"].of([op.id]) == 4 * sum(
            weight.numel() for weight in net.parameters()
        )
    one, other = steps(recording)
    assert behind(recording, one) == {passes(recording)[0]}
    assert passes(recording)[1] in behind(recording, other)


def test_each_optimizer_reads_the_gradients_of_its_own_pass() -> None:
    """Both passes ran before both steps; they are of different models."""
    nets = model(), model()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    with torchrecorder.Recorder() as recorder:
        for net in nets:
            net(torch.ones(2, 3)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    recording = recorder.recording
    assert structure(recording) == []
    one, other = passes(recording)
    first, second = steps(recording)
    assert behind(recording, first) == {one} and behind(recording, second) == {other}


def test_a_pass_accumulates_only_where_it_was_asked() -> None:
    """``inputs=`` leaves the other gradients alone."""
    net = model()
    weight = next(net.parameters())
    with torchrecorder.Recorder(net) as recorder:
        net(torch.ones(2, 3)).sum().backward()
        net(torch.ones(2, 3)).sum().backward(inputs=[weight])
        total = sum(each.grad.sum() for each in net.parameters() if each.grad is not None)
    assert torch.isfinite(torch.as_tensor(total))
    recording = recorder.recording
    second = recording.ops[recording.backward_runs[1].op]
    (slot,) = (each for each in second.inputs if each.name.endswith(".grad"))
    assert recording.values[slot.value].shape == weight.shape
    assert len(second.writes) == 1


def test_gradients_are_named_after_their_leaves() -> None:
    """After a parameter, an argument whose name is known at the end, a variable, and an op."""
    net, x, scale = nn.Linear(3, 1), torch.ones(2, 3, requires_grad=True), torch.ones(1)
    scale.requires_grad_()
    with torchrecorder.Recorder(net) as recorder:
        made = torch.rand(1).requires_grad_()
        for _ in range(2):
            (net(x) * scale * made).sum().backward()
        leaves = (net.weight, net.bias, x, scale, made)
        total = sum(2 * each.grad.sum() for each in leaves if each.grad is not None)
    assert torch.isfinite(torch.as_tensor(total))
    recording = recorder.recording
    outside = called("scale", "constant")
    wanted = {f"{name}.grad" for name in ("weight", "bias", called("x", "input"), outside, "rand")}
    read = [op for op in recording.ops.values() if op.name == "sum"][2:]
    assert {recording.values[op.inputs[0].value].names for op in read} == {(one,) for one in wanted}
    (_, second) = recording.backward_runs
    assert {slot.name for slot in recording.ops[second.op].inputs[1:]} == wanted
    assert recording.find("weight.grad")


def test_a_gradient_freed_while_the_pass_runs_is_freed() -> None:
    """A hook that steps in backward and drops the gradient gets its memory back."""
    import weakref

    net = nn.Linear(3, 1)
    net(torch.ones(2, 3)).sum().backward()
    alive: list[bool] = []
    known: list[weakref.ref[torch.Tensor]] = []

    def drop(parameter: torch.Tensor) -> None:
        known.append(weakref.ref(parameter.grad))  # type: ignore[arg-type]
        parameter.grad = None
        alive.append(known[-1]() is not None)

    with torchrecorder.Recorder(net) as recorder:
        net(torch.ones(2, 3)).sum().backward()
        net.weight.register_post_accumulate_grad_hook(drop)
        net(torch.ones(2, 3)).sum().backward()
    assert alive == [False]
    assert len(passes(recorder.recording)) == 2


def test_gradients_from_before_the_run() -> None:
    """They are constants; those of a backward pass in the run are made by it."""
    weight = torch.ones(3, requires_grad=True)
    weight.sum().backward()
    recording = torchrecorder.record(lambda: weight.grad * 2)
    (op,) = [op for op in recording.ops.values() if op.name == "mul"]
    (read,) = op.inputs
    assert recording.values[read.value].role is Role.CONSTANT

    def step() -> torch.Tensor:
        weight.grad = None
        weight.sum().backward()
        return weight.grad * 2

    recording = torchrecorder.record(step)
    (last,) = [op for op in recording.ops.values() if op.name == "mul"]
    value = recording.values[last.inputs[0].value]
    assert value.role is Role.INNER
    assert recording.ops[value.producer].name == "backward"


@pytest.mark.parametrize("given", ["grad", "hook", "before", "under a mode"])
def test_a_gradient_that_the_program_assigns_is_that_of_the_leaf(given: str) -> None:
    """From ``autograd.grad``, in a hook, before a pass that adds to it, or under a mode: an update
    by hand reads what was assigned."""
    net = nn.Linear(3, 1)
    if given == "hook":

        def halve(leaf: torch.Tensor) -> None:
            leaf.grad = leaf.grad * 0.5

        net.weight.register_post_accumulate_grad_hook(halve)
    mode = torch.device("cpu") if given == "under a mode" else contextlib.nullcontext()
    with mode, torchrecorder.Recorder(net) as recorder:
        loss = net(torch.ones(2, 3)).sum()
        if given in ("grad", "under a mode"):
            (net.weight.grad,) = torch.autograd.grad(loss, [net.weight])
        else:
            if given == "before":
                net.weight.grad = torch.zeros_like(net.weight)
            loss.backward()
        with torch.no_grad():
            net.weight -= net.weight.grad * 0.1
    recording = recorder.recording
    (update,) = (op for op in recording.ops.values() if op.name == "sub_")
    (scaled,) = (op for op in recording.ops.values() if ("other", "0.1") in op.arguments)
    read = recording.values[scaled.inputs[0].value]
    assert read.names == ("weight.grad",) and read.shape == (1, 3)
    by = {"grad": "grad", "under a mode": "grad", "hook": "mul", "before": "zeros_like"}[given]
    (made,) = (op.id for op in recording.ops.values() if op.name == by and op is not scaled)
    assert {made} <= nx.ancestors(recording.graph, update.id)
    if given == "before":
        (run,) = recording.backward_runs
        assert [slot.name for slot in recording.ops[run.op].inputs] == ["self", "weight.grad"]
    assert recording.why_no_gradient("weight") is None
    assert recording.annotations["gradient_bytes"].by_node["v0"] == 12


def test_what_is_no_new_gradient_is_no_operation() -> None:
    """None, the gradient itself, also after an update of the weight, and one of a wrong shape."""
    net = nn.Linear(3, 1)
    with torchrecorder.Recorder(net) as recorder:
        net(torch.ones(2, 3)).sum().backward()
        net.weight.grad = net.weight.grad
        with torch.no_grad():
            net.weight.sub_(net.weight.grad)
        net.weight.grad = net.weight.grad
        net.bias.grad = None
        with contextlib.suppress(RuntimeError):
            net.bias.grad = torch.ones(7)
    names = [op.name for op in recorder.recording.ops.values() if not op.failed]
    assert names == ["ones", "linear", "sum", "backward", "sub_", "ones"]


def test_gradients_in_memory_that_is_read_as_a_whole_are_those_of_the_pass() -> None:
    """The program has assigned them before the run; the whole is read before its parts."""
    weight, flat = torch.ones(3, requires_grad=True), torch.zeros(6)
    weight.grad = flat[:3]
    with torchrecorder.Recorder() as recorder:
        (weight * 2).sum().backward()
        flat.norm()
        weight.grad.norm()
    recording = recorder.recording
    (run,), last = recording.backward_runs, [*recording.ops.values()][-1]
    assert recording.values[last.inputs[0].value].producer == run.op
