"""One of several processes: what it sends is heard, and looking at it sends nothing."""

from __future__ import annotations

import contextlib

import networkx as nx
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

import torchrecorder
from tests.capture.processes import collectives, process_group, sent, sharded, step, tensor_parallel
from tests.structure import structure
from torchrecorder import Recorder
from torchrecorder.capture.internals.access import set_version_counter
from torchrecorder.capture.internals.table import COLLECTIVE_CALLS, FAKE_GROUPS, REDUCTIONS
from torchrecorder.errors import InvalidArgument

pytestmark = pytest.mark.usefixtures("strict_but_quiet")

X = torch.arange(12.0).view(3, 4) / 10


@pytest.fixture(scope="module")
def mesh():
    """All four processes in a row."""
    with process_group():
        from torch.distributed.device_mesh import init_device_mesh

        yield init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))


def _recorded(model, **options):
    with Recorder(model, **options) as recorder:
        step(model, X)
    assert structure(recorder.recording) == []
    return recorder.recording


def _named_behind_loss(recording):
    (end,) = [op for op in recording.ops.values() if op.name == "backward"]
    behind = nx.ancestors(recording.graph, end.inputs[0].value) & recording.values.keys()
    return {name for each in behind for name in recording.values[each].names}


# Looking ------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [tensor_parallel, sharded])
@pytest.mark.parametrize("option", [
    {}, {"stats": True}, {"keep": ["*"]}, {"replay": True}, {"flops": True}, {"stats": ["2"]},
])
def test_looking_sends_nothing(build, option, mesh):
    """Whatever is asked for: the process sends what it sends without the recorder."""
    model = build(mesh)
    step(model, X)
    plain = collectives(lambda: step(model, X))
    assert plain and collectives(lambda: _recorded(model, **option).summary()) == plain


def test_statistics_are_those_of_the_part_that_is_here(mesh):
    """The count and the mean of a split result are those of its local tensor."""
    model = tensor_parallel(mesh)
    for number, parameter in enumerate(model.parameters(), 1):
        torch.nn.init.constant_(parameter.to_local(), number / 8)  # nobody sent numbers
    recording = _recorded(model, stats=True)
    (relu,) = [op for op in recording.ops.values() if op.name == "relu"]
    found = {each.node: each for each in recording.statistics if each.run < 0}[relu.outputs[0]]
    local = torch.relu(X @ model[0].weight.to_local().T + model[0].bias.to_local())
    assert (found.count, found.mean) == (local.numel(), pytest.approx(local.mean().item()))


@pytest.mark.parametrize("option", [{"stats": True}, {"keep": ["*"]}])
def test_looking_at_results_does_not_wait(option, mesh):
    """The result of a collective is looked at after the program has waited for it, not before."""
    class Model(torch.nn.Module):
        def forward(self, x):
            return functional.all_reduce(x * 2, "sum", dist.group.WORLD)

    model = Model()

    def run():
        y = model(X)
        dist.send(X, 1)
        return y + 1

    with Recorder(model, **option) as recorder:
        order = sent(run)
    plain = sent(run)
    assert order[: len(plain)] == plain == [
        "c10d::allreduce_", "c10d::send", "_c10d_functional::wait_tensor"
    ]
    if "keep" in option:
        assert torch.equal(recorder.recording.activations["Model"], X * 2)
    else:
        reduce = next(op for op in recorder.recording.ops.values() if op.name == "all_reduce")
        assert reduce.outputs[0] in {each.node for each in recorder.recording.statistics}


def test_unset_memory_has_no_statistics():
    """Nothing is said of the numbers in memory that nobody has written yet."""
    def run():
        kept = torch.empty(4)
        return kept.fill_(2.0)

    recording = torchrecorder.record(run, stats=True)
    empty, filled = recording.ops.values()
    assert {each.node for each in recording.statistics} == {*filled.outputs}
    assert empty.outputs


# What a thread writes ------------------------------------------------------------------------


def _bump(tensor):
    """Count up the version, as the thread of a backend does that copies into *tensor*."""
    set_version_counter(tensor, tensor._version + 2)


def _gather_single(bump_at):
    y = torch.empty(16)
    work = dist.all_gather_into_tensor(y, X[0] * 1.0, async_op=True)
    part = y[:4]
    if bump_at == "before":
        _bump(y)
    moved = part.view(2, 2)
    if bump_at == "between":
        _bump(y)
    work.wait()
    return moved + 1, y * 2


def _functional(bump_at):
    y = functional.all_gather_tensor(X * 1.0, 0, dist.group.WORLD)
    if bump_at == "before":
        _bump(y.elem)
    part = y.view(-1)
    if bump_at == "between":
        _bump(y.elem)
    return part + 1, functional.wait_tensor(y.elem) * 2


