"""Sharding regions: what FSDP runs around the forward of a module is no part of the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from tests.capture.processes import process_group
from torchrecorder import Recorder
from torchrecorder.events import HOOK_REGISTRATIONS, OpKind, ScopeKind
from torchrecorder.ranks.sharding_ops import without_sharding_ops
from torchrecorder.style.communications import CommunicationCaptions
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind

pytestmark = pytest.mark.filterwarnings("ignore:FSDP", "ignore:.*[Ff]ullyShardedDataParallel")
fsdp = pytest.importorskip("torch.distributed.fsdp")


class Block(nn.Module):
    """Layers with a skip, and a weight that no layer reads."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x + self.scale * self.down(self.up(self.norm(x)).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Block(), Block(), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.b(self.a(x)))


def first(model, **options):
    """Wrapped by FSDP1."""
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return fsdp.FullyShardedDataParallel(
        model, device_id=torch.device("cpu"), auto_wrap_policy=ModuleWrapPolicy({Block}), **options
    )


def second(model, kind=Block, **options):
    """Sharded by FSDP2."""
    if not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("FSDP2 of this PyTorch needs a GPU")
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for part in [*(part for part in model.modules() if isinstance(part, kind)), model]:
        fsdp.fully_shard(part, mesh=mesh, **options)
    return model


def strategy(name):
    return {"use_orig_params": True, "sharding_strategy": fsdp.ShardingStrategy[name]}


WRAPPERS = {
    "FULL_SHARD": lambda: first(Net(), **strategy("FULL_SHARD")),
    "SHARD_GRAD_OP": lambda: first(Net(), **strategy("SHARD_GRAD_OP")),
    "NO_SHARD": lambda: first(Net(), **strategy("NO_SHARD")),
    "flat": lambda: first(Net(), use_orig_params=False),
    "FSDP2": lambda: second(Net()),
}
MIXED = {
    "FSDP1": lambda: first(
        Net(), mixed_precision=fsdp.MixedPrecision(param_dtype=torch.bfloat16)
    ),
    "FSDP2": lambda: second(
        Net(), mp_policy=fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    ),
}


def step(model):
    model(torch.ones(2, 8)).float().square().sum().backward()


def recorded(model):
    """One training step."""
    with Recorder(model) as recorder:
        step(model)
    assert recorder.recording.run.lost == 0
    return recorder.recording


def called(recording):
    """The called ops outside of sharding regions, without those that register hooks."""
    scopes = recording.scopes
    apart = {
        scope.id for scope in scopes.values()
        if scope.kind is ScopeKind.SHARDING or scope.registers_hooks
    }
    return [
        op.name for op in recording.ops.values()
        if op.kind is OpKind.CALLED and apart.isdisjoint(recording.within(op.scope))
    ]


def regions(recording):
    return [scope for scope in recording.scopes.values() if scope.kind is ScopeKind.SHARDING]


@pytest.mark.parametrize("name", WRAPPERS)
def test_all_other_ops_are_those_of_the_model(name):
    """In each, parameters are gathered in regions, which run nothing of the model."""
    plain = recorded(Net())
    with process_group(world=2):
        recording = recorded(WRAPPERS[name]())
    assert called(recording) == called(plain) and not regions(plain)
    assert {scope.name for scope in regions(recording)} <= {"lazy_init", "unshard", "reshard"}
    assert [scope.name for scope in regions(recording)].count("unshard") == 3
    kinds = {scope.kind for scope in recording.scopes.values()}
    assert kinds <= {ScopeKind.MODULE, ScopeKind.SHARDING, ScopeKind.CUSTOM_FUNCTION}
    assert not regions(without_sharding_ops(recording))


