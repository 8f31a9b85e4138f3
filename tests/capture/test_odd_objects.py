"""Objects of the program that are not what they say, or whose methods raise, are left alone."""

from __future__ import annotations

import contextlib
from unittest import mock

import pytest
import torch
from torch import nn

import torchrecorder
from tests.notation import op_names
from tests.zoo.case import net


class Proxy:
    """Says that it is a tensor, as lazy proxies do; torch functions crash with it."""

    __class__ = property(lambda self: torch.Tensor)


class Broken:
    """Does not even tell its class."""

    @property
    def __class__(self):
        raise RuntimeError("asked")


@pytest.mark.parametrize("make", [lambda: mock.MagicMock(spec=torch.Tensor), Proxy, Broken])
def test_what_is_no_tensor_passes_through(make):
    """As an argument, in a container, as an attribute, and as a result."""
    odd = make()

    def forward(self, x, other, *, table):
        return {"y": self.fc(x), "other": other, "held": self.held, "table": table}

    model = net(forward, fc=nn.Linear(3, 3))
    model.__dict__["held"] = odd
    args, kwargs = (torch.ones(2, 3), odd), {"table": [odd, torch.ones(2)]}
    options = {"stats": True, "keep": True, "memory": True}
    recording = torchrecorder.record(model, args, kwargs, **options)
    assert op_names(recording) == ["linear"]
    assert [slot.name for slot in recording.inputs] == ["x", "table.1"]


class Lazy(list):
    """A list that makes its items when it is asked for them."""

    def __iter__(self):
        raise RuntimeError("asked")

    __len__ = __getitem__ = __iter__


class Pair(tuple):
    """A tuple of that kind."""

    __slots__ = ()
    __iter__ = __len__ = __getitem__ = Lazy.__iter__


@pytest.mark.parametrize("kind", [Lazy, Pair])
def test_methods_of_containers_are_not_called(kind):
    """Nor are they taken for empty: the tensors in them are inputs."""
    given = kind([torch.ones(2, 3)])
    first = kind.__base__.__getitem__
    model = net(lambda self, items: self.fc(first(items, 0)), fc=nn.Linear(3, 3))
    recording = torchrecorder.record(model, (given,))
    assert [slot.name for slot in recording.inputs] == ["items.0"]


class Number(int):
    """A number without a text."""

    def __repr__(self):
        raise RuntimeError("asked")


@pytest.mark.parametrize("number, text", [(Number(2), "Number"), (10**5000, "int")], ids=type)
def test_an_argument_without_a_text(number, text):
    """The class takes its place; Python refuses to write integers of thousands of digits."""

    def scaled(x):
        with contextlib.suppress(RuntimeError, OverflowError):
            x + number
        return x

    (op,) = torchrecorder.record(scaled, torch.ones(2, 3)).ops.values()
    assert op.arguments == (("other", text),)


def test_no_text_is_made_of_what_operators_do_not_take():
    """PyTorch would put it into an error that nobody reads."""
    asked = []

    class Odd:
        def __repr__(self):
            asked.append(self)
            return "odd"

        def __radd__(self, other):
            return other * 2

    recording = torchrecorder.record(lambda x: x + Odd(), torch.ones(2, 3))
    assert asked == [] and "mul" in op_names(recording)