@pytest.mark.parametrize("run", [_gather_single, _functional])
def test_it_makes_no_difference_when_a_collective_writes(run, mesh):
    """The same ops of the same kind, whenever the thread of the backend comes to it."""
    found = []
    for bump_at in ("never", "before", "between"):
        with Recorder() as recorder:
            run(bump_at)
        found.append([(op.name, op.kind, op.writes) for op in recorder.recording.ops.values()])
    assert found[0] == found[1] == found[2]
    assert "write in place" not in [name for name, *_ in found[0]]


def test_a_write_after_the_wait_is_one(mesh):
    """What is written in place once a collective is done is written by the op that does it."""
    y = torch.zeros(16)
    with Recorder() as recorder:
        work = dist.all_gather_into_tensor(y, X[0] * 1.0, async_op=True)
        _bump(y)
        work.wait()
        y.view(-1).add_(1)
        y * 2
    *_, add, mul = recorder.recording.ops.values()
    assert add.writes and mul.inputs[0].value in add.outputs


# What is sent --------------------------------------------------------------------------------


def test_a_send_is_drawn(mesh):
    """It is no query: somebody gets the tensor, and the box says who."""
    def run(x):
        dist.send(x.sin(), 2, tag=7)

    recording = torchrecorder.record(run, X)
    (one,) = recording.communications
    assert one[:8] == ("send", "", "0", 0, 2, 7, 48, 0)
    sends = [op.id for op in recording.ops.values() if op.name == "send"]
    assert sends == ([one.op] if COLLECTIVE_CALLS.present else [])
    assert set(sends) <= torchrecorder.view(recording, fold=False).boxes.keys()


def test_what_tensor_parallel_layers_send(mesh):
    """One all-reduce forward, in the module that makes it."""
    recording = _recorded(tensor_parallel(mesh))
    (one,) = recording.communications
    assert one[:2] == ("all_reduce", "sum" if REDUCTIONS.present else "") and not one.backward
    assert (one.given, one.received) == (48, 48)
    assert "2" in [recording.scopes[each].path for each in recording.within(one.scope)]
    assert one.seconds is None
    assert recording.annotations["communication_bytes"].total() == 48


def test_what_sharded_weights_send(mesh):
    """Gathered forward and backward, gradients scattered: C++ and hooks are heard, too."""
    model = sharded(mesh)
    plain = collectives(lambda: step(model, X))
    recording = _recorded(model)
    found = [(one.name, one.backward) for one in recording.communications]
    assert sorted(found) == [
        ("all_gather", False), ("all_gather", False), ("all_gather", True),
        ("reduce_scatter", True), ("reduce_scatter", True),
    ]
    assert len(found) == sum(plain.values())
    assert [one.order for one in recording.communications] == [0, 1, 2, 3, 4]
    assert [one.op is None for one in recording.communications] == [False] * 2 + [True] * 3
    ran = [one.grad for one in recording.communications]
    assert ran[2] and recording.grad_nodes[ran[2]].name == "AddmmBackward0"
    assert ran[3:] == [None, None]  # the inputs need no gradient, so that comes at the very end


def test_which_process_it_is(mesh):
    """Rank, groups and meshes, and no name of the machine in a file without times."""
    rank = _recorded(tensor_parallel(mesh)).run.rank
    assert (rank.rank, rank.world) == (0, 4)
    assert [(each.ranks, each.backend) for each in rank.groups] == [((0, 1, 2, 3), "fake")]
    (known,) = rank.meshes
    assert (known.names, known.shape, known.place) == (("tp",), (4,), (0,))
    assert torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2)).run.rank.meshes == ()


def test_parts_of_tensors(mesh):
    """Placements, shape and bytes of what lies over several processes."""
    recording = _recorded(tensor_parallel(mesh))
    names = {value.id: value.names for value in recording.values.values()}
    found = {names[each.value]: each for each in recording.shards if names[each.value]}
    weight = found[("0.weight",)]
    assert weight[1:] == ("tp=4", ("Shard(0)",), (2, 4), 32)
    assert found[("2.bias",)].placements == ("Replicate()",)
    partial = [each for each in recording.shards if each.placements[0].startswith("Partial")]
    assert [each.placements for each in partial][:1] == [("Partial(sum)",)]


@pytest.mark.parametrize("build", [tensor_parallel, sharded])
def test_bytes_here_and_everywhere(build, mesh):
    """Weights and gradients of this process, and the weights of all."""
    model = build(mesh)
    recording = _recorded(model)
    here = sum(each.to_local().nbytes for each in model.parameters())
    everywhere = sum(each.numel() * 4 for each in model.parameters())
    totals = {name: numbers.total() for name, numbers in recording.annotations.items()}
    assert totals["parameter_bytes"] == here
    assert totals["global_parameter_bytes"] == everywhere > here
    if build is sharded:
        assert totals["gradient_bytes"] == here
    assert "no gradient" not in recording.summary()


