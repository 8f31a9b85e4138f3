"""Estimated memory of a training step, against bytes that were measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from tests.figures import network
from torchrecorder.annotations.training_memory import STATES
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import BYTES_SAVED, Role, Shard

OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "sgd with momentum": lambda weights: torch.optim.SGD(weights, momentum=0.9),
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adam with amsgrad": lambda weights: torch.optim.Adam(weights, amsgrad=True),
    "adamax": torch.optim.Adamax,
    "adamw": torch.optim.AdamW,
    "adamw with amsgrad": lambda weights: torch.optim.AdamW(weights, amsgrad=True),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "rprop": torch.optim.Rprop,
}


def convnet():
    """Convolutions, normalization, and weights that are not trained."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )
    model[4].weight.requires_grad_(False)
    return model


needs_saved = pytest.mark.skipif(
    not SAVED_TENSORS.present, reason="this PyTorch does not tell what is kept for backward"
)


def test_every_optimizer_of_the_table_is_tried():
    """And no other."""
    assert OPTIMIZERS.keys() == STATES.keys()


@needs_saved
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_part_is_what_a_real_step_has(name):
    """Weights, buffers, gradients and state after a step; saved bytes by PyTorch's hooks."""
    model, x = convnet(), torch.randn(4, 3, 8, 8)
    found = tr.record(model, x, saved=True).training_memory(name)
    optimizer = OPTIMIZERS[name]([each for each in model.parameters() if each.requires_grad])
    kept = {}
    held = {each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(x)
    output.sum().backward()
    optimizer.step()
    state = [each for held in optimizer.state.values() for each in held.values()]
    tensors = [each for each in state if isinstance(each, torch.Tensor)]
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    assert found.weights == sum(each.nbytes for each in model.parameters())
    assert found.buffers == sum(each.nbytes for each in model.buffers())
    assert found.gradients == sum(each.nbytes for each in gradients)
    assert found.optimizer == sum(each.nbytes for each in tensors)
    assert found.saved == sum(kept.values())
    assert found.total == sum(found)


@needs_saved
def test_the_total_is_what_is_in_use_after_forward():
    """Of a step that comes after others; running averages count once."""
    model, x = convnet(), torch.randn(4, 3, 8, 8)
    estimate = tr.record(model, x, saved=True).training_memory("adamw")
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(2):
        with tr.Recorder(model, memory=True) as recorder:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
    memory = recorder.recording.memory
    at = max(at for at, each in enumerate(memory.moments) if each.phase == "forward")
    loss = next(each for each in memory.held(at=at) if each.name == "sum")
    assert memory.moments[at].live == estimate.total + loss.bytes


@needs_saved
def test_a_model_that_does_not_fit():
    """On fake tensors, the same numbers; and a number of tensors for other optimizers."""
    model = convnet()
    real = tr.record(model, input_shapes=(4, 3, 8, 8), saved=True)
    fake = tr.record(model, input_shapes=(4, 3, 8, 8), saved=True, fake=True)
    assert fake.training_memory(3) == real.training_memory(3)
    assert real.training_memory(3).optimizer == 3 * real.training_memory().gradients
    lines = str(real.training_memory()).splitlines()
    assert lines[0].split() == ["weights", "12.5", "kB"] and lines[-1].startswith("total")


def test_what_cannot_be_estimated():
    """Without the bytes that are saved, and for an optimizer that nobody knows."""
    with pytest.raises(UnknownAnnotation, match="saved=True"):
        network().training_memory()
    with pytest.raises(InvalidArgument, match="did you mean 'adam'"):
        network().training_memory("adamv")


def test_a_sharded_weight_counts_with_its_part_in_this_process():
    """Its gradient and the state of the optimizer have the size of this part, too."""
    whole = replace(network(), measured={BYTES_SAVED: {"o0": 100}})
    weight = next(one for one in whole.values.values() if one.role is Role.PARAMETER)
    assert weight.trainable
    shard = Shard(weight.id, "dp=4", ("Shard(0)",), (1,), 3)
    before, after = whole.training_memory(2), replace(whole, shards=(shard,)).training_memory(2)
    less = weight.bytes - 3
    assert (before.weights - after.weights, before.gradients - after.gradients) == (less, less)
    assert before.optimizer - after.optimizer == 2 * less


@needs_saved
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_steps_one_after_the_other_save_as_much_as_one(retain, again):
    """Each backward pass releases what its step saved; one that keeps its graph releases it too,
    as nothing runs in it again. A checkpoint computes *again* what the pass needs."""
    net, x = convnet(), torch.randn(4, 3, 8, 8)
    model = partial(checkpoint, net, use_reentrant=False) if again else net
    found = []
    for number in (1, 3):
        with tr.Recorder(net, saved=True) as recorder:
            for _ in range(number):
                model(x).sum().backward(retain_graph=retain)
        found.append(recorder.recording.training_memory("sgd").saved)
    assert found[0] == found[1] > 0


@needs_saved
def test_what_several_losses_save_before_one_backward_pass_adds_up():
    """As micro-batches whose losses are summed; also what a second pass uses again. Weights are
    saved once."""
    model, x = convnet(), torch.randn(4, 3, 8, 8)
    with tr.Recorder(model, saved=True) as recorder:
        (model(x).sum() + model(x).sum()).backward()
    one = tr.record(model, x, saved=True).training_memory("sgd").saved
    assert 1.5 * one < recorder.recording.training_memory("sgd").saved <= 2 * one
    with tr.Recorder(model, saved=True) as recorder:
        first = model(x).sum()
        first.backward(retain_graph=True)
        model(x).sum().backward()
        first.backward()
    assert 1.5 * one < recorder.recording.training_memory("sgd").saved <= 2 * one
