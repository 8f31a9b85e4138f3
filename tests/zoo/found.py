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
