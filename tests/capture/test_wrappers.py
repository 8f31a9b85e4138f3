"""Tensors inside tensors: DTensors, buckets of gradients, and a wrapper of the user's own."""

from __future__ import annotations

import re

import networkx as nx
import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.notation import flow
from tests.reach import disagreements
from tests.structure import structure
from tests.zoo.case import Run, net
from torchrecorder.events import Role
from torchrecorder.testing.inert import assert_inert

pytestmark = pytest.mark.usefixtures("strict_but_quiet")


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A mesh of this process alone; it meets itself through a file."""
    place = tmp_path_factory.mktemp("mesh") / "meeting"
    dist.init_process_group("gloo", init_method=f"file://{place}", rank=0, world_size=1)
    from torch.distributed.device_mesh import init_device_mesh

    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def _sharded_input(mesh):
    from torch.distributed.tensor import Shard, distribute_module, distribute_tensor

    x = distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)]).requires_grad_()
    return Run(distribute_module(nn.Linear(3, 2), mesh), (x,))


def _in_and_out(mesh):
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    def forward(self, x):
        one = distribute_tensor(x * 2, mesh, [Shard(0)])
        other = DTensor.from_local(x.sin(), mesh, [Shard(0)])
        return (one + other).redistribute(mesh, [Replicate()]).to_local() * self.w

    return Run(net(forward, w=nn.Parameter(torch.randn(3))), (torch.randn(4, 3),))


def _without_gradients(mesh):
    run = _in_and_out(mesh)
    run.model.forward = torch.no_grad()(run.model.forward)
    return run


def _parallel(mesh):
    from torch.distributed.tensor.parallel import (
        ColwiseParallel, RowwiseParallel, parallelize_module,
    )

    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return Run(model, (torch.randn(5, 3),))


def _written(mesh):
    from torch.distributed.tensor import DTensor, Replicate

    def forward(self, x):
        local = x * 2
        whole = DTensor.from_local(local, mesh, [Replicate()])
        whole.add_(1)
        return local * 3

    return Run(net(torch.no_grad()(forward)), (torch.randn(4, 3),))


MODELS = (_sharded_input, _in_and_out, _without_gradients, _parallel, _written)


def _fresh(build, mesh):
    torch.manual_seed(0)
    return build(mesh)


@pytest.mark.parametrize("build", MODELS)
def test_distributed_tensors(build, mesh):
    """Every input and parameter leads to the output; the run stays as it was."""
    run = _fresh(build, mesh)
    recording = torchrecorder.record(run.model, run.args)
    assert structure(recording) == []
    (output,) = recording.outputs
    behind = nx.ancestors(recording.graph, output.value)
    sources = [each for each in recording.values.values() if each.producer is None]
    assert {each.id for each in sources} <= behind, flow(recording)
    assert not any(each.role.value == "constant" for each in sources)
    assert_inert(  # leaking: PyTorch keeps some tensors of its own from one call to another
        lambda: (_fresh(build, mesh).model, _fresh(build, mesh).args, {}), leaking=True
    )


@pytest.mark.parametrize("build", [_sharded_input, _in_and_out, _parallel])
def test_distributed_tensors_reach_what_gradients_reach(build, mesh):
    """Recorded paths lead from output to leaf exactly where autograd finds a gradient."""
    run = _fresh(build, mesh)
    recording = torchrecorder.record(run.model, run.args)
    assert disagreements(recording, _fresh(build, mesh)) == []


def test_a_write_of_a_distributed_tensor_reaches_its_part(mesh):
    """A reader of the local tensor reads what was written through the distributed one."""
    run = _written(mesh)
    assert flow(torchrecorder.record(run.model, run.args)).splitlines() == [
        "no_grad:",
        "    mul = mul(x)",
        "    autograd.Function _FromTorchTensor:",
        "        view_as = view_as(mul, mul)",
        "    alias = alias(view_as)",
        "    add_! = add_(alias)",
        "    mul2 = mul(add_.1)",
        "return mul2",
    ]


class Boxed(torch.Tensor):
    """A user's wrapper that says what it holds."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Boxed({self.inner!r})"

    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        bare = torch.utils._pytree.tree_map_only(Boxed, lambda each: each.inner, (args, kwargs))
        made = func(*bare[0], **(bare[1] or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, Boxed, made)


def test_hook_of_communication_is_a_part_of_the_pass(mesh):
    """The buckets of gradients that it is given are memory of PyTorch, and no constants."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
    ran = []

    def hook(state, bucket):
        ran.append(bucket.buffer().div_(2))
        work = dist.all_reduce(ran[-1], async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    model.register_comm_hook(None, hook)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(4, 3)).sum().backward()
    assert ran
    ops = [op.name for op in recorder.recording.ops.values()]
    assert ops[-1] == "backward"


def test_a_wrapper_of_the_users():
    """Into the box, through an op, and out again: one unbroken path, in the box's own kind."""
    def make():
        model = net(lambda self, x: (Boxed(x.sin()) * 2).inner + 1)
        return model, (torch.ones(3),), {}

    model, args, _ = make()
    recording = torchrecorder.record(model, args)
    assert flow(recording).splitlines() == [
        "sin = sin(x)",
        "alias = alias(sin)",
        "mul = mul(alias)",
        "alias2 = alias(mul)",
        "add = add(alias2)",
        "return add",
    ]
    assert [each.kind for each in recording.values.values()].count("Boxed") == 2
    assert_inert(make)


class Quantized(Boxed):
    """Weights in one byte each, and a scale for each row, that look like float32."""

    @staticmethod
    def __new__(cls, inner, scale):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=scale.dtype)

    def __init__(self, inner, scale):
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self):
        return ["inner", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].inner, args[0].scale)
        plain = torch.utils._pytree.tree_map_only(
            Quantized, lambda each: each.inner * each.scale, args
        )
        return func(*plain, **(kwargs or {}))


