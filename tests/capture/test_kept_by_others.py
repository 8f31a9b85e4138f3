"""What is kept for backward in place of autograd: by hooks of the user, selective checkpoints, and
custom functions."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import (
    CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts,
)

import torchrecorder as tr
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.capture.probes.kept_by_others import hooks_pack, kept_by_context

pytestmark = pytest.mark.skipif(not SAVED_TENSORS.present, reason="nothing saved is counted")

LAYERS = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8), nn.Tanh())
X = torch.randn(5, 8, requires_grad=True)
WEIGHTS = {weight.untyped_storage()._cdata for weight in LAYERS.parameters()}


def saved(run):
    """What the recorder counts in a *run*, and its notes."""
    with tr.Recorder(LAYERS, saved=True) as recorder:
        output = run()
    assert output is not None and recorder.recording.run.lost == 0
    return recorder.recording.annotations["saved_bytes"].total(), recorder.recording.run.notes


def test_what_hooks_pack_into_counts():
    """Smaller tensors, of weights too, in any nested container."""
    packed = []

    def pack(tensor):
        scale = tensor.abs().max() / 127
        packed.append([(tensor / scale).round().to(torch.int8), {"scale": scale}])
        return packed[-1]

    def run():
        with saved_tensors_hooks(pack, lambda kept: kept[0] * kept[1]["scale"]):
            return LAYERS(X)

    plain = run()
    wanted = sum(small.nbytes + scale["scale"].nbytes for small, scale in packed)
    packed.clear()
    assert saved(run) == (wanted, ())
    assert torch.equal(run(), plain)


def test_offloading_on_the_same_device_counts():
    """Each memory once, and weights not: as without."""

    def run():
        with save_on_cpu():
            return LAYERS(X)

    assert saved(run) == saved(lambda: LAYERS(X)) == (5 * (8 + 32 + 32 + 8) * 4, ())


def test_what_hooks_keep_elsewhere_is_noted():
    """On another device, or where only the program finds it."""

    def run(pack):
        with saved_tensors_hooks(pack, lambda kept: kept):
            return X.exp()

    note = "bytes that hooks keep on meta for backward are not counted"
    assert saved(lambda: run(lambda tensor: tensor.to("meta"))) == (0, (note,))
    note = "bytes that hooks pack into objects of the class int for backward are not counted"
    assert saved(lambda: run(id)) == (0, (note,))


def selective(policy):
    """The layers, checkpointed with this *policy*."""
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(LAYERS, X, use_reentrant=False, context_fn=contexts)


def of_linear(context, op, *args, **kwargs):
    """Saves results of linear layers alone."""
    wanted = op == torch.ops.aten.addmm.default
    return CheckpointPolicy.MUST_SAVE if wanted else CheckpointPolicy.PREFER_RECOMPUTE


@pytest.mark.parametrize("policy", [of_linear, [torch.ops.aten.addmm.default]])
def test_what_a_selective_checkpoint_keeps_counts(policy):
    """Beside its input; at the checkpoint, and with a pass behind it."""
    results = 5 * (32 + 8) * 4
    assert saved(lambda: selective(policy)) == (X.nbytes + results, ())
    with tr.Recorder(LAYERS) as recorder:
        selective(policy).sum().backward()
    recording = recorder.recording
    assert recording.annotations["saved_bytes"].total() == X.nbytes + results
    assert recording.training_memory("sgd").saved == X.nbytes + results
    (scope,) = (scope.id for scope in recording.scopes.values() if scope.kind == "checkpoint")
    assert recording.annotations["saved_bytes"].by_node == {scope: X.nbytes + results}


def test_a_plain_checkpoint_keeps_its_input_alone():
    """Its hooks are no hooks of the user, and no note is left."""
    run = functools.partial(checkpoint, LAYERS, X, use_reentrant=False)
    assert saved(run) == (X.nbytes, ())
    assert saved(lambda: selective([])) == (X.nbytes, ())


def test_a_context_of_a_checkpoint_that_may_keep_anything_is_noted():
    """A mode without the storage of PyTorch's own."""

    class Caches(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    run = functools.partial(
        checkpoint, LAYERS, X, use_reentrant=False, context_fn=lambda: (Caches(), Caches())
    )
    note = "bytes that Caches keeps for backward are not counted"
    assert saved(run) == (X.nbytes, (note,))


class Halved(torch.autograd.Function):
    """Keeps its result in half precision, as an attribute, and its input twice."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.kept, ctx.shape = [y.half(), x], x.shape
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.kept[0]


def test_attributes_of_custom_functions_count():
    """As what they save in the usual way; each memory once."""
    assert saved(lambda: Halved.apply(X)) == (X.nbytes + X.nbytes // 2, ())


def test_a_checkpoint_that_decorates_is_a_region():
    """From PyTorch 2.15 on, ``checkpoint`` without a function returns a decorator."""
    try:
        decorated = checkpoint(use_reentrant=False)(LAYERS)
    except TypeError:
        pytest.skip("this PyTorch has no such decorator")
    recording = tr.record(lambda x: decorated(x).sum(), X, backward=True)
    kinds = [scope.kind.value for scope in recording.scopes.values() if not scope.recompute]
    assert kinds[:3] == ["function", "checkpoint", "module"]
    assert any(scope.recompute for scope in recording.scopes.values())


def test_hooks_of_the_program_are_known():
    """Without hooks nothing is packed, and those of a checkpoint pack nothing."""
    seen = []

    def run(x):
        seen.append(hooks_pack())
        return x.exp()

    assert not hooks_pack()
    with saved_tensors_hooks(lambda tensor: tensor, lambda packed: packed):
        assert hooks_pack()
    checkpoint(run, X, use_reentrant=False)
    assert seen == [False]


def test_results_in_containers_of_a_context():
    """In lists and tuples of any depth."""
    made = [torch.ones(number) for number in range(1, 5)]
    storage = {"a": [made[0], (made[1],)], "b": {0: made[2:3], 1: made[3]}, "c": "no tensor"}
    notes = []
    found = kept_by_context(SimpleNamespace(storage=storage), notes.append)
    assert sorted(map(len, found)) == [1, 2, 3, 4] and not notes
    assert kept_by_context(SimpleNamespace(), notes.append) == []
    assert notes == ["SimpleNamespace keeps"]
