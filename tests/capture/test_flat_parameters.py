"""Flat parameters: those of FSDP hold the memory of the model's, which are counted once."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn

import torchrecorder
from tests.structure import structure
from torchrecorder import Recorder, Recording
from torchrecorder.events import Role
from torchrecorder.graph.codec import decode, encode

pytestmark = pytest.mark.filterwarnings("ignore:FSDP", "ignore:.*[Ff]ullyShardedDataParallel")


@pytest.fixture(scope="module", autouse=True)
def group():
    """A group of this process only."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = nn.Linear(3, 3), nn.LayerNorm(3)

    def forward(self, x):
        return x + self.norm(self.fc(x)).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out, self.unused = Block(), Block(), nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x):
        return self.out(self.b(self.a(x)))


def fsdp(model, **options):
    parallel = pytest.importorskip("torch.distributed.fsdp").FullyShardedDataParallel
    return parallel(model, device_id=torch.device("cpu"), **options)


def by_block():
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    return ModuleWrapPolicy({Block})


MODELS = {
    "whole": lambda: fsdp(Net(), use_orig_params=True),
    "by block": lambda: fsdp(Net(), use_orig_params=True, auto_wrap_policy=by_block()),
    "flat only": lambda: fsdp(Net(), use_orig_params=False),
    "flat blocks": lambda: fsdp(Net(), use_orig_params=False, auto_wrap_policy=by_block()),
    "one weight": lambda: fsdp(nn.Sequential(nn.Linear(3, 8, bias=False)), use_orig_params=True),
}


def step(model, optimizer=None):
    model(torch.ones(2, 3)).square().sum().backward()
    if optimizer is not None:
        optimizer.step()


def size_of(name):
    model = nn.Linear(3, 8, bias=False) if name == "one weight" else Net()
    return sum(each.numel() for each in model.parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_numbers_count_once(name, steps):
    """As many as the model had before it was wrapped, also in a loop over steps."""
    model = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model) as recorder:
        model(torch.ones(2, 3))
        for _ in range(steps):
            step(model, optimizer)
    recording = recorder.recording
    assert recording.run.lost == 0 and structure(recording) == []
    assert recording.annotations["parameters"].total() == size_of(name)
    assert recording.annotations["trainable"].total() == size_of(name)
    assert recording.annotations["parameter_bytes"].total() == 4 * size_of(name)
    assert f"Total params {size_of(name):>12,}".split() == next(
        line.split() for line in str(recording.summary()).splitlines() if "Total params" in line
    )


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_that_the_parameters_have(name):
    """After a pass: which parameters have one, and how many bytes."""
    model = MODELS[name]()
    if name != "one weight" and "flat" not in name:
        frozen = model.get_submodule("_fsdp_wrapped_module.out")
        frozen.requires_grad_(False)
    with Recorder(model) as recorder:
        step(model)
        has = {key: item.grad is not None for key, item in model.named_parameters()}
        size = sum(item.grad.numel() for item in model.parameters() if item.grad is not None)
    recording = recorder.recording
    assert {key: recording.why_no_gradient(key) is None for key in has} == has
    assert recording.annotations["gradient_bytes"].total() == 4 * size
    assert "no gradient" not in str(recording.summary())
    reasons = {str(recording.why_no_gradient(key)) for key, found in has.items() if not found}
    assert all("requires_grad=False" in reason for reason in reasons)


