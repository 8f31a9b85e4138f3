"""Bytes saved for backward, against hooks on saved tensors around the plain run."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

import torchrecorder as tr
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.errors import NothingFound


def packed_bytes(run, parameters):
    """The bytes of all storages that autograd packs away in *run*, those of weights left out."""
    known = {each.untyped_storage()._cdata for each in parameters}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            kept.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = run()
    assert output is not None
    return sum(size for _, size in kept.values())


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x.exp())
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Odd(torch.nn.Module):
    """Views, numbers, in-place writes, repeated use, a custom function."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        y = x @ self.weight.t()
        y = (y * 3).relu_()
        y = torch.cat([y, y[:, :2] * y[:, 2:]], 1) / 2
        return Custom.apply(y).std() * y.norm()


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
        self.reentrant = reentrant

    def forward(self, x):
        return checkpoint(self.inner, x * 2, use_reentrant=self.reentrant).exp()


CASES = {
    "mlp": lambda: (torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh()), torch.ones(3, 4)),
    "conv": lambda: (
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(True)),
        torch.rand(2, 3, 8, 8),
    ),
    "attention": lambda: (torch.nn.TransformerEncoderLayer(8, 2, 16), torch.rand(5, 2, 8)),
    "lstm": lambda: (torch.nn.LSTM(4, 4, 2), torch.rand(5, 2, 4)),
    "embedding": lambda: (torch.nn.Embedding(10, 4), torch.tensor([1, 2, 3])),
    "odd": lambda: (Odd(), torch.rand(3, 4)),
    "checkpoint": lambda: (Checkpointed(False), torch.rand(3, 4, requires_grad=True)),
    "reentrant": lambda: (Checkpointed(True), torch.rand(3, 4, requires_grad=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_sum_agrees_with_hooks_on_saved_tensors(case):
    """Each storage once, weights and buffers left out: exactly what the hooks count."""
    torch.manual_seed(0)
    model, x = CASES[case]()
    wanted = packed_bytes(lambda: model(x), [*model.parameters(), *model.buffers()])
    with tr.Recorder(model) as recorder:
        output = model(x)
    del output
    found = recorder.recording.measured.get("saved bytes", {})
    assert wanted > 0 and sum(found.values()) == (wanted if SAVED_TENSORS.present else 0)


class WritesView(torch.nn.Module):
    """Writes a view of its input times two, or times a weight, in place."""

    def __init__(self, write, *, needs_gradient):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(6))
        self.write = write
        self.needs_gradient = needs_gradient

    def forward(self, x):
        y = x * (self.weight if self.needs_gradient else 2)
        self.write(y.view(5, 6), self.weight)
        return y


F = torch.nn.functional
WRITES = {
    "result": lambda view, weight: view.sigmoid_(),
    "module": lambda view, weight: F.relu(view, inplace=True),
    "copy of itself": lambda view, weight: view.mul_(weight),
    "number": lambda view, weight: view.mul_(3.0),
    "other": lambda view, weight: view.mul_(weight.exp()),
    "only the other": lambda view, weight: view.mul_(weight + 1),
    "mask": lambda view, weight: F.dropout(view, 0.5, True, True),
    "mask of channels": lambda view, weight: F.dropout2d(view[None, :, :, None], 0.5, True, True),
    "condition": lambda view, weight: view.masked_fill_(view > 0.5, 0),
    "columns": lambda view, weight: view[:, 1:3].sigmoid_(),
    "row": lambda view, weight: view.__setitem__(3, weight),
    "index": lambda view, weight: view.__setitem__(torch.tensor([4, 3]), weight),
    "itself": lambda view, weight: view.mul_(view),
    "list": lambda view, weight: torch._foreach_mul_([view[0], view[1]], [weight, weight]),
    "chain": lambda view, weight: view.sigmoid_().mul_(weight).exp_(),
}


@pytest.mark.parametrize("needs_gradient", [True, False])
@pytest.mark.parametrize("write", WRITES)
def test_operations_on_views_save_what_the_hooks_count(write, needs_gradient):
    """Also what is inside a CopySlices node, with the random numbers of a plain run."""
    torch.manual_seed(0)
    model, x = WritesView(WRITES[write], needs_gradient=needs_gradient), torch.rand(5, 6)
    wanted = packed_bytes(lambda: model(x), model.parameters())
    state = torch.get_rng_state()
    plain, after = model(x), torch.get_rng_state()
    torch.set_rng_state(state)
    with tr.Recorder(model) as recorder:
        output = model(x)
    assert torch.equal(output, plain) and torch.equal(torch.get_rng_state(), after)
    found = recorder.recording.measured.get("saved bytes", {})
    assert sum(found.values()) == (wanted if SAVED_TENSORS.present else 0)
    assert recorder.recording.run.notes == ()


@pytest.mark.parametrize("write", ["result", "row", "index", "other"])
def test_operations_on_views_of_what_a_module_returns_unchanged_are_counted(write):
    """A module such as ``Identity`` between a tensor and the write to it changes nothing."""
    class Passes(WritesView):
        def __init__(self):
            super().__init__(WRITES[write], needs_gradient=True)
            self.same = torch.nn.Identity()

        def forward(self, x):
            y = self.same(x * self.weight)
            self.write(self.same(y.view(5, 6)), self.weight)
            return y

    model, x = Passes(), torch.rand(5, 6)
    wanted = packed_bytes(lambda: model(x), model.parameters())
    with tr.Recorder(model) as recorder:
        model(x)
    found = recorder.recording.measured.get("saved bytes", {})
    assert sum(found.values()) == (wanted if SAVED_TENSORS.present else 0)
    assert recorder.recording.run.notes == ()


def test_an_operation_on_a_view_that_cannot_be_counted_is_noted():
    """A row number that small tensors do not have, beside a tensor of columns."""
    model = WritesView(
        lambda view, weight: view.__setitem__((3, torch.tensor([5])), 0.0), needs_gradient=True
    )
    recording = tr.record(model, torch.rand(5, 6), backward=True)
    note = "bytes that __setitem__ saves for backward are not counted"
    assert (note in recording.run.notes) == SAVED_TENSORS.present


def test_hooks_of_the_user_are_called_once_for_an_operation_on_a_view():
    """The recorder does not run the operation again; a note says that its bytes are missing."""
    model, x, packed = WritesView(WRITES["result"], needs_gradient=True), torch.rand(5, 6), []
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: packed.append(tensor.shape) or tensor, lambda tensor: tensor
    )
    with hooks:
        model(x)
    plain = [*packed]
    packed.clear()
    with tr.Recorder(model) as recorder, hooks:
        model(x)
    assert packed == plain
    if SAVED_TENSORS.present:
        note = "bytes that CopySlices saves for backward are not counted"
        assert recorder.recording.run.notes == (note,)
        assert recorder.recording.annotations["saved_bytes"].total() == x.nbytes


