"""Buffers are after a look what they were before, whatever their kind, and whatever was done."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from tests.zoo.case import net

KINDS = {
    "small": lambda: torch.arange(6.0),
    "of one number": lambda: torch.tensor(3),
    "empty": lambda: torch.tensor([]),
    "truth values": lambda: torch.tensor([True, False]),
    "not a number": lambda: torch.tensor([1.0, float("nan"), -0.0]),
    "large": lambda: torch.arange(40_000.0).view(200, 200),
    "turned": lambda: torch.arange(6.0).view(2, 3).t(),
    "sparse": lambda: torch.eye(3).to_sparse(),
}


def _written(self, x):
    with torch.no_grad():
        self.b.zero_() if self.b.layout is torch.sparse_coo else self.b.logical_not_()
    return x


def _resized(self, x):
    if self.b.layout is torch.strided:
        self.b.resize_(2, 5).fill_(1)
    return x


def _flattened(self, x):
    if self.b.layout is torch.strided:
        self.b.data = self.b.data.reshape(-1)
    return x


def _given_memory(self, x):
    self.b.data = torch.zeros_like(self.b)
    return x


def _exchanged(self, x):
    self.b = torch.ones(2)
    return x


def _bits(tensor):
    tensor = tensor.to_dense() if tensor.layout is torch.sparse_coo else tensor.contiguous()
    return tensor.shape, tensor.dtype, bytes(tensor.untyped_storage())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forward", [_written, _resized, _flattened, _given_memory, _exchanged])
def test_buffers_are_put_back(kind, forward):
    """Values, shape, version and identity; also of those beside it, and of one held twice."""
    buffer = KINDS[kind]()
    inner = net(forward, b=buffer, beside=torch.arange(3.0), whole=torch.arange(3))
    model = nn.Sequential(inner, net(lambda self, x: x + 1, b=buffer))
    before = [(each, _bits(each), each._version) for each in model.buffers()]
    torchrecorder.record(model, torch.ones(2))
    after = list(model.buffers())
    assert [id(each) for each in after] == [id(each) for each, _, _ in before]
    assert model[1].b is buffer
    for each, bits, version in before:
        assert _bits(each) == bits
        assert each._version == version


@pytest.mark.parametrize("size", [1, 40_000])
def test_a_zero_that_became_negative_is_put_back(size):
    """``0.0`` and ``-0.0`` are equal numbers with different bits."""
    model = net(lambda self, x: x * self.b.mul_(-1).sum(), b=torch.zeros(size))
    torchrecorder.record(model, torch.ones(2))
    assert not torch.signbit(model.b).any()


@pytest.mark.parametrize("size", [3, 40_000])
def test_an_expanded_buffer_is_put_back(size):
    """PyTorch refuses to copy to a tensor several elements of which share their memory."""
    base = torch.zeros(2, 1)
    model = net(lambda self, x: x * base.add_(1), b=base.expand(2, size))
    torchrecorder.record(model, torch.ones(2))
    assert model.b.stride() == (1, 0) and not model.b.any() and not base.any()


def _differentiated(self, x):
    with torch.enable_grad():
        self.inner(x).sum().backward()
    return x


@pytest.mark.parametrize("given", [False, True])
def test_gradients_are_put_back(given):
    """A pass inside of forward adds nothing to those of the user, nor leaves any."""
    model = net(_differentiated, inner=nn.Linear(2, 2, bias=False))
    weight = model.inner.weight
    gradient = weight.grad = torch.full((2, 2), 3.0) if given else None
    torchrecorder.record(model, torch.ones(1, 2))
    assert weight.grad is gradient
    assert not given or torch.equal(gradient, torch.full((2, 2), 3.0)) and not gradient._version


def test_gradients_of_buffers_and_attributes_are_put_back():
    """A backward pass adds to every leaf that requires grad, wherever a module keeps it."""

    def forward(self, x):
        return x * self.b * self.plain

    leaf, own = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    own.grad = given = torch.full((2,), 3.0)
    model = nn.Sequential(net(forward, b=leaf))
    model[0].plain = own
    torchrecorder.record(model, torch.ones(2), backward=True)
    assert leaf.grad is None
    assert own.grad is given and given.tolist() == [3.0, 3.0]


def test_an_attribute_that_is_no_leaf_after_the_run():
    """It received a result in place: PyTorch warns of its ``grad``, which nothing has set."""
    model = net(lambda self, x: self.plain.copy_(self.inner(x)), inner=nn.Linear(2, 2))
    model.plain = torch.zeros(1, 2)
    torchrecorder.record(model, torch.ones(1, 2))
    assert not model.plain.is_leaf


class OwnGenerator(torch.Generator):
    """A generator of a user."""


@pytest.mark.parametrize("cls", [torch.Generator, OwnGenerator])
def test_generators_of_modules_are_put_back(cls):
    """Those that a module has as attributes; also if the model raises."""

    def forward(self, x):
        drawn = torch.rand(2, generator=self.generator)
        if not x.any():
            raise ValueError
        return x * drawn

    model = nn.Sequential(net(forward))
    generator = model[0].generator = cls()
    generator.manual_seed(3)
    before = generator.get_state()
    torchrecorder.record(model, torch.ones(2))
    with pytest.raises(ValueError):
        torchrecorder.record(model, torch.zeros(2))
    assert torch.equal(generator.get_state(), before)