def test_gradients_after_a_block_without_synchronization():
    """The block reads the flat parameters before any module runs; they have the same names."""
    model = MODELS["by block"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Recorder(model) as recorder:
        for _ in range(2):
            with model.no_sync():
                step(model)
            step(model, optimizer)
    recording = recorder.recording
    wholes = {part.whole for part in recording.parameter_parts}
    names = [recording.values[whole].names[0] for whole in wholes]
    assert all(name.endswith("flat_param") and name[0] != "." for name in names)
    assert "no gradient" not in str(recording.summary())
    for key, each in model.named_parameters():
        assert each.grad is not None and recording.why_no_gradient(key) is None, key


@pytest.mark.parametrize("name", MODELS)
def test_without_a_pass_that_is_the_reason(name):
    """Not that autograd is left where the parameters are put in the flat one, or read from it."""
    model = MODELS[name]()
    recording = torchrecorder.record(model, torch.ones(2, 3))
    for key, _ in model.named_parameters():
        assert recording.why_no_gradient(key).reason == "no backward", key


def test_a_gradient_of_an_earlier_pass_does_not_count():
    """The recorded pass does not reach the model: what its weights have is older."""
    model = MODELS["whole"]()
    step(model)
    with Recorder(model) as recorder:
        model(torch.ones(2, 3))
        torch.ones(2, requires_grad=True).sum().backward()
    assert all(each.grad is not None for each in model.parameters())
    for key, _ in model.named_parameters():
        found = recorder.recording.why_no_gradient(key)
        assert found is not None and found.reason == "not in the loss", key


# Without FSDP -------------------------------------------------------------------------------


class Flat:
    """Holds the flat parameter of a model where ``parameters()`` does not find it."""

    def __init__(self, model, spare=0):
        numbers = [each.detach().flatten() for each in model.parameters()]
        self.parameter = nn.Parameter(torch.cat([*numbers, torch.zeros(spare)]))
        at = 0
        for module in model.modules():
            for key, each in list(module._parameters.items()):
                part = self.parameter.detach()[at : at + each.numel()].view(each.shape)
                module._parameters[key] = nn.Parameter(part)
                at += each.numel()


class FromFlat(nn.Module):
    """Computes with views of its flat parameter, in place of its weights."""

    def __init__(self, spare=0):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.flat = Flat(self.fc, spare)

    def forward(self, x):
        weight, bias, _ = self.flat.parameter.split([9, 3, self.flat.parameter.numel() - 12])
        return nn.functional.linear(x, weight.view(3, 3), bias)


@pytest.mark.parametrize("spare", [0, 4])
def test_a_flat_parameter_of_the_program(spare):
    """It is a weight from before the run, no result of its last part; only the parts count."""
    model = FromFlat(spare)
    with Recorder(model) as recorder:
        model(torch.ones(2, 3)).sum().backward()
    recording = recorder.recording
    (flat,) = {part.whole for part in recording.parameter_parts}
    value = recording.values[flat]
    assert (value.names, value.role) == (("flat.parameter",), Role.PARAMETER)
    assert value.producer is None
    parts = [recording.values[part.value].names[0] for part in recording.parameter_parts]
    assert sorted(parts) == ["fc.bias", "fc.weight"]
    assert recording.annotations["parameters"].total() == 12
    assert "alias" not in {op.name for op in recording.ops.values()}
    assert recording.why_no_gradient("flat.parameter") is None
    assert str(recording.why_no_gradient("fc.weight")) == (
        "fc.weight has no gradient: flat.parameter received the gradient, which was not given to "
        "this part of it"
    )
    assert decode(encode(recording), Recording).parameter_parts == recording.parameter_parts


def test_registered_parameters_count_as_in_pytorch():
    """A copy of a weight that shares its memory is a parameter of its own to PyTorch."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = nn.Parameter(model[0].weight.data)
    recording = torchrecorder.record(model, torch.ones(2, 3))
    size = sum(each.numel() for each in model.parameters())
    assert recording.annotations["parameters"].total() == size == 24
    assert [tuple(part) for part in recording.parameter_parts] == [("v2", "v0")]


@pytest.mark.parametrize("first", [True, False])
def test_a_flat_parameter_counts_its_parts_whichever_is_read_first(first):
    """It is a penalty on all weights at once, before the model is called or after that."""
    model, flat = nn.Linear(2, 2), nn.Parameter(torch.ones(6))
    model.weight.data, model.bias.data = flat.data[:4].view(2, 2), flat.data[4:]
    with Recorder() as recorder:
        if first:
            flat.norm()
        model(torch.ones(1, 2))
        if not first:
            flat.norm()
    recording = recorder.recording
    names = {value.id: value.names for value in recording.values.values()}
    parts = [(names[part.value], names[part.whole]) for part in recording.parameter_parts]
    assert sorted(parts) == [(("model.bias",), ("flat",)), (("model.weight",), ("flat",))]
    assert recording.annotations["parameters"].total() == 6


class Overlapping(nn.Module):
    """A weight, and a parameter of no module in half of its memory and more."""

    def __init__(self):
        super().__init__()
        memory = torch.ones(6)
        self.low, self.held = nn.Parameter(memory[:4]), [nn.Parameter(memory[2:])]

    def forward(self, x):
        return (x * self.low.detach() * self.held[0]).sum()


def test_a_parameter_in_part_of_the_memory_of_a_weight_does_not_hold_it():
    """Both count, and the weight lacks no part of the gradient that the other received."""
    model = Overlapping()
    with Recorder(model) as recorder:
        model(torch.ones(4)).backward()
    recording = recorder.recording
    assert recording.parameter_parts == ()
    assert recording.annotations["parameters"].total() == 8
    assert recording.why_no_gradient("low").reason == "left autograd"