# Fake tensors ---------------------------------------------------------------------------------


def test_fake_tensors_are_not_let_into_a_sharded_model(mesh):
    """They would stay in it; said before anything runs, and the model is as it was."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = sharded(mesh)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = sharded(mesh)
    for given in (model, torch.nn.Sequential(model, fake)):
        with pytest.raises(InvalidArgument, match="FSDP.*FakeTensorMode"):
            torchrecorder.record(given, X, fake=True)
    assert type(model(X)) is torch.Tensor


def test_a_sharded_model_of_fake_tensors(mesh):
    """Every parameter leads to the loss, as it does in the real run."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = _recorded(sharded(mesh))
    real = _recorded(sharded(mesh))
    assert _named_behind_loss(fake) == _named_behind_loss(real)
    assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= _named_behind_loss(fake)
    assert [one[:4] for one in fake.communications] == [one[:4] for one in real.communications]


def _communications(recording):
    return [
        (
            one.name, one.reduction if REDUCTIONS.present else "", one.order, one.given,
            one.received, one.backward,
        )
        for one in recording.communications
    ]


@pytest.mark.parametrize("no_grad", [False, True])
def test_functional_collectives_on_fake_tensors(no_grad, mesh):
    """What DTensor sends is heard each time, also where the mode knows what comes of it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def run():
        x = X.clone().requires_grad_()
        for _ in range(3):
            y = functional.all_reduce(x * 1.0, "max", dist.group.WORLD) * 1.0
            y = functional.reduce_scatter_tensor(y.new_ones(8, 2), "avg", 0, dist.group.WORLD)
            y = functional.all_gather_tensor_autograd(x * 1.0, 0, dist.group.WORLD)
        if not no_grad:
            y.square().sum().backward()

    found = []
    for mode in FakeTensorMode(allow_non_fake_inputs=True), contextlib.nullcontext():
        with torch.set_grad_enabled(not no_grad), mode, Recorder(run) as recorder:
            run()
        found.append(_communications(recorder.recording))
        assert structure(recorder.recording) == []
    assert found[0] == found[1]
    assert len(found[0]) == 9 + (not no_grad)


@pytest.mark.skipif(not FAKE_GROUPS.present, reason="collectives need data in this PyTorch")
def test_tensor_parallel_layers_of_fake_tensors(mesh):
    """They send forward and backward what they send in the real run."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    def stack():
        return torch.nn.Sequential(*(tensor_parallel(mesh) for _ in range(3)))

    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = _recorded(stack())
    assert _communications(fake) == _communications(_recorded(stack()))
    sent = [(one.name, one.backward) for one in fake.communications]
    assert sent == [("all_reduce", False)] * 3 + [("all_reduce", True)] * 2


# Nothing is left ------------------------------------------------------------------------------


def test_nothing_stays_registered(mesh):
    """After the last of several recorders, waiting and sending are PyTorch's own again."""
    from torch._C._distributed_c10d import Work

    plain = Work.__dict__["wait"]
    with Recorder() as outer, contextlib.suppress(ZeroDivisionError):
        with Recorder() as inner:
            dist.all_reduce(X.clone())
            assert Work.__dict__["wait"] is not plain
            raise ZeroDivisionError
    assert Work.__dict__["wait"] is plain
    assert not torch._C._dispatch_has_kernel_for_dispatch_key("c10d::allreduce_", "BackendSelect")
    assert [len(each.recording.communications) for each in (outer, inner)] == [1, 1]


def test_an_instrument_that_fails_does_not_stop_the_program(mesh, monkeypatch):
    """A fact is lost, and the collective runs."""
    from torchrecorder.capture.probes import communications
    from torchrecorder.capture.tape import Tape

    monkeypatch.setattr(Tape, "strict", False)
    monkeypatch.setattr(communications, "communication_of", lambda operator, args: 1 / 0)
    with pytest.warns(UserWarning, match="could not record"), Recorder() as recorder:
        dist.all_reduce(X.clone())
    assert recorder.recording.run.lost == 1
    assert recorder.recording.communications == ()


@pytest.mark.parametrize("counts", [False, True])
def test_buffers_that_are_broadcast_are_not_written_in_place(monkeypatch, mesh, counts):
    """Whether or not PyTorch sets their versions back, as newer versions do."""
    if counts:
        name = "torch.autograd._unsafe_preserve_version_counter"
        monkeypatch.setattr(name, lambda tensors: contextlib.nullcontext(), raising=False)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    with Recorder(parallel) as recorder:
        for _ in range(3):
            parallel(X)
    recording = recorder.recording
    names = [op.name for op in recording.ops.values()]
    assert names == 3 * 2 * ["add_", "batch_norm"]
    assert [sent.name for sent in recording.communications].count("broadcast") > 0
