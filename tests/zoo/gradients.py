"""Where gradients stop, are faked, or are taken in the middle."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "no_grad in the middle",
    """
    mul = mul(x, w)
    no_grad:
        mean = mean(mul)
        sub = sub(mul, mean)
    add = add(mul, sub)
    return add
    """,
)
def no_grad_middle() -> Run:
    def forward(self, x):
        y = x * self.w
        with torch.no_grad():
            z = y - y.mean()
        return y + z

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "inference_mode in the middle",
    """
    inference_mode:
        exp = exp(x)
        max = max(exp)
    mul = mul(x, w)
    return mul, max
    """,
)
def inference_middle() -> Run:
    def forward(self, x):
        with torch.inference_mode():
            top = x.exp().max()
        return x * self.w, top

    return Run(net(forward, w=parameter(3)), (torch.randn(2, 3),))


@case(
    "a no_grad block, and enable_grad inside it",
    """
    no_grad:
        mul = mul(x, w)
        enable_grad:
            exp = exp(x)
        add = add(mul, exp)
    mul2 = mul(add, exp)
    return mul2
    """,
)
def grad_mode_nested() -> Run:
    def forward(self, x):
        with torch.no_grad():
            y = x * self.w
            with torch.enable_grad():
                z = x.exp()
            both = y + z
        return both * z

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a whole child under the no_grad decorator",
    """
    teacher:
        no_grad:
            mul = mul(x, teacher.w)
        return mul
    mul2 = mul(x, mul)
    return mul2
    """,
)
def no_grad_decorator() -> Run:
    @torch.no_grad()
    def teach(self, x):
        return x * self.w

    teacher = net(teach, w=parameter(3))
    return Run(net(lambda self, x: x * self.teacher(x), teacher=teacher), (leaf(2, 3),))


@case(
    "gradients are switched off and on by plain calls",
    """
    no_grad:
        mul = mul(x, w)
    mul2 = mul(x, mul)
    return mul2
    """,
)
def grad_switched() -> Run:
    def forward(self, x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = x * self.w
        torch.set_grad_enabled(before)
        return x * y

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "detach cuts the gradient, not the flow",
    """
    mul = mul(x, w)
    detach = detach(mul)
    add = add(detach, x)
    return add
    """,
)
def detached() -> Run:
    def forward(self, x):
        return (x * self.w).detach() + x

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a straight-through estimator",
    """
    mul = mul(x, w)
    round = round(mul)
    sub = sub(round, mul)
    detach = detach(sub)
    add = add(mul, detach)
    return add
    """,
)
def straight_through() -> Run:
    def forward(self, x):
        y = x * self.w
        return y + (y.round() - y).detach()

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a frozen model: nothing requires grad",
    """
    0:
        linear = linear(input, 0.weight, 0.bias)
        return linear
    1:
        relu = relu(linear)
        return relu
    return relu
    """,
    backward=False,
)
def frozen() -> Run:
    made = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).requires_grad_(False)
    return Run(made, (torch.randn(2, 3),))


@case(
    "gradients are taken inside forward, to be differentiated again",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    tanh = tanh(linear)
    sum = sum(tanh)
    grad = grad(sum, x)
    pow = pow(grad)
    sum2 = sum(pow)
    add = add(sum, sum2)
    return add
    """,
)
def gradient_penalty() -> Run:
    def forward(self, x):
        y = self.fc(x).tanh().sum()
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return y + slope.pow(2).sum()

    return Run(net(forward, fc=nn.Linear(3, 1)), (leaf(2, 3),))


@case(
    "backward is run inside forward",
    """
    detach = detach(x)
    mul = mul(detach, w)
    sum = sum(mul)
    backward = backward(sum)
    mul2 = mul(backward)
    sub = sub(x, mul2)
    return sub
    """,
)
def backward_inside() -> Run:
    def forward(self, x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (y * self.w).sum().backward()
        return x - 0.1 * y.grad

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a tensor hook of the user scales a gradient",
    """
    mul = mul(x, w)
    add = add(mul)
    return add
    """,
)
def tensor_hook() -> Run:
    def forward(self, x):
        y = x * self.w
        y.register_hook(lambda grad: grad * 2)
        return y + 1

    return Run(net(forward, w=parameter(3)), (leaf(2, 3),))


@case(
    "a loss made of two heads, one of which is thrown away",
    """
    a:
        linear = linear(x, a.weight, a.bias)
        return linear
    b:
        linear2 = linear(x, b.weight, b.bias)
        return linear2
    return linear
    """,
)
def thrown_away() -> Run:
    def forward(self, x):
        kept, _ = self.a(x), self.b(x)
        return kept

    return Run(net(forward, a=nn.Linear(3, 3), b=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "tensors of an earlier graph flow in",
    """
    mul = mul(x, const)
    return mul
    """,
)
def earlier_graph() -> Run:
    before = parameter(3).exp()
    return Run(net(lambda self, x: x * before), (leaf(2, 3),), None)
