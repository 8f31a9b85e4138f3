"""What random models brought to light of memory that is shared and written."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net

CASES = Cases()
case = CASES.case


@case(
    "a tensor is given the memory of another",
    """
    mul = mul(x)
    empty = empty()
    detach = detach(mul)
    alias = alias(mul)
    neg_! = neg_(alias)
    add = add(neg_.1, neg_.0)
    return add
    """,
    replays=False,
    backward=False,
)
def memory_set() -> Run:
    def forward(self, x):
        y = x * 2
        made = torch.empty(0)
        made.set_(y.detach())
        made.neg_()
        return y + made

    return Run(net(forward), (torch.randn(2, 3),))


@case(
    "an input is written where autograd does not look, before its gradient is first asked for",
    """
    detach = detach(x)
    abs_! = abs_(detach)
    mul = mul(abs_.1)
    return mul
    """,
    lasting=True,
)
def leaf_written_unseen() -> Run:
    def forward(self, x):
        x.detach().abs_()
        return x * 2

    return Run(net(forward), (leaf(2, 3),))


@case(
    "one number of a buffer is written as bytes, and read as a number",
    """
    zeros = zeros()
    getitem = getitem(zeros)
    view = view(zeros)
    getitem2 = getitem(view)
    fill_! = fill_(getitem2)
    mul = mul(x, fill_.1)
    return mul
    """,
)
def written_as_bytes() -> Run:
    def forward(self, x):
        numbers = torch.zeros(4, dtype=torch.int32)
        third = numbers[2]
        numbers.view(torch.int8)[8:10].fill_(1)
        return x * third

    return Run(net(forward), (leaf(2, 3),))


@case(
    "both halves of a tensor are written, one of them through its data",
    """
    zeros = zeros()
    add = add(zeros)
    getitem = getitem(add)
    getitem2 = getitem(add)
    data = data(getitem2)
    add_! = add_(getitem)
    add_2! = add_(data)
    join = join(add_.1, add_2.1)
    mul = mul(x, join)
    return mul
    """,
)
def halves_written_apart() -> Run:
    def forward(self, x):
        whole = torch.zeros(4) + 0
        left, right = whole[:2], whole[2:].data
        left.add_(1)
        right.add_(2)
        return x * whole

    return Run(net(forward), (leaf(3, 4),))


@case(
    "views taken before a tensor is written several times are read afterwards",
    """
    zeros = zeros()
    getitem = getitem(zeros)
    getitem2 = getitem(zeros)
    add_! = add_(zeros)
    add_2! = add_(add_)
    add_3! = add_(add_2)
    setitem! = setitem(add_3)
    mul = mul(x, setitem.1)
    getitem3 = getitem(x)
    mul2 = mul(getitem3, setitem.2)
    return mul, mul2
    """,
)
def written_again_and_again() -> Run:
    def forward(self, x):
        total = torch.zeros(4)
        early = total[1:], total[::2]
        for _ in range(3):
            total.add_(1)
        total[0] = 5
        return x * early[0], x[:, :2] * early[1]

    return Run(net(forward), (leaf(2, 3),))


@case(
    "a buffer takes another size, and is filled, as observers of quantization do",
    """
    resize_! = resize_(low)
    detach = detach(x)
    amin = amin(detach)
    copy_! = copy_(resize_, amin)
    sub = sub(x, copy_)
    return sub
    """,
)
def buffer_resized() -> Run:
    def forward(self, x):
        self.low.resize_(x.shape[-1:])
        self.low.copy_(x.detach().amin(0))
        return x - self.low

    return Run(net(forward, low=torch.tensor([])), (leaf(2, 3),))


@case(
    "a parameter is made anew while the model runs",
    """
    detach = detach(fc.weight)
    mul = mul(detach)
    alias = alias(mul)
    fc:
        linear = linear(x, alias, fc.bias)
        return linear
    return linear
    """,
    lasting=True,
)
def parameter_made_anew() -> Run:
    def forward(self, x):
        self.fc.weight = nn.Parameter(self.fc.weight.detach() * 2)
        return self.fc(x)

    return Run(net(forward, fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "parameters are views of a flat one, taken when the model was made",
    """
    alias = alias(flat)
    alias2 = alias(flat)
    linear = linear(x, alias, alias2)
    return linear
    """,
)
def views_of_flat_parameter() -> Run:
    made = net(
        lambda self, x: nn.functional.linear(x, self.weight, self.bias),
        flat=nn.Parameter(torch.randn(12)),
    )
    made.weight, made.bias = made.flat[:9].view(3, 3), made.flat[9:]
    return Run(made, (leaf(2, 3),))
