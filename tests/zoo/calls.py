"""Modules called often, never, sideways, or not where PyTorch looks for them."""

from __future__ import annotations

import torch
from torch import nn

from tests.zoo.case import Cases, Run, leaf, net, parameter

CASES = Cases()
case = CASES.case


@case(
    "one module is called twice",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    fc:
        linear2 = linear(linear, fc.weight, fc.bias)
        return linear2
    return linear2
    """,
)
def called_twice() -> Run:
    return Run(net(lambda self, x: self.fc(self.fc(x)), fc=nn.Linear(3, 3)), (leaf(2, 3),))


class Countdown(nn.Module):
    """Calls itself until there is nothing left to do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, left: int) -> torch.Tensor:
        return self(self.fc(x), left - 1) if left else x * 2


@case(
    "a module calls itself",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    Countdown:
        fc:
            linear2 = linear(linear, fc.weight, fc.bias)
            return linear2
        Countdown:
            mul = mul(linear2)
            return mul
        return mul
    return mul
    """,
)
def recursion() -> Run:
    return Run(Countdown(), (leaf(2, 3), 2))


@case("more operations in a row than Python functions may call each other")
def thousand_operations() -> Run:
    def forward(self, x):
        for _ in range(520):
            x = self.act(x + self.w)
        return x

    return Run(net(forward, act=nn.Tanh(), w=parameter(3)), (leaf(2, 3),))


@case(
    "modules kept in a plain list, where PyTorch does not look",
    """
    kept.0:
        linear = linear(x, kept.0.weight, kept.0.bias)
        return linear
    kept.1:
        linear2 = linear(linear, kept.1.weight, kept.1.bias)
        return linear2
    return linear2
    """,
)
def plain_list() -> Run:
    def forward(self, x):
        for each in self.kept:
            x = each(x)
        return x

    return Run(net(forward, kept=[nn.Linear(3, 3), nn.Linear(3, 3)]), (leaf(2, 3),))


@case(
    "modules kept in a plain dict, beside a registered child",
    """
    kept.act:
        tanh = tanh(x)
        return tanh
    fc:
        linear = linear(tanh, fc.weight, fc.bias)
        return linear
    return linear
    """,
)
def plain_dict() -> Run:
    made = net(
        lambda self, x: self.fc(self.kept["act"](x)), kept={"act": nn.Tanh()}, fc=nn.Linear(3, 3)
    )
    return Run(made, (leaf(2, 3),))


@case(
    "a module is made during the run",
    """
    construction LayerNorm.__init__:
        empty = empty()
        alias = alias(empty)
        empty2 = empty()
        alias2 = alias(empty2)
        fill_! = fill_(alias)
        zero_! = zero_(alias2)
        return
    LayerNorm:
        layer_norm = layer_norm(x, fill_, zero_)
        return layer_norm
    return layer_norm
    """,
)
def made_during_run() -> Run:
    return Run(net(lambda self, x: nn.LayerNorm(3)(x)), (leaf(2, 3),))


@case(
    "a child is never called",
    """
    used:
        linear = linear(x, used.weight, used.bias)
        return linear
    return linear
    """,
)
def never_called() -> Run:
    made = net(lambda self, x: self.used(x), used=nn.Linear(3, 3), unused=nn.Linear(3, 3))
    return Run(made, (leaf(2, 3),))


@case(
    "a child's forward is called directly, past its hooks",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    return linear
    """,
    modules=False,
)
def forward_directly() -> Run:
    return Run(net(lambda self, x: self.fc.forward(x), fc=nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "the user's hooks change the input and the output of a child",
    """
    fc:
        mul = mul(x)
        linear = linear(mul, fc.weight, fc.bias)
        add = add(linear)
        return add
    return add
    """,
    modules=False,
)
def hooks_change_things() -> Run:
    fc = nn.Linear(3, 3)
    fc.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    fc.register_forward_hook(lambda module, args, out: out + 1)
    return Run(net(lambda self, x: self.fc(x), fc=fc), (leaf(2, 3),))


@case(
    "hooks call modules, one of them that whose hook it is",
    """
    a:
        linear = linear(x, a.weight, a.bias)
        b:
            linear2 = linear(linear, b.weight, b.bias)
            a:
                linear3 = linear(linear2, a.weight, a.bias)
                sin = sin(linear3)
                return sin
            return sin
        cos = cos(sin)
        return cos
    b:
        linear4 = linear(cos, b.weight, b.bias)
        a:
            linear5 = linear(linear4, a.weight, a.bias)
            sin2 = sin(linear5)
            return sin2
        return sin2
    return sin2
    """,
)
def hooks_call_modules() -> Run:
    a, b = nn.Linear(3, 3), nn.Linear(3, 3)
    inside = []

    def after_a(module, args, out):
        if inside:
            return out.sin()
        inside.append(True)
        return b(out).cos()

    def after_b(module, args, out):
        return a(out)

    a.register_forward_hook(after_a)
    b.register_forward_hook(after_b)

    def forward(self, x):
        inside.clear()
        y = self.a(x)
        return self.b(y)

    return Run(net(forward, a=a, b=b), (leaf(2, 3),))


@case(
    "a child runs on parameters that are not its own",
    """
    mul = mul(w)
    fc:
        linear = linear(x, mul, b)
        return linear
    return linear
    """,
)
def functional_call() -> Run:
    def forward(self, x):
        swapped = {"weight": self.w * 2, "bias": self.b}
        return torch.func.functional_call(self.fc, swapped, (x,))

    made = net(forward, fc=nn.Linear(3, 3), w=parameter(3, 3), b=parameter(3))
    return Run(made, (leaf(2, 3),))


@case(
    "children of a ModuleDict and a ModuleList, chosen by name",
    """
    heads.b:
        linear = linear(x, heads.b.weight, heads.b.bias)
        return linear
    layers.1:
        tanh = tanh(linear)
        return tanh
    return tanh
    """,
)
def module_containers() -> Run:
    heads = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    made = net(
        lambda self, x: self.layers[1](self.heads["b"](x)), heads=heads, layers=layers
    )
    return Run(made, (leaf(2, 3),))


@case(
    "DataParallel, which hands the call on where there is no GPU",
    "" if torch.cuda.is_available() else """
    module:
        linear = linear(0, module.weight, module.bias)
        return linear
    return linear
    """,
)
def data_parallel() -> Run:
    return Run(nn.DataParallel(nn.Linear(3, 3)), (leaf(2, 3),))


@case(
    "a function is the root, and calls a module",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    tanh = tanh(linear)
    return tanh
    """,
)
def function_root() -> Run:
    fc = nn.Linear(3, 3)

    def forward(x):
        return torch.tanh(fc(x))

    return Run(forward, (leaf(2, 3),))


@case(
    "a bound method is the root",
    """
    fc:
        linear = linear(x, fc.weight, fc.bias)
        return linear
    return linear
    """,
)
def method_root() -> Run:
    made = net(lambda self, x: None, fc=nn.Linear(3, 3))
    type(made).encode = lambda self, x: self.fc(x)
    return Run(made.encode, (leaf(2, 3),))


@case(
    "inputs that can only be given by name",
    """
    scale:
        mul = mul(x, scale.w)
        return mul
    add = add(mul)
    return add
    """,
)
def keyword_only_inputs() -> Run:
    scale = net(lambda self, *, value: value * self.w, w=parameter(3))
    made = net(lambda self, *, x: self.scale(value=x) + 1, scale=scale)
    return Run(made, (), {"x": leaf(2, 3)})


@case("lazy modules, which make their weights in the first call", replays=False, lasting=True)
def lazy_modules() -> Run:
    made = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.ReLU())
    return Run(made, (torch.randn(2, 5),))


@case(
    "a module without any tensor operation",
    """
    return
    """,
    backward=False,
)
def nothing_runs() -> Run:
    return Run(net(lambda self, n: n + 1), (3,))


@case(
    "names with quotes, brackets, braces, line breaks and an emoji",
)
def nasty_names() -> Run:
    made = nn.Sequential()
    for name in ('say "hi"', "<b>&amp;</b>", "{a|b}", "two\nlines", "🔥", "x" * 1000, "\\n"):
        made.add_module(name, nn.Linear(3, 3))
    return Run(made, (leaf(2, 3),))
