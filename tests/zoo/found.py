"""What random models brought to light, each as small as it can be."""

from __future__ import annotations

import copy

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net

CASES = Cases()
case = CASES.case


@case(
    "a view of a leaf, made without gradients, is handed on",
    """
    no_grad:
        t = t(x)
        same:
            pass = pass(t)
            return pass
        t2 = t(pass)
    add = add(t, pass)
    mul = mul(x, t2)
    return add, mul
    """,
)
def identity_of_quiet_view() -> Run:
    def forward(self, x):
        with torch.no_grad():
            view = x.t()
            same = self.same(view)
            back = same.t()
        return view + same, x * back

    return Run(net(forward, same=nn.Identity()), (leaf(2, 3),))


@case(
    "a view made without gradients, read after its base was written with them",
    """
    mul = mul(x)
    no_grad:
        getitem = getitem(mul)
    add_! = add_(mul)
    no_grad:
        sum = sum(add_.1)
    mul2 = mul(add_.0, sum)
    return mul2
    """,
)
def quiet_view_of_written() -> Run:
    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            row = y[0]
        y.add_(1)
        with torch.no_grad():
            total = row.sum()
        return y * total

    return Run(net(forward), (leaf(2, 3),))


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
    "a module with hooks for its backward pass, which PyTorch wraps in a function",
    """
    tanh = tanh(x)
    fc:
        autograd.Function BackwardHookFunction:
            view_as = view_as(tanh, tanh)
        linear = linear(view_as, fc.weight, fc.bias)
        autograd.Function BackwardHookFunction:
            view_as2 = view_as(linear, linear)
        return view_as2
    return view_as2
    """,
    modules=False,
)
def backward_hooks() -> Run:
    fc = nn.Linear(3, 3)
    fc.register_full_backward_hook(lambda module, given, made: None)
    fc.register_full_backward_pre_hook(lambda module, made: None)
    return Run(net(lambda self, x: self.fc(x.tanh()), fc=fc), (leaf(2, 3),))


@case(
    "one tensor given under two names, and written inside the module",
    """
    mul = mul(x)
    child:
        add_! = add_(mul)
        return add_
    return add_
    """,
)
def keywords_written() -> Run:
    child = net(lambda self, *, a, b: a.add_(1))
    return Run(net(lambda self, x: self.child(a=(y := x * 2), b=y), child=child), (leaf(2, 3),))


@case(
    "without versions to tell, a module writes its input, and a dropout does not",
    """
    inference_mode:
        mul = mul(x)
        act:
            relu! = relu(mul)
            return relu
        drop:
            dropout = dropout(relu)
            return dropout
        add = add(relu, dropout)
    return add
    """,
    backward=False,
)
def inference_module_write() -> Run:
    def forward(self, x):
        with torch.inference_mode():
            y = x * 2
            self.act(y)
            return y + self.drop(y)

    made = net(forward, act=nn.ReLU(inplace=True), drop=nn.Dropout(0.5, inplace=True))
    return Run(made.eval(), (torch.randn(2, 3),))


@case(
    "a sparse tensor is handed on",
    """
    to_sparse = to_sparse(x)
    same:
        pass = pass(to_sparse)
        return pass
    add = add(to_sparse, pass)
    return add
    """,
    backward=False,
)
def identity_of_sparse() -> Run:
    def forward(self, x):
        y = x.to_sparse()
        return y + self.same(y)

    return Run(net(forward, same=nn.Identity()), (torch.randn(2, 3),))


@case(
    "an operator that writes lists of tensors, given a tensor",
    """
    sort = sort(x)
    add = add(sort.0, x)
    return add
    """,
)
def sorted_values() -> Run:
    return Run(net(lambda self, x: torch.sort(x).values + x), (leaf(2, 3),))


class Reversed(torch.autograd.Function):
    """Runs a module, and turns gradients round."""

    @staticmethod
    def forward(ctx, module, x):
        return module(x)

    @staticmethod
    def backward(ctx, grad):
        return None, -grad


@case(
    "a custom function returns what a module hands on",
    """
    mul = mul(x)
    autograd.Function Reversed:
        inside:
            0:
                exp = exp(mul)
                return exp
            1:
                dropout = dropout(exp)
                return dropout
            return exp
    same:
        pass = pass(exp)
        return pass
    autograd.Function Reversed:
        same:
            return pass
        view_as = view_as(pass, pass)
    add = add(exp, view_as)
    return add
    """,
)
def function_of_module() -> Run:
    def forward(self, x):
        y = Reversed.apply(self.inside, x * 1)
        return y + Reversed.apply(self.same, self.same(y))

    inside = nn.Sequential(net(lambda self, x: x.exp()), nn.Dropout(0.5))
    return Run(net(forward, same=nn.Identity(), inside=inside).eval(), (leaf(2, 3),))


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
    join = join(add, add_.1, add_2.1)
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
    "a node that lets no gradient through, and has no number",
    """
    sin = sin(x)
    Error = Error?(sin)
    mul = mul(Error)
    return mul
    """,
    backward=False,
)
def no_gradient_allowed() -> Run:
    def forward(self, x):
        made = torch._C._functions.DelayedError("no gradient here", 1)(x.sin())
        return made * 2

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
    fc:
        alias = alias(mul)
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


@case(
    "tensors are copied as Python copies objects",
    """
    mul = mul(x)
    detach = detach(mul)
    deepcopy = deepcopy(detach)
    mul2 = mul(x, deepcopy)
    add = add(mul2, deepcopy)
    return add
    """,
    reruns=False,  # what Python remembers of the copies is an argument too
)
def deeply_copied() -> Run:
    def forward(self, x):
        held = (x * 2).detach()
        one, other = copy.deepcopy([held, held])
        return x * one + other

    return Run(net(forward), (leaf(2, 3),))
