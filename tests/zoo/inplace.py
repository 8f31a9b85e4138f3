"""Writes in place, and readers that see them through another name."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "a child writes its input in place",
    """
    mul = mul(x)
    act:
        relu! = relu(mul)
        return relu
    return relu
    """,
)
def relu_inplace_child() -> Run:
    return Run(
        net(lambda self, x: self.act(x * 2), act=nn.ReLU(inplace=True)), (leaf(2, 3),)
    )


@case(
    "the caller's own tensor is written",
    """
    relu_! = relu_(x)
    add = add(relu_)
    return add
    """,
    lasting=True,
)
def relu_on_root_input() -> Run:
    return Run(net(lambda self, x: x.relu_() + 1), (torch.randn(2, 3),))


@case(
    "one column is overwritten by a number",
    """
    mul = mul(x)
    setitem! = setitem(mul)
    return setitem
    """,
)
def column_set() -> Run:
    def forward(self, x):
        y = x * 2
        y[:, 0] = 0
        return y

    return Run(net(forward), (leaf(2, 3),))


@case(
    "one column is overwritten by a tensor, at indices from a tensor",
    """
    mul = mul(x)
    exp = exp(x)
    getitem = getitem(exp)
    setitem! = setitem(mul, index, getitem)
    return setitem
    """,
)
def column_set_tensor() -> Run:
    def forward(self, x, index):
        y = x * 2
        y[:, index] = x.exp()[:, :1]
        return y

    return Run(net(forward), (leaf(2, 3), torch.tensor([0])))


@case(
    "a write through a view, read from its base",
    """
    mul = mul(x)
    getitem = getitem(mul)
    zero_! = zero_(getitem)
    add = add(zero_.1)
    return add
    """,
)
def view_write_base_read() -> Run:
    def forward(self, x):
        y = x * 2
        y[0].zero_()
        return y + 1

    return Run(net(forward), (leaf(2, 3),))


@case(
    "a write to the base, read through an older view",
    """
    mul = mul(x)
    getitem = getitem(mul)
    zero_! = zero_(mul)
    add = add(zero_.1)
    return add
    """,
)
def base_write_view_read() -> Run:
    def forward(self, x):
        y = x * 2
        view = y[0]
        y.zero_()
        return view + 1

    return Run(net(forward), (leaf(2, 3),))


@case(
    "a write through one view, read through another",
    """
    mul = mul(x)
    view = view(mul)
    t = t(mul)
    add_! = add_(view, w)
    sum = sum(add_.1)
    return sum
    """,
)
def view_write_view_read() -> Run:
    def forward(self, x):
        y = x * 2
        flat, turned = y.view(6), y.t()
        flat.add_(self.w)
        return turned.sum()

    return Run(net(forward, w=parameter(6)), (leaf(2, 3),))


@case(
    "two writes through two views, read from the base",
    """
    mul = mul(x)
    getitem = getitem(mul)
    add_! = add_(getitem, a)
    getitem2 = getitem(add_.1)
    add_2! = add_(getitem2, b)
    sum = sum(add_2.1)
    return sum
    """,
)
def two_view_writes() -> Run:
    def forward(self, x):
        y = x * 2
        y[0].add_(self.a)
        y[1].add_(self.b)
        return y.sum()

    return Run(net(forward, a=parameter(3), b=parameter(3)), (leaf(2, 3),))


@case(
    "a result goes into a tensor given by out=",
    """
    empty = empty()
    mul! = mul(x, other, empty)
    add = add(mul)
    return add
    """,
)
def out_argument() -> Run:
    def forward(self, x, other):
        kept = torch.empty(2, 3)
        torch.mul(x, other, out=kept)
        return kept + 1

    return Run(net(forward), (torch.randn(2, 3), torch.randn(2, 3)))


@case(
    "copy_ into a slice of zeros",
    """
    zeros = zeros()
    getitem = getitem(zeros)
    copy_! = copy_(getitem, x)
    mul = mul(copy_.1)
    return mul
    """,
)
def copy_into_slice() -> Run:
    def forward(self, x):
        kept = torch.zeros(4, 3)
        kept[1:3].copy_(x)
        return kept * 2

    return Run(net(forward), (leaf(2, 3),))


@case(
    "index_put_ with tensors for indices",
    """
    clone = clone(x)
    index_put_! = index_put_(clone, rows, values)
    return index_put_
    """,
)
def index_put() -> Run:
    def forward(self, x, rows, values):
        y = x.clone()
        y.index_put_((rows,), values)
        return y

    return Run(net(forward), (leaf(4, 3), torch.tensor([0, 2]), leaf(2, 3)))


@case(
    "masked_fill_ under a mask made on the way",
    """
    matmul = matmul(x, w)
    gt = gt(matmul)
    masked_fill_! = masked_fill_(matmul, gt)
    softmax = softmax(masked_fill_)
    return softmax
    """,
)
def masked_fill() -> Run:
    def forward(self, x):
        scores = x @ self.w
        scores.masked_fill_(scores > 0.5, -1e9)
        return scores.softmax(-1)

    return Run(net(forward, w=parameter(3, 3)), (leaf(2, 3),))


@case(
    "a tensor is overwritten while its old value lives on in a result",
    """
    mul = mul(x)
    add = add(mul)
    mul_! = mul_(mul, w)
    sub = sub(mul_, add)
    return sub
    """,
)
def old_value_lives_on() -> Run:
    def forward(self, x):
        a = x * 2
        b = a + 1
        a.mul_(self.w)
        return a - b

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a write through detach(), which shares memory and version",
    """
    mul = mul(x)
    detach = detach(mul)
    clamp_! = clamp_(detach)
    add = add(clamp_.1)
    return add
    """,
)
def detach_write() -> Run:
    def forward(self, x):
        y = x * 2
        y.detach().clamp_(min=0)
        return y + 1

    return Run(net(forward), (leaf(2, 3),))


@case(
    "a write through .data, which shares memory but no version",
    """
    mul = mul(x)
    data = data(mul)
    clamp_! = clamp_(data)
    add = add(clamp_.1)
    return add
    """,
)
def data_write() -> Run:
    def forward(self, x):
        y = x * 2
        y.data.clamp_(min=0)
        return y + 1

    return Run(net(forward), (leaf(2, 3),))


@case(
    "several tensors are written by one call",
    """
    mul = mul(x)
    exp = exp(x)
    _foreach_add_! = _foreach_add_(mul, exp)
    sub = sub(_foreach_add_.0, _foreach_add_.1)
    return sub
    """,
)
def foreach_write() -> Run:
    def forward(self, x):
        a, b = x * 2, x.exp()
        torch._foreach_add_([a, b], 1.0)
        return a - b

    return Run(net(forward), (torch.randn(2, 3),))


@case(
    "random numbers are written into a tensor",
    """
    empty_like = empty_like(x)
    uniform_! = uniform_(empty_like)
    add = add(x, uniform_)
    return add
    """,
)
def random_write() -> Run:
    def forward(self, x):
        return x + torch.empty_like(x).uniform_()

    return Run(net(forward), (leaf(2, 3),))


@case(
    "no version to compare: written under inference mode",
    """
    inference_mode:
        mul = mul(x)
        getitem = getitem(mul)
        zero_! = zero_(getitem)
        add = add(zero_.1)
    return add
    """,
    backward=False,
)
def inference_write() -> Run:
    def forward(self, x):
        with torch.inference_mode():
            y = x * 2
            y[0].zero_()
            return y + 1

    return Run(net(forward), (torch.randn(2, 3),))


@case(
    "rows are accumulated by index_add_ and scatter_add_",
    """
    zeros = zeros()
    index_add_! = index_add_(zeros, index, x)
    scatter_add_! = scatter_add_(index_add_, places, x)
    return scatter_add_
    """,
)
def scattered_sums() -> Run:
    def forward(self, x, index, places):
        kept = torch.zeros(3, 3)
        kept.index_add_(0, index, x)
        return kept.scatter_add_(0, places, x)

    indices = torch.tensor([0, 2]), torch.tensor([[0, 1, 2], [2, 1, 0]])
    return Run(net(forward), (leaf(2, 3), *indices))
