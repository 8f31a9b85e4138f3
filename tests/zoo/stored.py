"""Writes in place to what modules store: buffers and parameters."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "batch norm moves its statistics, which the model then reads",
    """
    norm:
        add_! = add_(norm.num_batches_tracked)
        batch_norm! = batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return batch_norm.0
    add = add(batch_norm.0, batch_norm.1)
    return add
    """,
)
def batch_norm_statistics() -> Run:
    def forward(self, x):
        return self.norm(x) + self.norm.running_mean

    return Run(net(forward, norm=nn.BatchNorm1d(3)), (leaf(4, 3),))


@case(
    "a buffer counts the calls and is used",
    """
    add_! = add_(count)
    mul = mul(x, add_)
    return mul
    """,
)
def buffer_counter() -> Run:
    def forward(self, x):
        self.count += 1
        return x * self.count

    return Run(net(forward, count=torch.zeros(1)), (leaf(2, 3),))


@case(
    "a buffer is replaced by a new tensor",
    """
    mul = mul(mean)
    mean = mean(x)
    add = add(mul, mean)
    detach = detach(add)
    sub = sub(x, detach)
    return sub
    """,
)
def buffer_replaced() -> Run:
    def forward(self, x):
        self.mean = (self.mean * 0.9 + x.mean(0)).detach()
        return x - self.mean

    return Run(net(forward, mean=torch.zeros(3)), (leaf(2, 3),))


@case(
    "a parameter is written under no_grad before it is used",
    """
    no_grad:
        clamp_! = clamp_(w)
    mul = mul(x, clamp_)
    return mul
    """,
    lasting=True,
)
def parameter_clamped() -> Run:
    def forward(self, x):
        with torch.no_grad():
            self.w.clamp_(min=0)
        return x * self.w

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))
