"""What PyTorch allows and few models do, each as small as it can be."""

from __future__ import annotations

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