@pytest.mark.parametrize("name", WRAPPERS)
def test_figures_and_tables_are_those_of_the_model(name):
    """Communication is listed at the modules. Regions are drawn if parameters are. A weight that no
    module represents has its own box, as in a model that is not sharded."""
    with process_group(world=2):
        recording = recorded(WRAPPERS[name]())
    hidden = {scope.id for scope in regions(recording)}
    view = make_view(recording, ViewOptions(fold=False))
    scaled = [op.id for op in recording.ops.values() if op.name == "mul"]
    boxes = [view.boxes[arrow.tail] for arrow in view.arrows if arrow.head in scaled]
    weights = [recording.values[box.id] for box in boxes if box.kind is BoxKind.PARAMETER]
    ends = "_flat_param" if name == "flat" else "scale"
    assert len(weights) == 2 and all(one.names[0].endswith(ends) for one in weights)
    assert not hidden.intersection(view.boxes)
    assert hidden <= {*make_view(recording, ViewOptions(fold=False, parameters=True)).boxes}
    source = torchrecorder.make_dot(recording).source
    assert not any(name in source for name in HOOK_REGISTRATIONS)
    dot = torchrecorder.make_dot(recording, closed="a, b").source
    assert "set_data" not in dot and "unshard" not in dot
    around = CommunicationCaptions(view).open(view.clusters["s0"])  # of the head's weights
    assert any(line.startswith("all_gather") for line in around) == (name != "NO_SHARD")
    table = str(recording.summary())
    assert not any(name in table for name in ("shard ", *HOOK_REGISTRATIONS))


def test_a_sharded_layer_is_closed_like_any_other():
    """What FSDP runs in it is no reason to open it."""
    with process_group(world=2):
        view = make_view(recorded(second(Net(), kind=nn.Linear)), ViewOptions(fold=False))
    ops = view.recording.ops
    assert "linear" not in {ops[box].name for box in view.boxes if box in ops}


def test_equal_blocks_have_one_row():
    """As in figures: what gathers the weights of each is not compared."""
    with process_group(world=2):
        model = first(nn.Sequential(Block(), Block()), **strategy("FULL_SHARD"))
        assert "0, 1 (FullySharde" in recorded(model).summary()


@pytest.mark.parametrize("name", MIXED)
def test_activations_do_not_pass_through_the_regions(name):
    """Casts of the inputs of modules are operations of the modules."""
    with process_group(world=2):
        recording = recorded(MIXED[name]())
    hidden = {scope.id for scope in regions(recording)}
    inside = [op for op in recording.ops.values()
              if not hidden.isdisjoint(recording.within(op.scope))]
    read = {slot.value for op in inside for slot in op.inputs}
    layers = (op for op in recording.ops.values() if op.name in ("ones", "linear", "add"))
    flowing = {output for op in layers for output in op.outputs}
    assert flowing and read.isdisjoint(flowing) and "to" in called(recording)


def test_parameters_may_be_gathered_by_the_program():
    """Also outside of the model, by methods that FSDP2 has for it."""
    with process_group(world=2):
        model = second(Net())
        with Recorder(model) as recorder:
            model.a.unshard()
            model.a.reshard()
    names = [scope.name for scope in regions(recorder.recording)]
    assert names and {*names} <= {"unshard", "reshard"}
    assert called(recorder.recording) == []


def test_gradients_are_clipped_in_a_region():
    """By the method of FSDP1, as by the function of PyTorch."""
    with process_group(world=2):
        model = WRAPPERS["FULL_SHARD"]()
        with Recorder(model) as recorder:
            step(model)
            model.clip_grad_norm_(1.0)
    recording = recorder.recording
    (clipping,) = (one for one in recording.scopes.values() if one.kind is ScopeKind.CLIPPING)
    assert clipping.name == "clip_grad_norm_"
    last = max(recording.ops.values(), key=lambda op: op.index)
    assert clipping.id in recording.within(last.scope)


def test_an_empty_part_of_a_parameter_lacks_no_gradient():
    """All of these weights are on the other rank."""
    with process_group(world=2):
        recording = recorded(WRAPPERS["FULL_SHARD"]())
    empty = [value for value in recording.values.values()
             if value.trainable and value.producer is None and value.shape == (0,)]
    assert empty and "no gradient" not in str(recording.summary())
    found = [recording.why_no_gradient(value.names[0]) for value in empty]
    assert {one.reason for one in found} == {"empty"}
    assert str(found[0]).endswith("has no gradient: it has no elements in this process")
