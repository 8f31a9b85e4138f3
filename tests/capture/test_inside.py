"""Single facts of what is inside the tensors of transformations, and of what is kept for backward
in place of autograd."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch._vmap_internals import _vmap as old_vmap
from torch.autograd.graph import saved_tensors_hooks
from torch.func import grad, vmap
from torch.utils.checkpoint import checkpoint

from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.capture.probes.kept_by_others import hooks_pack, kept_by_context, packed_tensors
from torchrecorder.capture.tensors.describe import on_inside, order_inside

X = torch.arange(24.0).reshape(2, 3, 4)


def order_in(transformed, x=X):
    """The order of the dimensions inside of what a transformed function is given."""
    found = []

    def look(tensor):
        found.append(order_inside(tensor))
        return tensor.sum()

    transformed(look)(x)
    return found[0]


@pytest.mark.parametrize(
    ("transformed", "order"),
    [
        (lambda look: look, None),
        (grad, None),
        (lambda look: vmap(look), (0, 1, 2)),
        (lambda look: vmap(look, in_dims=1), (1, 0, 2)),
        (lambda look: vmap(look, in_dims=2), (2, 0, 1)),
        (lambda look: vmap(vmap(look, in_dims=1), in_dims=0), (0, 2, 1)),
        (lambda look: vmap(vmap(look, in_dims=0), in_dims=2), (2, 0, 1)),
        (lambda look: vmap(vmap(vmap(look), in_dims=1), in_dims=0), (0, 2, 1)),
        (lambda look: vmap(grad(look), in_dims=1), (1, 0, 2)),
    ],
)
def test_hidden_dimensions_come_first(transformed, order):
    """The outermost first; there are none without `vmap`."""
    assert order_in(transformed) == order


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_older_batches_have_a_tensor_inside(batches):
    """With a dimension for each of them, also one of size 1."""
    for x in (X, X[:1], X[:, :1], X[:1, :2]):
        found = []

        def look(tensor):
            found.append(on_inside(torch.clone, tensor))
            return tensor * 2

        run = look
        for _ in range(batches):
            run = old_vmap(run)
        run(x)
        assert torch.equal(found[0], x)


def test_older_batches_with_another_between_them():
    """A tensor has the dimensions of those around it, none of that between."""
    found = []

    def look(tensor):
        found.append(on_inside(torch.clone, tensor))
        return tensor * 2

    old_vmap(lambda x: old_vmap(lambda y: old_vmap(look)(x) + y)(X[0, 0]))(X)
    assert torch.equal(found[0], X)


def entry(hook, data):
    return SimpleNamespace(unpack_hook=hook, data=data)


def test_what_hooks_packed_is_added_up():
    """Entry by entry; not that of checkpoints, or where there is no hook."""
    notes, one, two = [], torch.ones(1), torch.ones(2)
    kept = [entry(len, [one]), None, entry(None, one), entry(len, {"a": two, "b": (one,)})]
    assert packed_tensors(kept, [one], notes.append) == [one, two, one] and not notes
    hook = SimpleNamespace(__module__=checkpoint.__module__)
    assert packed_tensors([entry(hook, [one])], [one], notes.append) == [] and not notes
    assert packed_tensors([entry(len, object())], [one], notes.append) == []
    assert notes == ["hooks pack into objects of the class object"]


def test_what_hooks_moved_does_not_count():
    """It is where the tensor is not; without one, all that is kept is there."""
    notes, here, there = [], torch.ones(1), torch.ones(1, device="meta")
    kept = [entry(len, [here, there])]
    assert packed_tensors(kept, [here], notes.append) == [here]
    assert notes == ["hooks keep on meta"]
    assert packed_tensors(kept, [], notes.append) == [here, there] and len(notes) == 1


def test_what_a_checkpoint_context_keeps():
    """In containers, one in another, and in objects with a value."""
    notes, tensors = [], [torch.full((1,), float(number)) for number in range(6)]
    held = {"op": [(tensors[0], tensors[1]), tensors[2]], "other": SimpleNamespace(val=tensors[3]),
            "more": [[tensors[4]], [tensors[5], None, 3]]}
    found = kept_by_context(SimpleNamespace(storage=held), notes.append)
    assert sorted(map(float, found)) == [0, 1, 2, 3, 4, 5] and not notes
    assert kept_by_context(SimpleNamespace(), notes.append) == []
    assert notes == ["SimpleNamespace keeps"]


@pytest.mark.skipif(not SAVED_TENSORS.present, reason="this PyTorch does not expose saved tensors")
def test_whether_hooks_pack():
    """Only where the program has set some."""
    assert not hooks_pack()
    with saved_tensors_hooks(lambda x: x, lambda x: x):
        assert hooks_pack()
    seen = []

    def run(x):
        seen.append(hooks_pack())
        return x.sin()

    checkpoint(run, torch.ones(1, requires_grad=True), use_reentrant=False)
    assert seen == [False]