def test_what_cannot_be_counted_is_stated_where_it_is_asked_for(monkeypatch):
    """One sentence where ``saved=True`` counts nothing; none where nobody asked."""
    monkeypatch.setattr("torchrecorder.capture.instruments.SEES_SAVED_TENSORS", False)
    monkeypatch.setattr("torchrecorder.capture.record.SEES_SAVED_TENSORS", False)
    model, x = CASES["mlp"]()
    with pytest.warns(NothingFound, match="saved=True has no effect"):
        asked = tr.record(model, x, backward=True, saved=True)
    by_the_way = tr.record(model, x, backward=True)
    for recording in (asked, by_the_way):
        assert "saved bytes" not in recording.measured and recording.run.lost == 0


def test_hooks_of_the_user_are_called_as_ever():
    """And what they return counts, as it is kept."""
    calls = []

    def run():
        with torch.autograd.graph.saved_tensors_hooks(
            lambda tensor: calls.append("pack") or tensor,
            lambda tensor: calls.append("unpack") or tensor,
        ):
            return torch.ones(3, requires_grad=True).exp().sum()

    run()
    plain = list(calls)
    calls.clear()
    with tr.Recorder() as recorder:
        run()
    assert calls == plain
    found = recorder.recording.measured.get("saved bytes", {})
    assert sum(found.values()) == (12 if SAVED_TENSORS.present else 0)


def test_writing_what_backward_needs_still_raises():
    """The check of PyTorch for tensors modified in place is as it was."""
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        with tr.Recorder():
            x = torch.ones(3, requires_grad=True)
            y = x.exp()
            y.add_(1)
            y.sum().backward()


def test_columns_of_the_summary_add_up():
    """The total of the annotation is the sum over the modules."""
    model, x = CASES["conv"]()
    recording = tr.record(model, x, backward=True)
    if not SAVED_TENSORS.present:
        assert "saved_bytes" not in recording.annotations
        return
    total = recording.annotations["saved_bytes"].total()
    assert sum(each.number for each in recording.top("saved_bytes", 100)) == total


def test_forward_mode_saves_nothing_that_is_not_counted():
    """Its nodes without a class of their own only pass gradients on."""
    layer = torch.nn.Linear(3, 3)
    with tr.Recorder(layer, saved=True) as recorder, forward_ad.dual_level():
        forward_ad.unpack_dual(layer(forward_ad.make_dual(torch.ones(2, 3), torch.ones(2, 3))))
    assert recorder.recording.run.notes == ()
