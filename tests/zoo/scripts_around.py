"""TorchScript among other things: tasks, subclasses, modes, checkpoints, frozen and saved."""

from __future__ import annotations

import functools
import io

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from tests.zoo.case import Cases, Run, leaf, net
from tests.zoo.scripts import Small, script, trace

CASES = Cases()
case = CASES.case


class Ignores(nn.Module):
    """Calls back into Python."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.aside(self.fc(x)) * 2

    @torch.jit.ignore
    def aside(self, x):
        return torch.nn.functional.gelu(x) + x.detach()


@case(
    "a scripted module calls back into Python",
    """
    t = t(fc.weight)
    addmm = addmm(fc.bias, 0, t)
    gelu = gelu(addmm)
    detach = detach(addmm)
    add = add(gelu, detach)
    mul = mul(add)
    return mul
    """,
)
def script_ignored() -> Run:
    return Run(script(Ignores()), (torch.randn(2, 3),))


def _same(number: int) -> int:
    return number


class Tidies(nn.Module):
    """Waits for the thread of tasks, which keeps what it worked on a moment longer than needed."""

    def forward(self, number: int) -> int:
        task = torch.jit.fork(_same, number)
        return torch.jit.wait(task)


class Forks(nn.Module):
    """Starts a task beside itself."""

    def forward(self, x: Tensor) -> Tensor:
        task = torch.jit.fork(torch.sin, x)
        return torch.cos(x) + torch.jit.wait(task)


@case(
    "a scripted module that forks is one box",
    """
    mul = mul(x)
    scripted child:
        Forks = Forks?(mul)
        return Forks
    add = add(Forks)
    return add
    """,
    replays=False,
)
def script_forks() -> Run:
    def forward(self, x):
        y = self.child(x * 2) + 1
        tidy.forward(0)  # not as a module: that would be part of the graph
        return y

    tidy = script(Tidies())
    return Run(net(forward, child=script(Forks())), (leaf(2, 3),))


class Marked(Tensor):
    """A class of the user's own, without behavior."""


@case(
    "a scripted module is given a tensor of the user's own class, and is one box",
    """
    alias = alias(x)
    scripted child:
        Small = Small?(alias, child.fc.weight, child.fc.bias)
        return Small
    mul = mul(Small)
    return mul
    """,
    replays=False,
)
def script_subclass() -> Run:
    def forward(self, x):
        return self.child(x.as_subclass(Marked)) * 2

    return Run(net(forward, child=script(Small())), (torch.randn(2, 3),))


@functools.cache
def _frozen():
    """Made once: constants get objects of Python's when they are met, and keep them."""
    with _disable_current_modes():  # whoever asks first, its constants are not fake
        child = torch.jit.freeze(script(Small().eval()))
    for constant in child.graph.findAllNodes("prim::Constant"):
        constant.output().toIValue()
    return child


@case(
    "a frozen script, whose weights are constants in it",
    """
    scripted child:
        t = t(const)
        addmm = addmm(const2, x, t)
        tanh = tanh(addmm)
        mul = mul(tanh)
        return mul
    add = add(mul, x)
    return add
    """,
)
def script_frozen() -> Run:
    return Run(net(lambda self, x: self.child(x) + x, child=_frozen()), (leaf(2, 3),))


@functools.cache
def _saved():
    """The bytes of a script; PyTorch cannot save one whose tensors are fake."""
    file = io.BytesIO()
    with _disable_current_modes():
        torch.jit.save(script(Small()), file)
    return file.getvalue()


@case(
    "a script that was saved and loaded, without gradients",
    """
    no_grad:
        scripted child:
            t = t(child.fc.weight)
            addmm = addmm(child.fc.bias, x, t)
            tanh = tanh(addmm)
            mul = mul(tanh)
            return mul
        add = add(mul, x)
    return add
    """,
    backward=False,
    lasting=True,
)
def script_loaded() -> Run:
    child = torch.jit.load(io.BytesIO(_saved()))

    def forward(self, x):
        with torch.no_grad():
            return self.child(x) + x

    return Run(net(forward, child=child), (torch.randn(2, 3),))


