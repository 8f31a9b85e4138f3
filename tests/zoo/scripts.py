"""TorchScript: scripted and traced modules, at the root and inside, of every form."""

from __future__ import annotations

import warnings
from typing import Optional

import torch
from torch import Tensor, nn

from tests.zoo.case import Cases, Run, leaf, net

CASES = Cases()
case = CASES.case


def script(module):
    """Scripting warns that it is old; that is not what is tested here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(module)


def trace(module, *args):
    """The same for tracing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(module, args)


class Small(nn.Module):
    """A layer and an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.fc(x)) * 2


@case(
    "the root is a scripted module",
    """
    t = t(fc.weight)
    addmm = addmm(fc.bias, 0, t)
    tanh = tanh(addmm)
    mul = mul(tanh)
    return mul
    """,
)
def script_root() -> Run:
    return Run(script(Small()), (leaf(2, 3),))


@case(
    "a scripted layer whose input needs no gradient",
    """
    t = t(weight)
    addmm = addmm(bias, 0, t)
    return addmm
    """,
)
def script_plain_input() -> Run:
    return Run(script(nn.Linear(3, 2)), (torch.randn(2, 3),))


@case(
    "a child is a scripted module",
    """
    add = add(x)
    scripted child:
        t = t(child.fc.weight)
        addmm = addmm(child.fc.bias, add, t)
        tanh = tanh(addmm)
        mul = mul(tanh)
        return mul
    mul2 = mul(mul)
    return mul2
    """,
)
def script_child() -> Run:
    return Run(net(lambda self, x: self.child(x + 1) * 2, child=script(Small())), (leaf(2, 3),))


@case(
    "a child is a scripted module, and nothing requires grad",
    """
    add = add(x)
    scripted child:
        t = t(child.fc.weight)
        addmm = addmm(child.fc.bias, add, t)
        tanh = tanh(addmm)
        mul = mul(tanh)
        return mul
    mul2 = mul(mul)
    return mul2
    """,
    backward=False,
)
def script_child_frozen() -> Run:
    child = script(Small().requires_grad_(False))
    return Run(net(lambda self, x: self.child(x + 1) * 2, child=child), (torch.randn(2, 3),))


@case(
    "a scripted module in a scripted module in a list, called twice",
    """
    scripted inside.0:
        t = t(inside.0.0.fc.weight)
        addmm = addmm(inside.0.0.fc.bias, x, t)
        tanh = tanh(addmm)
        mul = mul(tanh)
        relu = relu(mul)
        t2 = t(inside.0.2.0.weight)
        addmm2 = addmm(inside.0.2.0.bias, relu, t2)
        return addmm2
    scripted inside.0:
        t3 = t(inside.0.0.fc.weight)
        addmm3 = addmm(inside.0.0.fc.bias, addmm2, t3)
        tanh2 = tanh(addmm3)
        mul2 = mul(tanh2)
        relu2 = relu(mul2)
        t4 = t(inside.0.2.0.weight)
        addmm4 = addmm(inside.0.2.0.bias, relu2, t4)
        return addmm4
    return addmm4
    """,
)
def script_nested() -> Run:
    child = script(nn.Sequential(script(Small()), nn.ReLU(), nn.Sequential(nn.Linear(3, 3))))
    made = net(lambda self, x: self.inside[0](self.inside[0](x)), inside=nn.ModuleList([child]))
    return Run(made, (torch.randn(2, 3),))


class Several(nn.Module):
    """Takes tensors, numbers and nothing, and leaves one of them unread."""

    def forward(self, x: Tensor, y: Tensor, unread: Tensor, many: int, none: Optional[Tensor]):
        if none is not None:
            x = x + none
        return x * x + y[:, :many], y.argmax(1)


@case(
    "a scripted module with several inputs, one used twice, one unread, one a number",
    """
    scripted child:
        slice = slice(x)
        slice2 = slice(slice)
        argmax = argmax(x)
        mul = mul(x, x)
        add = add(mul, slice2)
        return add, argmax
    sum = sum(add)
    add2 = add(sum, argmax)
    return add2
    """,
)
def script_several() -> Run:
    def forward(self, x, y):
        made, places = self.child(x, x, y, 2, None)
        return made.sum(1) + places

    return Run(net(forward, child=script(Several())), (leaf(2, 2), torch.randn(2, 2)))


class Containers(nn.Module):
    """Takes and gives containers."""

    def forward(self, given: tuple[Tensor, list[Tensor]], named: dict[str, Tensor]):
        first, rest = given
        return {"sum": first + rest[0] + rest[1], "same": named["a"]}, (named["b"].exp(),)


@case(
    "a scripted module that takes and gives tuples, lists and dicts",
    """
    scripted child:
        add = add(x, y)
        add2 = add(add, x)
        exp = exp(x)
        return add2, y, exp
    mul = mul(add2, y)
    add3 = add(mul, exp)
    return add3
    """,
)
def script_containers() -> Run:
    def forward(self, x, y):
        made, (more,) = self.child((x, [y, x]), {"a": y, "b": x})
        return made["sum"] * made["same"] + more

    return Run(net(forward, child=script(Containers())), (torch.randn(2, 3), leaf(2, 3)))


class Statistics(nn.Module):
    """Writes its buffers and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(x)).relu_()


