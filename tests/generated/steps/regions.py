"""Regions: gradients off and on, autocast, checkpoints, functions of the user's own, transforms."""

from __future__ import annotations

import torch
from torch.utils.checkpoint import checkpoint

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, either, one, two, writable

KINDS = Kinds()
kind = KINDS.kind


class Double(torch.autograd.Function):
    """Twice, written by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp().log() * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + 0 * x


class Both(torch.autograd.Function):
    """Two results, one of them without gradients; an argument that is no tensor."""

    @staticmethod
    def forward(ctx, x, by, y):
        made, sign = x * by + y, x.sign()
        ctx.by = by
        ctx.mark_non_differentiable(sign)
        return made, sign

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.by, None, grad


class Scale(torch.autograd.Function):
    """Writes its argument."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(0.5)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


class Reverse(torch.autograd.Function):
    """Gives what it is given, and turns gradients round."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class Same(torch.autograd.Function):
    """Gives the very tensor it is given."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


@kind()
def custom_function(block, live, step):
    x, y = two(live, step)
    if step.other % 2 == 0:
        return Double.apply(x)
    made, sign = Both.apply(x, 0.5, y)
    live.append(sign)
    return made


@kind()
def custom_write(block, live, step):
    return Scale.apply(writable(live, step.one) if step.other % 2 else one(live, step) * 1)


class Around(torch.autograd.Function):
    """Runs a module, and turns gradients round."""

    @staticmethod
    def forward(ctx, module, x):
        return module(x)

    @staticmethod
    def backward(ctx, grad):
        return None, -grad


@kind(lambda step: torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Dropout(0.5))[step.other % 2 :])
def function_of_module(block, live, step):
    return Around.apply(block.part(step), one(live, step))


@kind()
def reversal(block, live, step):
    return either(step.other, lambda: Reverse.apply, lambda: Same.apply)(one(live, step))


@kind()
def straight_through(block, live, step):
    x = one(live, step)
    return x + (x.round() - x).detach()


@kind()
def detached(block, live, step):
    return one(live, step).detach()


@kind()
def leaf_made(block, live, step):
    return one(live, step).detach().clone().requires_grad_()


@kind()
def tensor_hook(block, live, step):
    x = one(live, step) * 2
    if x.requires_grad:
        x.register_hook(lambda grad: grad * 0.5)
        x.retain_grad()
    return x


@kind()
def gradient_inside(block, live, step):
    with torch.enable_grad():
        x = one(live, step).detach().requires_grad_()
        (gradient,) = torch.autograd.grad((x.sin() * x).sum(), x)
    return gradient


@kind()
def gradient_penalty(block, live, step):
    x = one(live, step) * 1
    if not x.requires_grad or not torch.is_grad_enabled():
        return None
    (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return gradient


@kind(reruns=False)
def vmapped(block, live, step):
    return torch.vmap(lambda a, b: a * b.sum())(*two(live, step))


@kind(reruns=False)
def func_grad(block, live, step):
    x, y = two(live, step)
    return torch.func.grad(lambda z: (z.sin() * y).sum())(x)


@kind(reruns=False)
def func_jvp(block, live, step):
    x, y = two(live, step)
    value, slope = torch.func.jvp(lambda z: z.sin() * y, (x,), (y,))
    live.append(slope)
    return value


class Marked(torch.Tensor):
    """A class of the user's own, without behavior."""


@kind(hears=False, reaches=False)  # no mode is told of as_subclass, so it meets our aliases
def subclass(block, live, step):
    x = one(live, step).as_subclass(Marked)
    return (x * 2).as_subclass(torch.Tensor) if step.other % 2 else x + 1


@kind()
def checkpointed(block, live, step):
    def inside(x, y):
        return (x * y).tanh() + x

    return checkpoint(inside, *two(live, step), use_reentrant=False)


@torch.no_grad()
def _mean(x):
    return x.mean(0)


@kind()
def decorated(block, live, step):
    return _mean(one(live, step))


@kind()
def autocast(block, live, step):
    x, y = two(live, step)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ y.t() @ torch.ones(ROWS, COLUMNS)


@kind()
def device_context(block, live, step):
    with torch.device("cpu"):
        return torch.ones(COLUMNS) + one(live, step)


@torch.library.custom_op("torchrecorder_generated::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    """An operator of the user's own."""
    return x * by


scaled.register_autograd(
    lambda ctx, grad: (grad * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@torch.library.custom_op("torchrecorder_generated::shift_", mutates_args=("x",))
def shift_(x: torch.Tensor, by: float) -> None:
    """An operator of the user's own that writes its argument."""
    x.add_(by)


@kind()
def library_op(block, live, step):
    x = one(live, step)
    if step.other % 2:
        return scaled(x, 0.5)
    x = x.detach().clone()
    shift_(x, 1.0)
    return x


@kind()
def aten_op(block, live, step):
    x, y = two(live, step)
    return torch.ops.aten.mul.Tensor(x, y) if step.other % 2 else torch.ops.aten.relu(x)