@case(
    "a script under autocast and without gradients",
    """
    autocast:
        scripted child:
            _to_copy = _to_copy(x)
            _to_copy2 = _to_copy(child.fc.weight)
            _to_copy3 = _to_copy(child.fc.bias)
            t = t(_to_copy2)
            addmm = addmm(_to_copy3, _to_copy, t)
            tanh = tanh(addmm)
            _to_copy4 = _to_copy(tanh)
            mul = mul(_to_copy4)
            return mul
    no_grad:
        scripted child:
            t2 = t(child.fc.weight)
            addmm2 = addmm(child.fc.bias, x, t2)
            tanh2 = tanh(addmm2)
            mul2 = mul(tanh2)
            return mul2
    float = float(mul)
    detach = detach(mul)
    add = add(detach, mul2)
    return add
    """,
    backward=False,
)
def script_modes() -> Run:
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.child(x)
        with torch.no_grad():
            z = self.child(x)
        return y.float().detach() + z

    return Run(net(forward, child=script(Small())), (torch.randn(2, 3),))


@case(
    "a script is given what an identity hands on",
    """
    mul = mul(x)
    same:
        pass = pass(mul)
        return pass
    scripted child:
        t = t(child.fc.weight)
        addmm = addmm(child.fc.bias, pass, t)
        tanh = tanh(addmm)
        mul2 = mul(tanh)
        return mul2
    add = add(mul2, mul)
    return add
    """,
)
def script_after_pass() -> Run:
    made = net(lambda self, x: self.child(self.same(y := x * 2)) + y,
               same=nn.Identity(), child=script(Small()))
    return Run(made, (leaf(2, 3),))


@case(
    "a script inside a checkpoint, which PyTorch cannot run again",
    """
    checkpoint:
        scripted child:
            t = t(child.fc.weight)
            addmm = addmm(child.fc.bias, x, t)
            tanh = tanh(addmm)
            mul = mul(tanh)
            return mul
    add = add(mul)
    return add
    """,
    backward=False,
)
def script_checkpointed() -> Run:
    from torch.utils.checkpoint import checkpoint

    made = net(lambda self, x: checkpoint(self.child, x, use_reentrant=False) + 1,
               child=script(Small()))
    return Run(made, (leaf(2, 3),))


class Unoptimized(Small):
    """A class of its own: what PyTorch made of others is kept by class."""


@case(
    "a script under vmap",
    """
    scripted child:
        t = t(child.fc.weight)
        unsqueeze = unsqueeze(x)
        view = view(unsqueeze)
        mm = mm(view, t)
        _unsafe_view = _unsafe_view(mm)
        squeeze_! = squeeze_(_unsafe_view)
        add = add(squeeze_, child.fc.bias)
        tanh = tanh(add)
        mul = mul(tanh)
        return mul
    add2 = add(mul)
    return add2
    """,
    reruns=False,
)
def script_vmapped() -> Run:
    def forward(self, x):
        with torch.jit.optimized_execution(False):  # what PyTorch makes of it refuses vmap
            return torch.vmap(self.child)(x) + 1

    return Run(net(forward, child=script(Unoptimized())), (leaf(2, 3),))


@case(
    "the root is a traced module",
    """
    t = t(fc.weight)
    addmm = addmm(fc.bias, 0, t)
    tanh = tanh(addmm)
    mul = mul(tanh)
    return mul
    """,
)
def traced_root() -> Run:
    return Run(trace(Small(), torch.randn(2, 3)), (torch.randn(2, 3),))


@case(
    "a child is a traced module",
    """
    scripted child:
        t = t(child.fc.weight)
        addmm = addmm(child.fc.bias, x, t)
        tanh = tanh(addmm)
        mul = mul(tanh)
        return mul
    add = add(mul, x)
    return add
    """,
)
def traced_child() -> Run:
    child = trace(Small(), torch.randn(2, 3))
    return Run(net(lambda self, x: self.child(x) + x, child=child), (leaf(2, 3),))
