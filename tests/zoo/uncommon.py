"""What PyTorch allows and few models do, each as small as it can be."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_rows

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


class Calls(nn.Module):
    """Has a call of its own, around PyTorch's or in place of it."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.own = own

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).sin() if self.own else super().__call__(x.sin()) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x)


@case(
    "a call of the user's own in place of PyTorch's, which would run hooks",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    sin = sin(linear)
    return sin
    """,
)
def called_otherwise() -> Run:
    return Run(Calls(own=True), (leaf(2, 3),))


@case(
    "a call of the user's own around PyTorch's",
    """
    sin = sin(x)
    Calls:
        fc:
            linear = linear(sin, fc.weight, fc.bias)
            return linear
        return linear
    add = add(linear)
    return add
    """,
)
def called_around() -> Run:
    return Run(Calls(own=False), (leaf(2, 3),))


@case(
    "gradients are checked and scaled as a gradient scaler does it, which tells of no version",
    """
    mul = mul(x)
    zeros = zeros()
    ones = ones()
    _amp_foreach_non_finite_check_and_unscale_! = \
_amp_foreach_non_finite_check_and_unscale_(mul, zeros, ones)
    sum = sum(_amp_foreach_non_finite_check_and_unscale_.0)
    add = add(_amp_foreach_non_finite_check_and_unscale_.1, sum)
    return add
    """,
    backward=False,
)
def scaled_gradients() -> Run:
    def forward(self, x):
        scaled, found = x * 2, torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_([scaled], found, torch.ones(1))
        return found + scaled.sum()

    return Run(net(forward), (torch.randn(2, 3),))


@case(
    "a condition between two modules, whose weights it reads",
    """
    sum = sum(x)
    gt = gt(sum)
    cond = cond(gt, x, fc.bias, fc.weight, other.bias, other.weight)
    mul = mul(cond)
    return mul
    """,
    replays=False,
    lasting=True,  # the compiler marks the weights
)
def condition_of_modules() -> Run:
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.fc(x), lambda x: self.other(x), (x,)) * 2

    return Run(net(forward, fc=nn.Linear(3, 3), other=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "a function is mapped over rows, and closes over a weight",
    """
    map_impl = map_impl(x, w)
    add = add(map_impl)
    return add
    """,
    replays=False,
    lasting=True,  # the compiler marks the weights
)
def mapped() -> Run:
    def forward(self, x):
        return map_rows(lambda row: row.sin() * self.w, x) + 1

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


class Product(torch.autograd.Function):
    """Made by the newer protocol, so that transformations can take it apart."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x


@case(
    "a custom function whose context is set up apart, plainly and under vmap",
    """
    autograd.Function Product:
        mul = mul(x, w)
    autograd.Function Product:
        custom_function_call = custom_function_call(mul, x)
    return custom_function_call
    """,
    reruns=False,
)
def function_set_up_apart() -> Run:
    def forward(self, x):
        return torch.vmap(Product.apply)(Product.apply(x, self.w), x)

    return Run(net(forward, w=parameter(2, 3)), (leaf(2, 3),))


@case(
    "what is kept for backward passes through hooks, and may be written",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    exp = exp(linear)
    sin = sin(exp)
    mul_! = mul_(sin)
    add = add(mul_, exp)
    return add
    """,
)
def saved_and_written() -> Run:
    def forward(self, x):
        with torch.autograd.graph.saved_tensors_hooks(lambda each: each * 1, lambda each: each):
            y = self.fc(x).exp()
        return y.sin().mul_(2) + y

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "a second set of weights follows the first, all at once, and is used",
    """
    no_grad:
        _foreach_lerp_! = _foreach_lerp_(slow.weight, slow.bias, fast.weight, fast.bias)
        slow:
            linear = linear(x, _foreach_lerp_.0, _foreach_lerp_.1)
            return linear
    return linear
    """,
    lasting=True,
    backward=False,
)
def weights_follow() -> Run:
    def forward(self, x):
        with torch.no_grad():
            torch._foreach_lerp_(list(self.slow.parameters()), list(self.fast.parameters()), 0.1)
            return self.slow(x)

    return Run(net(forward, fast=nn.Linear(3, 3), slow=nn.Linear(3, 3)), (torch.randn(2, 3),))


@case(
    "rows go to experts of their own and come back into place",
    """
    gate:
        linear = linear(x, gate.weight, gate.bias)
        return linear
    argmax = argmax(linear)
    zeros_like = zeros_like(x)
    eq = eq(argmax)
    where = where(eq)
    getitem = getitem(x, where)
    experts.0:
        linear2 = linear(getitem, experts.0.weight, experts.0.bias)
        return linear2
    index_add_! = index_add_(zeros_like, where, linear2)
    eq2 = eq(argmax)
    where2 = where(eq2)
    getitem2 = getitem(x, where2)
    experts.1:
        linear3 = linear(getitem2, experts.1.weight, experts.1.bias)
        return linear3
    index_add_2! = index_add_(index_add_, where2, linear3)
    return index_add_2
    """,
)
def experts() -> Run:
    def forward(self, x):
        chosen, out = self.gate(x).argmax(-1), torch.zeros_like(x)
        for number, each in enumerate(self.experts):
            (rows,) = torch.where(chosen == number)
            out.index_add_(0, rows, each(x[rows]))
        return out

    both = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    return Run(net(forward, gate=nn.Linear(3, 2), experts=both), (leaf(4, 3),))


@case(
    "tensors leave for numpy and come back: the link is cut",
    """
    detach = detach(x)
    numpy = numpy(detach)
    mul = mul(x, const)
    return mul
    """,
)
def through_numpy() -> Run:
    pytest.importorskip("numpy")

    def forward(self, x):
        return x * torch.from_numpy(x.detach().numpy() * 2)

    return Run(net(forward), (leaf(2, 3),))
