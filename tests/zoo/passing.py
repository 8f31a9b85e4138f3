"""Modules that hand on what they were given."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "residual around an identity: two edges into one addition",
    """
    skip:
        pass = pass(x)
        return pass
    add = add(x, pass)
    return add
    """,
)
def identity_residual() -> Run:
    return Run(net(lambda self, x: x + self.skip(x), skip=nn.Identity()), (leaf(2, 3),))


@case(
    "residual around an identity, of an inner tensor",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    skip:
        pass = pass(linear)
        return pass
    add = add(pass, linear)
    return add
    """,
)
def identity_residual_inner() -> Run:
    def forward(self, x):
        y = self.fc(x)
        return self.skip(y) + y

    return Run(net(forward, fc=nn.Linear(3, 3), skip=nn.Identity()), (leaf(2, 3),))


@case(
    "residual around a dropout that does nothing in eval",
    """
    drop:
        dropout = dropout(x)
        return dropout
    add = add(x, dropout)
    return add
    """,
)
def dropout_residual() -> Run:
    made = net(lambda self, x: x + self.drop(x), drop=nn.Dropout(0.5))
    return Run(made.eval(), (leaf(2, 3),))


@case(
    "the output is the input",
    """
    return x
    """,
)
def output_is_input() -> Run:
    return Run(net(lambda self, x: x), (leaf(2, 3),))


@case(
    "the root is an identity",
    """
    return input
    """,
)
def root_identity() -> Run:
    return Run(nn.Identity(), (leaf(2, 3),))


@case(
    "a model ends in modules that hand on: they lie on the way out",
    """
    mul = mul(x)
    head:
        pass = pass(mul)
        return pass
    drop:
        dropout = dropout(pass)
        return dropout
    return dropout
    """,
)
def identity_at_the_end() -> Run:
    made = net(lambda self, x: self.drop(self.head(x * 2)), head=nn.Identity(), drop=nn.Dropout())
    return Run(made.eval(), (leaf(2, 3),))


@case(
    "one tensor is given as two inputs",
    """
    sub = sub(a, a)
    return sub
    """,
)
def one_input_twice() -> Run:
    x = leaf(2, 3)
    return Run(net(lambda self, a, b: a - b), (x, x))


@case(
    "a tensor times itself: two edges",
    """
    mul = mul(x, x)
    return mul
    """,
)
def squared() -> Run:
    return Run(net(lambda self, x: x * x), (leaf(2, 3),))


@case(
    "a child returns its own parameter",
    """
    token:
        return token.w
    add = add(x, token.w)
    return add
    """,
)
def returns_parameter() -> Run:
    token = net(lambda self: self.w, w=parameter(3))
    return Run(net(lambda self, x: x + self.token(), token=token), (leaf(2, 3),))


@case(
    "a child returns its own buffer",
    """
    table:
        return table.b
    add = add(x, table.b)
    return add
    """,
)
def returns_buffer() -> Run:
    table = net(lambda self: self.b, b=torch.randn(3))
    return Run(net(lambda self, x: x + self.table(), table=table), (leaf(2, 3),))


@case(
    "pass-through inside pass-through",
    """
    skip:
        0:
            pass = pass(x)
            return pass
        1:
            0:
                pass2 = pass(pass)
                return pass2
            return pass2
        return pass2
    add = add(x, pass2)
    return add
    """,
)
def nested_identity() -> Run:
    skip = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity()))
    return Run(net(lambda self, x: x + self.skip(x), skip=skip), (leaf(2, 3),))


@case(
    "a child hands on one of two inputs, beside a new tensor",
    """
    pick:
        add = add(x, y)
        pass = pass(y)
        return pass, add
    mul = mul(pass, y)
    add2 = add(mul, add)
    return add2
    """,
)
def hands_on_one() -> Run:
    def forward(self, x, y):
        same, total = self.pick(x, y)
        return same * y + total

    pick = net(lambda self, x, y: (y, x + y))
    return Run(net(forward, pick=pick), (leaf(2, 3), leaf(2, 3)))


@case(
    "an identity of integers",
    """
    skip:
        pass = pass(ids)
        return pass
    add = add(ids, pass)
    embed:
        embedding = embedding(add, embed.weight)
        return embedding
    return embedding
    """,
)
def identity_of_integers() -> Run:
    def forward(self, ids):
        return self.embed(ids + self.skip(ids))

    made = net(forward, skip=nn.Identity(), embed=nn.Embedding(9, 2))
    return Run(made, (torch.tensor([1, 4]),))


@case(
    "an identity of a parameter",
    """
    skip:
        return w
    mul = mul(x, w)
    add = add(mul, w)
    return add
    """,
)
def identity_of_parameter() -> Run:
    def forward(self, x):
        return x * self.skip(self.w) + self.w

    return Run(net(forward, skip=nn.Identity(), w=parameter(3)), (leaf(2, 3),))


@case(
    "what an identity handed on is written in place",
    """
    mul = mul(x)
    skip:
        pass = pass(mul)
        return pass
    add_! = add_(pass, w)
    add = add(add_.0, add_.1)
    return add
    """,
)
def identity_then_write() -> Run:
    def forward(self, x):
        y = x * 2
        z = self.skip(y)
        z.add_(self.w)
        return y + z

    return Run(net(forward, skip=nn.Identity(), w=parameter(3)), (leaf(2, 3),))


@case(
    "an identity whose input is a list of tensors",
    """
    mul = mul(x)
    skip:
        return x, mul
    add = add(x, mul)
    return add
    """,
)
def identity_of_list() -> Run:
    def forward(self, x):
        a, b = self.skip([x, x * 2])
        return a + b

    return Run(net(forward, skip=nn.Identity()), (leaf(2, 3),))


@case(
    "an identity under no_grad",
    """
    no_grad:
        skip:
            pass = pass(x)
            return pass
        add = add(x, pass)
    mul = mul(x, add)
    return mul
    """,
)
def identity_without_grad() -> Run:
    def forward(self, x):
        with torch.no_grad():
            y = x + self.skip(x)
        return x * y

    return Run(net(forward, skip=nn.Identity()), (leaf(2, 3),))


@case(
    "an operation that returns its input object: contiguous, to",
    """
    contiguous = contiguous(x)
    to = to(x)
    add = add(x, x)
    return add
    """,
    limit="an op that returns its own argument cannot be told from it by identity",
)
def op_returns_input() -> Run:
    return Run(net(lambda self, x: x.contiguous() + x.to(torch.float32)), (leaf(2, 3),))
