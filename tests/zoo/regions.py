"""Regions that mean something: checkpoints, custom functions, autocast."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


class Double(torch.autograd.Function):
    """Twice the input, with a gradient of its own."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        ctx.save_for_backward(x)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.scale, None


class Both(torch.autograd.Function):
    """Two results from two inputs, one of which it writes."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        x.add_(y)
        return x, x * y

    @staticmethod
    def backward(ctx, first, second):
        return first, second


@case(
    "a custom autograd function",
    """
    mul = mul(x, w)
    autograd.Function Double:
        mul2 = mul(mul)
    add = add(mul2)
    return add
    """,
)
def custom_function() -> Run:
    def forward(self, x):
        return Double.apply(x * self.w, 2.0) + 1

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a custom autograd function that writes its input and returns two tensors",
    """
    mul = mul(x)
    autograd.Function Both:
        add_! = add_(mul, y)
        mul2 = mul(add_, y)
    add = add(add_, mul2)
    return add
    """,
    backward=False,
)
def custom_function_writes() -> Run:
    def forward(self, x, y):
        a, b = Both.apply(x * 2, y)
        return a + b

    return Run(net(forward), (torch.randn(2, 3), torch.randn(2, 3)))


class Through(torch.autograd.Function):
    """Hands its input on, and turns the gradient around."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


@case(
    "gradient reversal: a custom function that hands on its input",
    """
    autograd.Function Through:
        view_as = view_as(x, x)
    add = add(x, view_as)
    return add
    """,
)
def gradient_reversal() -> Run:
    return Run(net(lambda self, x: x + Through.apply(x)), (leaf(2, 3),))


@case(
    "activation checkpointing, without re-entry",
    """
    checkpoint:
        fc:
            linear = linear(x, fc.weight, fc.bias)
            return linear
    tanh = tanh(linear)
    return tanh
    """,
)
def checkpoint_new() -> Run:
    def forward(self, x):
        return checkpoint(self.fc, x, use_reentrant=False).tanh()

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "activation checkpointing, with re-entry",
    """
    checkpoint:
        fc:
            linear = linear(x, fc.weight, fc.bias)
            return linear
    tanh = tanh(linear)
    return tanh
    """,
)
def checkpoint_reentrant() -> Run:
    def forward(self, x):
        return checkpoint(self.fc, x, use_reentrant=True).tanh()

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "activation checkpointing of a sequence, with dropout in it",
    """
    checkpoint:
        body.0:
            linear = linear(x, body.0.weight, body.0.bias)
            return linear
        body.1:
            dropout = dropout(linear)
            return dropout
    body.2:
        tanh = tanh(dropout)
        return tanh
    body.3:
        linear2 = linear(tanh, body.3.weight, body.3.bias)
        return linear2
    return linear2
    """,
)
def checkpoint_sequence() -> Run:
    body = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh(), nn.Linear(3, 3))

    def forward(self, x):
        return checkpoint_sequential(self.body, 2, x, use_reentrant=False)

    return Run(net(forward, body=body), (leaf(2, 3),))


@case(
    "autocast switched off inside autocast",
    """
    autocast:
        a:
            linear = linear(x, a.weight, a.bias)
            return linear
    float = float(linear)
    b:
        linear2 = linear(float, b.weight, b.bias)
        return linear2
    return linear2
    """,
)
def autocast_nested() -> Run:
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                return self.b(y.float())

    return Run(net(forward, a=nn.Linear(3, 3), b=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "a device context around factories",
    """
    zeros = zeros()
    add = add(x, zeros)
    return add
    """,
)
def device_context() -> Run:
    def forward(self, x):
        with torch.device("cpu"):
            return x + torch.zeros(3)

    return Run(net(forward), (leaf(2, 3),))