@case(
    "a scripted module in training, with batch norm and dropout",
    """
    scripted child:
        add_! = add_(child.norm.num_batches_tracked)
        empty = empty()
        native_batch_norm! = native_batch_norm(x, child.norm.weight, child.norm.bias, child.norm.running_mean, child.norm.running_var)
        native_dropout = native_dropout(native_batch_norm.0)
        relu_! = relu_(native_dropout.0)
        return relu_
    add = add(relu_, x)
    return add
    """,
)
def script_training() -> Run:
    return Run(net(lambda self, x: self.child(x) + x, child=script(Statistics())), (leaf(4, 3),))


class Writes(nn.Module):
    """Writes its input and a view of it."""

    def forward(self, x: Tensor) -> Tensor:
        x.mul_(2)
        x[:, 0] = 1.0
        return x


@case(
    "a scripted module writes its input and hands it on",
    """
    mul = mul(x)
    getitem = getitem(mul)
    scripted child:
        mul_! = mul_(mul)
        slice = slice(mul_)
        select = select(slice)
        copy_! = copy_(select, const)
        return copy_.1
    add = add(copy_.1, copy_.2)
    return add
    """,
)
def script_writes() -> Run:
    def forward(self, x):
        y = x * 1
        view = y[0]
        return self.child(y) + view

    return Run(net(forward, child=script(Writes())), (leaf(2, 3),))


class Detaches(nn.Module):
    """Stops a gradient itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin() * x.cos().detach()


@case(
    "a scripted module that detaches a tensor itself",
    """
    scripted child:
        cos = cos(x)
        alias = alias(x)
        sin = sin(alias)
        alias2 = alias(cos)
        mul = mul(sin, alias2)
        return mul
    return mul
    """,
)
def script_detaches() -> Run:
    return Run(net(lambda self, x: self.child(x), child=script(Detaches())), (leaf(2, 3),))


class Decides(nn.Module):
    """Branches and loops on numbers in tensors."""

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        for _ in range(int(times)):
            x = x.sin() if bool(x.sum() > 0) else x.cos()
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale


@case(
    "a scripted module that branches, loops and switches gradients off",
    """
    scripted child:
        _local_scalar_dense = _local_scalar_dense(n)
        sum = sum(x)
        gt = gt(sum)
        _local_scalar_dense2 = _local_scalar_dense(gt)
        cos = cos(x)
        sum2 = sum(cos)
        gt2 = gt(sum2)
        _local_scalar_dense3 = _local_scalar_dense(gt2)
        sin = sin(cos)
        sum3 = sum(sin)
        gt3 = gt(sum3)
        _local_scalar_dense4 = _local_scalar_dense(gt3)
        sin2 = sin(sin)
        no_grad:
            abs = abs(sin2)
            max = max(abs)
        div = div(sin2, max)
        return div
    return div
    """,
)
def script_control() -> Run:
    return Run(net(lambda self, x, n: self.child(x, n), child=script(Decides())),
               (leaf(2, 3), torch.tensor(3)))


class DetachesViews(nn.Module):
    """Detaches tensors of which there are several views over all of their memory."""

    def forward(self, x: Tensor) -> Tensor:
        whole = x * 2
        one = whole.view(2, 3)
        other = whole.view(2, 3)
        return (one + other) + whole.detach() * one.detach()


@case(
    "a scripted module detaches one of several equal views",
    """
    scripted child:
        mul = mul(x)
        view = view(mul)
        alias = alias(view)
        add = add(alias, alias)
        alias2 = alias(mul)
        alias3 = alias(view)
        mul2 = mul(alias2, alias3)
        add2 = add(add, mul2)
        return add2
    sin = sin(add2)
    return sin
    """,
)
def script_detaches_views() -> Run:
    return Run(net(lambda self, x: self.child(x).sin(), child=script(DetachesViews())), (leaf(2, 3),))


@case(
    "a scripted function is called",
    """
    relu = relu?(x)
    mul = mul?(relu)
    add = add(mul)
    return add
    """,
)
def script_function() -> Run:
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    double = script(double)
    return Run(net(lambda self, x: double(x) + 1), (leaf(2, 3),))
