"""Custom autograd functions, in every form in which PyTorch lets one be written and called."""

from __future__ import annotations

import functools

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.zoo.case import Cases, Run, leaf, net

CASES = Cases()
case = CASES.case


class Negate(torch.autograd.Function):
    """Hands on what a module makes of its input, and negates the gradient."""

    @staticmethod
    def forward(ctx, x, module):
        return module(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad, None


class Same(torch.autograd.Function):
    """Returns its input; nothing at all runs inside."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def _decorated(function):
    """A decorator that does not say what it decorates."""

    def call(*args):
        return function(*args)

    return call


class Decorated(Same):
    """The forward is wrapped; the rest is inherited."""

    @staticmethod
    @_decorated
    def forward(ctx, x):
        return Negate.apply(x, torch.sin)


class Partial(Same):
    """The forward is no function but something else to call."""

    forward = staticmethod(functools.partial(lambda scale, ctx, x: x * scale, 2.0))


class Outside(Same):
    """Leaves inference mode, and gradient mode, in the middle of its forward."""

    @staticmethod
    def forward(ctx, x, module):
        with torch.inference_mode(False), torch.no_grad():
            return module(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5, None


@case(
    "a custom function returns its own input, which a module handed on",
    """
    autograd.Function Negate:
        same:
            return x
        view_as = view_as(x, x)
    add = add(x, view_as)
    return add
    """,
)
def function_of_identity() -> Run:
    forward = lambda self, x: x + Negate.apply(x, self.same)  # noqa: E731
    return Run(net(forward, same=nn.Identity()), (leaf(2, 3),))


@case(
    "a custom function that leaves inference mode calls a module that hands on its input",
    """
    autograd.Function Outside:
        same:
            return x
        view_as = view_as(x, x)
    add = add(x, view_as)
    return add
    """,
)
def function_outside() -> Run:
    forward = lambda self, x: x + Outside.apply(x, self.same)  # noqa: E731
    return Run(net(forward, same=nn.Identity()), (leaf(2, 3),))


@case(
    "activation checkpointing, with re-entry, of a dropout that is off",
    """
    checkpoint:
        body:
            0:
                linear = linear(x, body.0.weight, body.0.bias)
                return linear
            1:
                dropout = dropout(linear)
                return dropout
            return linear
    add = add(linear, x)
    return add
    """,
)
def checkpoint_reentrant_dropout() -> Run:
    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=True) + x

    body = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    return Run(net(forward, body=body).eval(), (leaf(2, 3),))


@case(
    "one line of code calls a custom function, then modules, then a custom function",
    """
    autograd.Function Same:
        view_as = view_as(x, x)
    add = add(x, view_as)
    same:
        pass = pass(add)
        return pass
    add2 = add(add, pass)
    fc:
        linear = linear(add2, fc.weight, fc.bias)
        return linear
    add3 = add(add2, linear)
    autograd.Function Same:
        view_as2 = view_as(add3, add3)
    add4 = add(add3, view_as2)
    same:
        pass2 = pass(add4)
        return pass2
    add5 = add(add4, pass2)
    return add5
    """,
)
def function_in_loop() -> Run:
    def forward(self, x):
        for call in (Same.apply, self.same, self.fc, Same.apply, self.same):
            x = x + call(x)
        return x

    return Run(net(forward, same=nn.Identity(), fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "the forward of a module is the apply of a custom function",
    """
    made:
        autograd.Function Same:
            view_as = view_as(x, x)
        return view_as
    add = add(x, view_as)
    return add
    """,
)
def function_as_forward() -> Run:
    made = nn.Identity()
    made.forward = Same.apply
    return Run(net(lambda self, x: x + self.made(x), made=made), (leaf(2, 3),))


@case(
    "custom functions inside each other, decorated, inherited and partial",
    """
    autograd.Function Decorated:
        autograd.Function Negate:
            sin = sin(x)
    autograd.Function Partial:
        mul = mul(x)
    add = add(mul)
    autograd.Function Partial:
        mul2 = mul(x)
    add2 = add(add, mul2)
    add3 = add(sin, add2)
    return add3
    """,
)
def functions_nested() -> Run:
    def forward(self, x):
        return Decorated.apply(x) + sum(map(Partial.apply, (x, x)))

    return Run(net(forward), (leaf(2, 3),))


@case(
    "custom functions in inference mode",
    """
    inference_mode:
        exp = exp(x)
        autograd.Function Same:
            view_as = view_as(exp, exp)
        add = add(exp, view_as)
        same:
            pass = pass(add)
            return pass
        add2 = add(add, pass)
        sin = sin(add2)
        add3 = add(add2, sin)
        autograd.Function Negate:
            same:
                return add3
            view_as2 = view_as(add3, add3)
        add4 = add(add3, view_as2)
    return add4
    """,
    backward=False,
)
def function_in_inference() -> Run:
    def forward(self, x):
        with torch.inference_mode():
            y = x.exp()
            for call in (Same.apply, self.same, torch.sin):
                y = y + call(y)
            return y + Negate.apply(y, self.same)

    return Run(net(forward, same=nn.Identity()), (torch.randn(2, 3),))
