"""Writes: in place, through views, through other names, into results given."""

from __future__ import annotations

import torch
from torch import nn

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, either, fit, one, pick, two, writable

KINDS = Kinds()
kind = KINDS.kind


@kind()
def relu_(block, live, step):
    return writable(live, step.one).relu_()


@kind()
def scale_(block, live, step):
    writable(live, step.one).mul_(0.5)


@kind()
def plus_equals(block, live, step):
    x = writable(live, step.one)
    x += fit(pick(live, step.other)).sum() * 0.1


@kind()
def add_(block, live, step):
    x = writable(live, step.one)
    if x.shape == (ROWS, COLUMNS):
        return x.add_(fit(pick(live, step.other)))


@kind()
def copy_(block, live, step):
    x = writable(live, step.one)
    return x.copy_(fit(pick(live, step.other)).reshape(-1)[: x.numel()].reshape(x.shape))


@kind()
def set_column(block, live, step):
    x = writable(live, step.one)
    if x.dim() == 2:
        x[:, 0] = step.other / 2


@kind()
def set_part(block, live, step):
    x = writable(live, step.one)
    x[..., -1:] = fit(pick(live, step.other)).mean()


@kind()
def row_written(block, live, step):
    x = writable(live, step.one)
    if x.dim() and len(x):
        x[0].tanh_()


@kind()
def fill_(block, live, step):
    x = writable(live, step.one)
    either(step.other, x.zero_, lambda: x.fill_(2), lambda: x.clamp_(-1, 1), x.neg_)


@kind()
def masked_fill_(block, live, step):
    x = writable(live, step.one)
    x.masked_fill_(x > 0, 0.25)


@kind()
def set_where(block, live, step):
    x = writable(live, step.one)
    x[x > 0.5] = 0.5


@kind()
def index_put_(block, live, step):
    x = writable(live, step.one)
    if x.dim() == 2:
        x.index_put_((torch.tensor([0, 1]), torch.tensor([0, 0])), torch.ones(2), accumulate=True)


@kind()
def scatter_(block, live, step):
    x = writable(live, step.one)
    if x.shape == (ROWS, COLUMNS):
        x.scatter_add_(1, fit(pick(live, step.other)).argmax(1, keepdim=True), torch.ones(ROWS, 1))


@kind()
def out_given(block, live, step):
    x, y = two(live, step)
    with torch.no_grad():
        made = torch.empty(ROWS, COLUMNS)
        torch.add(x, y, out=made)
        return torch.mul(made, 2, out=made) if step.one % 2 else made


@kind()
def data_written(block, live, step):
    writable(live, step.one).data.mul_(0.5)


@kind()
def detached_written(block, live, step):
    writable(live, step.one).detach()[..., 0].add_(1)


@kind()
def written_quietly(block, live, step):
    with torch.no_grad():
        writable(live, step.one).sub_(0.125)


@kind()
def random_written(block, live, step):
    x = writable(live, step.one)
    either(step.other, x.normal_, x.uniform_)


@kind()
def foreach_written(block, live, step):
    torch._foreach_mul_([writable(live, step.one), writable(live, step.other)], 0.5)


@kind()
def turned_(block, live, step):
    x = one(live, step) * 1
    live.append(x.view(-1))
    return x.t_() if step.other % 2 else x.unsqueeze_(0)


@kind(lambda step: nn.ReLU(inplace=True))
def relu_module(block, live, step):
    return block.part(step)(writable(live, step.one))


@kind(lambda step: torch.zeros(ROWS, COLUMNS))
def buffer_written(block, live, step):
    buffer = block.part(step)
    if step.other % 2:
        buffer.mul_(0.9).add_(one(live, step).detach(), alpha=0.1)
    else:
        buffer.copy_(one(live, step).detach())
    return buffer


@kind(lambda step: torch.zeros((), dtype=torch.long))
def counted(block, live, step):
    block.part(step).add_(1)
    return one(live, step) / block.part(step)


@kind(lambda step: torch.zeros(ROWS, COLUMNS))
def buffer_replaced(block, live, step):
    old = block.part(step)
    block.replace(step, old * 0.5 + one(live, step).detach())
    return old


@kind(lambda step: nn.Parameter(torch.randn(ROWS, COLUMNS)))
def parameter_written(block, live, step):
    with torch.no_grad():
        block.part(step).clamp_(-0.5, 0.5)
    return block.part(step)


@kind()
def kept_and_written(block, live, step):
    x = one(live, step).exp()
    live.append(x * 2)
    return x.detach().mul_(2) if step.other % 2 else x.sigmoid_()


@kind(hears=False)
def memory_shared(block, live, step):
    """A second tensor over the same memory, made without a view."""
    x = one(live, step).detach()
    made = torch.empty(0).set_(x)
    live.append(made)
    return made.resize_(ROWS, COLUMNS).sqrt_() if step.other % 2 else x.abs_()