def test_bytes_of_a_quantized_weight():
    """Those of the tensors that it wraps, not of the dtype that it looks like."""
    whole, scale = torch.ones(4, 3, dtype=torch.int8), torch.ones(4, 1)
    weight = nn.Parameter(Quantized(whole, scale), requires_grad=False)
    model = net(lambda self, x: x @ self.w, w=weight)
    recording = torchrecorder.record(model, (torch.ones(2, 4),))
    (seen,) = [value for value in recording.values.values() if value.names == ("w",)]
    assert (seen.kind, seen.dtype, seen.shape) == ("Quantized", "float32", (4, 3))
    assert seen.bytes == whole.nbytes + scale.nbytes == 28
    assert re.search(r"Params size +28 B", str(recording.summary()))


def test_bytes_of_a_sparse_input():
    """Those of its indices and values."""
    sparse = torch.eye(9).to_sparse()
    recording = torchrecorder.record(lambda a, x: a @ x, (sparse, torch.ones(9, 2)))
    seen = recording.values[recording.inputs[0].value]
    assert (seen.kind, seen.shape) == ("sparse_coo", (9, 9))
    assert seen.bytes == sparse.indices().nbytes + sparse.values().nbytes == 9 * (2 * 8 + 4)


class Silent(Boxed):
    """A user's wrapper whose word on what it holds is an error."""

    def __tensor_flatten__(self):
        raise ValueError("not now")


def test_a_wrapper_that_raises():
    """A wrapper that will not say what it holds is a tensor of its own."""
    recording = torchrecorder.record(net(lambda self, x: x * 2), (Silent(torch.ones(3)),))
    assert [op.name for op in recording.ops.values()] == ["mul"]


class LowRank(Quantized):
    """A weight that is not trained, with two factors that are, as LoRA adds."""

    def __init__(self, inner, scale, first, second):
        super().__init__(inner, scale)
        self.first, self.second = first, second

    @staticmethod
    def __new__(cls, inner, scale, first, second):
        return Quantized.__new__(cls, inner, scale)

    def __tensor_flatten__(self):
        return ["inner", "scale", "first", "second"], None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is not nn.functional.linear:
            return super().__torch_function__(func, types, args, kwargs)
        x, weight = args
        return nn.functional.linear(x, weight.inner) + x @ weight.first @ weight.second


@pytest.mark.parametrize("scaled", [False, True])
def test_trained_tensors_inside_a_weight(scaled):
    """They are read, also if an operation made them, and lead to the loss; nothing else is."""
    first, second = nn.Parameter(torch.ones(3, 1)), nn.Parameter(torch.ones(1, 2))
    model = nn.ParameterDict({"first": first, "second": second})

    def step(x):
        inside = torch.ones(2, 3), torch.ones(()), first * 2 if scaled else first, second
        y = (nn.functional.linear(x, LowRank(*inside)) * 3).sum()
        y.backward()
        return y

    with torchrecorder.Recorder(model) as recorder:
        step(torch.ones(4, 3))
    recording = recorder.recording
    (linear,) = (op for op in recording.ops.values() if op.name == "linear")
    values = recording.values
    names = {slot.name: values[slot.value].names for slot in linear.inputs}
    made = () if scaled else ("first",)
    assert names == {"input": (), "weight": (), "weight.first": made, "weight.second": ("second",)}
    (backward,) = (op.id for op in recording.ops.values() if op.name == "backward")
    trained = [value.id for value in values.values() if value.names and value.trainable]
    assert len(trained) == 2
    assert all(nx.has_path(recording.graph, value, backward) for value in trained)
    assert recording.why_no_gradient("first") is None


class Scaled(torch.Tensor):
    """A tensor with a scale that does not say what it holds; it knows itself, too."""

    __new__ = Quantized.__new__

    def __init__(self, inner, scale):
        self.inner, self.scale, self.whole = inner, scale, self

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map_only(cls, lambda one: one.inner * one.scale, args)
        return func(*plain, **(kwargs or {}))


@pytest.mark.parametrize("kind", [Quantized, Scaled])
def test_a_wrapper_of_several_tensors(kind):
    """A hidden operation reads all of them, whether the class names them or has them only."""
    def make():
        return net(lambda self, x: kind(x.sin(), x.cos()).exp()), (torch.ones(3),), {}

    model, args, _ = make()
    name = kind.__name__
    assert flow(torchrecorder.record(model, args)).splitlines() == [
        "sin = sin(x)", "cos = cos(x)", f"{name} = {name}?(sin, cos)", f"exp = exp({name})",
        "return exp",
    ]
    assert_inert(make, leaking=kind is Scaled)


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors")
def test_masked_tensors_reach_what_gradients_reach():
    """They say nothing of the two tensors inside, and have no memory of their own."""
    masked = pytest.importorskip("torch.masked")

    def build():
        def forward(self, x):
            rows = masked.as_masked_tensor(x * self.w, torch.ones(2, 3) > 0).sum(1)
            return rows.get_data() * 2

        return Run(net(forward, w=nn.Parameter(torch.ones(3))), (torch.ones(2, 3),))

    run = build()
    recording = torchrecorder.record(run.model, run.args)
    assert structure(recording) == [] and disagreements(recording, build()) == []
    constants = [each for each in recording.values.values() if each.role is Role.CONSTANT]
    assert {each.dtype for each in constants} <= {"bool"}
