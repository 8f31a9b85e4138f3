"""What goes in and out: containers, numbers, tensors from elsewhere, tensors from nothing."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from tests.callers import called
from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case

OUTSIDE = torch.tensor([1.0, 2.0, 3.0])
OUTSIDE_NAME, SHIFT_NAME = called("OUTSIDE", "const"), called("shift", "const2")


class Pair(NamedTuple):
    """A named tuple of tensors."""

    first: torch.Tensor
    second: torch.Tensor


@dataclass
class Batch:
    """A dataclass of tensors and other things."""

    x: torch.Tensor
    mask: torch.Tensor
    name: str = "batch"


@case(
    "a dict goes in, another comes out",
    """
    add = add(batch.a, batch.b)
    mul = mul(batch.a)
    return add, mul
    """,
)
def dict_in_and_out() -> Run:
    def forward(self, batch):
        return {"sum": batch["a"] + batch["b"], "more": {"twice": batch["a"] * 2}}

    return Run(net(forward), ({"a": leaf(2, 3), "b": leaf(2, 3)},))


@case(
    "a dataclass goes in and comes out",
    """
    mul = mul(batch.x, batch.mask)
    return mul, batch.mask
    """,
)
def dataclass_in_and_out() -> Run:
    def forward(self, batch):
        return Batch(batch.x * batch.mask, batch.mask, "out")

    return Run(net(forward), (Batch(leaf(2, 3), torch.ones(3)),))


@case(
    "a named tuple goes in and comes out",
    """
    exp = exp(pair.first)
    neg = neg(pair.second)
    return exp, neg
    """,
)
def named_tuple_in_and_out() -> Run:
    def forward(self, pair):
        return Pair(pair.first.exp(), -pair.second)

    return Run(net(forward), (Pair(leaf(2, 3), leaf(2, 3)),))


@case(
    "nested lists with holes, text and numbers in them",
    """
    add = add(nested.0, nested.1.0)
    add2 = add(add, nested.1.2.0)
    return nested.0, add2
    """,
)
def nested_lists() -> Run:
    def forward(self, nested, mode="sum"):
        a, (b, _, (c,)) = nested
        return [a, [None, (a + b + c, mode)], 3]

    return Run(net(forward), ([leaf(2), [leaf(2), None, (leaf(2),)]],), {"mode": "sum"})


@case(
    "None and text among the arguments",
    """
    mul = mul(x)
    return mul
    """,
)
def none_and_text() -> Run:
    def forward(self, x, mask=None, mode="a", *, scale=2.0):
        return (x * scale if mask is None else x * mask), None, mode

    return Run(net(forward), (leaf(2, 3), None), {"mode": "b", "scale": 3.0})


@case(
    "an ordered dict subclass with attribute access comes out",
    """
    linear = linear(x, w)
    sum = sum(linear)
    return sum, linear
    """,
)
def model_output() -> Run:
    class Output(OrderedDict):
        """Like the outputs of transformers."""

        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError as error:
                raise AttributeError(name) from error

    def forward(self, x):
        logits = nn.functional.linear(x, self.w)
        return Output(loss=logits.sum(), logits=logits)

    return Run(net(forward, w=parameter(3, 3)), (leaf(2, 3),))


@case(
    "a branch on a number taken out of a tensor",
    """
    sum = sum(x)
    item = item(sum)
    mul = mul(x)
    return mul
    """,
)
def branch_on_item() -> Run:
    def forward(self, x):
        return x * 2 if x.sum().item() > -100 else x

    return Run(net(forward), (leaf(2, 3),))


@case(
    "sizes flow back in as numbers",
    """
    arange = arange()
    embedding = embedding(arange, w)
    add = add(x, embedding)
    return add
    """,
)
def shapes_flow() -> Run:
    def forward(self, x):
        return x + nn.functional.embedding(torch.arange(x.shape[1]), self.w)

    return Run(net(forward, w=parameter(9, 3)), (leaf(2, 4, 3),))


@case(
    "a tensor becomes a number and the number a tensor",
    """
    mean = mean(x)
    float() = float()(mean)
    tensor = tensor()
    mul = mul(x, tensor)
    return mul
    """,
)
def number_and_back() -> Run:
    return Run(net(lambda self, x: x * torch.tensor(float(x.mean()))), (leaf(2, 3),))


@case(
    "a tensor from a closure and one from the module's globals",
    f"""
    mul = mul(x, {OUTSIDE_NAME})
    add = add(mul, {SHIFT_NAME})
    return add
    """,
)
def outside_tensors() -> Run:
    shift = torch.randn(3)
    return Run(net(lambda self, x: x * OUTSIDE + shift), (leaf(2, 3),))


@case(
    "a tensor kept as a plain attribute inside a list",
    """
    add = add(x, kept.0)
    return add
    """,
)
def tensors_in_a_list() -> Run:
    return Run(net(lambda self, x: x + self.kept[0], kept=[torch.randn(3)]), (leaf(2, 3),))


@case(
    "a cache kept on the module grows from call to call",
    """
    step:
        cat = cat(x)
        return cat
    mul = mul(cat)
    step:
        cat2 = cat(cat, mul)
        return cat2
    return cat2
    """,
)
def growing_cache() -> Run:
    def step(self, x):
        self.cache = torch.cat([*([] if self.cache is None else [self.cache]), x])
        return self.cache

    def forward(self, x):
        self.step.cache = None
        return self.step(self.step(x) * 2)

    return Run(net(forward, step=net(step, cache=None)), (leaf(2, 3),))


@case(
    "tensors made from nothing: positions, zeros, a mask",
    """
    arange = arange()
    zeros = zeros()
    ones = ones()
    tril = tril(ones)
    eq = eq(tril)
    masked_fill = masked_fill(scores, eq)
    add = add(masked_fill, arange)
    add2 = add(add, zeros)
    return add2
    """,
)
def factories() -> Run:
    def forward(self, scores):
        places, rest = torch.arange(3), torch.zeros(3)
        mask = torch.ones(3, 3).tril() == 0
        return scores.masked_fill(mask, -1.0) + places + rest

    return Run(net(forward), (leaf(3, 3),))


@case(
    "random numbers of several kinds",
    """
    rand = rand()
    randn_like = randn_like(x)
    bernoulli = bernoulli(rand)
    mul = mul(x, bernoulli)
    drop:
        dropout = dropout(mul)
        return dropout
    add = add(dropout, randn_like)
    randperm = randperm()
    getitem = getitem(add, randperm)
    return getitem
    """,
)
def random_ops() -> Run:
    def forward(self, x):
        chance, noise = torch.rand(2, 3), torch.randn_like(x)
        y = self.drop(x * torch.bernoulli(chance)) + noise
        return y[torch.randperm(2)]

    return Run(net(forward, drop=nn.Dropout(0.5)), (leaf(2, 3),))


@case(
    "several results, of which one is used",
    """
    max = max(x)
    split = split(max.0)
    cat = cat(split.1, split.0)
    return cat, max.1
    """,
)
def several_results() -> Run:
    def forward(self, x):
        best, where = x.max(0)
        left, right = best.split(2)
        return torch.cat([right, left]), where

    return Run(net(forward), (leaf(2, 4),))


@case(
    "a tensor is iterated over",
    """
    unbind = unbind(x)
    stack = stack(unbind.1, unbind.0)
    return stack
    """,
)
def iterated() -> Run:
    return Run(net(lambda self, x: torch.stack([*x][::-1])), (leaf(2, 3),))


@case(
    "operators, reflected and in place",
    """
    rsub = rsub(x)
    pow = pow(rsub)
    neg = neg(pow)
    div = div(neg)
    matmul = matmul(x, w)
    add_! = add_(matmul, div)
    gt = gt(add_)
    bitwise_not = bitwise_not(gt)
    mul = mul(add_, bitwise_not)
    return mul
    """,
)
def operators() -> Run:
    def forward(self, x):
        y = 2 / -((1 - x) ** 2)
        z = x @ self.w
        z += y
        return z * ~(z > 0)

    return Run(net(forward, w=parameter(3, 3)), (leaf(2, 3),))


@case(
    "einsum, where with tensors for branches, and indices of several kinds",
    """
    einsum = einsum(x, y)
    gt = gt(einsum)
    where = where(gt, einsum, w)
    gt2 = gt(where)
    getitem = getitem(where, gt2)
    sum = sum(getitem)
    getitem2 = getitem(where, index)
    mul = mul(sum, getitem2)
    return mul
    """,
)
def indices() -> Run:
    def forward(self, x, y, index):
        z = torch.einsum("ij,jk->ik", x, y)
        z = torch.where(z > 0, z, self.w)
        return z[z > 0].sum() * z[None, ..., index, 1:]

    return Run(net(forward, w=parameter(2, 2)), (leaf(2, 3), leaf(3, 2), torch.tensor([1, 0])))


@case(
    "an object of unknown kind goes in and comes out",
    """
    mul = mul(box.inside)
    return mul
    """,
    backward=False,
)
def unknown_container() -> Run:
    class Box:
        def __init__(self, inside):
            self.inside = inside

        def __iter__(self):
            raise RuntimeError("do not iterate me")

        def __len__(self):
            raise RuntimeError("do not measure me")

        def __eq__(self, other):
            raise RuntimeError("do not compare me")

        __hash__ = None

    def forward(self, box):
        return Box(box.inside * 2)

    return Run(net(forward), (Box(leaf(2, 3)),))
