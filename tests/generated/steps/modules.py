"""Submodules: reused, tied, held in lists, hooked, parametrized, scripted, passing through."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, either, fit, one, pick, two

KINDS = Kinds()
kind = KINDS.kind


class Pass(nn.Module):
    """Gives what it is given, one way or another."""

    def __init__(self, way: int) -> None:
        super().__init__()
        self.way = way
        self.weight = nn.Parameter(torch.randn(ROWS, COLUMNS))
        self.register_buffer("kept", torch.randn(ROWS, COLUMNS))

    def forward(self, x, y):
        return (x, y, (x, x), [y, (x,)], self.weight, self.kept)[self.way]


class Symmetric(nn.Module):
    """Mirrors the upper triangle."""

    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Mixed(nn.Module):
    """Takes and gives dicts, with things that are no tensors between."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(COLUMNS, COLUMNS)

    def forward(self, inputs, *, scale=1.0, name="x"):
        out = self.fc(inputs[name]) * scale
        return {"out": out, "given": inputs, "none": None, "text": name, 3: (out, out)}


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS, bias=bool(step.one % 2)))
def linear(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS))
def called_twice(block, live, step):
    fc = block.part(step)
    return fc(fc(one(live, step)))


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS))
def forward_directly(block, live, step):
    return block.part(step).forward(one(live, step))


@kind(lambda step: nn.Parameter(torch.randn(COLUMNS, COLUMNS)))
def weight_used(block, live, step):
    weight = block.part(step)
    return one(live, step) @ weight if step.one % 2 else F.linear(one(live, step), weight)


def _tied(step):
    made = nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh(), nn.Linear(COLUMNS, COLUMNS))
    made[2].weight = made[0].weight
    return made


@kind(_tied)
def tied(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.Identity())
def identity(block, live, step):
    return block.part(step)(pick(live, step.one))


@kind(lambda step: nn.Sequential(nn.Identity(), nn.Dropout(0.5), nn.Identity()))
def dropout(block, live, step):
    x = pick(live, step.one)
    return block.part(step)(x if x.is_floating_point() else fit(x))


@kind(lambda step: nn.Dropout(0.5, inplace=bool(step.other % 2)))
def dropout_residual(block, live, step):
    x = one(live, step)
    return x * 1 + block.part(step)(x * 1)


@kind(lambda step: nn.Identity())
def identity_residual(block, live, step):
    x = one(live, step)
    return x + block.part(step)(x)


@kind(lambda step: Pass(step.other))
def passed(block, live, step):
    made = block.part(step)(pick(live, step.one), pick(live, step.other))
    while not isinstance(made, torch.Tensor):
        made = made[-1]
    return made


@kind(lambda step: nn.BatchNorm1d(COLUMNS))
def batch_norm(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.LayerNorm(COLUMNS) if step.other % 2 else nn.GroupNorm(2, COLUMNS))
def normed(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.GRUCell(COLUMNS, COLUMNS))
def recurrent_cell(block, live, step):
    return block.part(step)(*two(live, step))


@kind(lambda step: nn.LSTM(COLUMNS, COLUMNS, 1 + step.other % 2, batch_first=True))
def recurrent(block, live, step):
    out, (h, c) = block.part(step)(one(live, step)[None])
    live.append(c[-1, 0])
    return out[0]


@kind(lambda step: nn.MultiheadAttention(COLUMNS, 2, batch_first=True))
def attention(block, live, step):
    x, y = (each[None] for each in two(live, step))
    return block.part(step)(x, y, y, need_weights=bool(step.one % 2))[0][0]


@kind(lambda step: Mixed())
def mixed(block, live, step):
    made = block.part(step)({"x": one(live, step), "n": 1}, scale=0.5)
    live.append(made["given"]["x"])
    return made[3][step.other % 2]


@kind(lambda step: nn.ParameterList([torch.randn(COLUMNS), torch.randn(COLUMNS)]))
def parameter_list(block, live, step):
    return one(live, step) * block.part(step)[step.one % 2]


@kind(lambda step: nn.ModuleDict({"a": nn.Linear(COLUMNS, COLUMNS), "b": nn.Identity()}))
def module_dict(block, live, step):
    return block.part(step)["ab"[step.one % 2]](one(live, step))


class Plain(nn.Module):
    """Holds its modules where PyTorch does not look."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [nn.Linear(COLUMNS, COLUMNS), nn.Identity()]
        self.call = lambda x: torch.tanh(x) * 2

    def forward(self, x):
        for each in self.held:
            x = each(x)
        return self.call(x)


@kind(lambda step: Plain(), modules=False)
def plain_list(block, live, step):
    return block.part(step)(one(live, step))


@kind(modules=False)
def made_in_the_run(block, live, step):
    return either(step.other, nn.ReLU, nn.Identity, nn.Flatten)(one(live, step))


def _hooked(step):
    made = nn.Linear(COLUMNS, COLUMNS)
    if step.other % 2:
        made.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    if step.other % 3:
        made.register_forward_hook(lambda module, args, out: out + 1)
    return made


@kind(_hooked, modules=False)
def hooked(block, live, step):
    return block.part(step)(one(live, step))


def _parametrized(step):
    made = nn.Linear(COLUMNS, COLUMNS)
    if step.other % 3 == 0:
        return parametrize.register_parametrization(made, "weight", Symmetric())
    normed = nn.utils.parametrizations
    return (normed.weight_norm if step.other % 3 == 1 else normed.spectral_norm)(made)


@kind(_parametrized)
def parametrized(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.Linear(COLUMNS, COLUMNS))
def functional_call(block, live, step):
    x, y = two(live, step)
    return torch.func.functional_call(block.part(step), {"bias": y[0]}, (x,))


class Small(nn.Module):
    """To be scripted."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc(x)) * y


@kind(lambda step: torch.jit.script(Small()))
def scripted(block, live, step):
    return block.part(step)(*two(live, step))


@torch.jit.script
def _scripted_function(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


@kind(hears=False)
def scripted_function(block, live, step):
    return _scripted_function(one(live, step))


def _backward_hooked(step):
    made = nn.Linear(COLUMNS, COLUMNS)
    if step.other % 2:
        made.register_full_backward_pre_hook(lambda module, grads: None)
    made.register_full_backward_hook(lambda module, given, made: None)
    return made


@kind(_backward_hooked, modules=False)
def backward_hooked(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.DataParallel(nn.Linear(COLUMNS, COLUMNS)))
def data_parallel(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: nn.GRU(COLUMNS, COLUMNS, batch_first=True))
def packed(block, live, step):
    x = torch.stack(two(live, step))
    given = nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True)
    out, _ = nn.utils.rnn.pad_packed_sequence(block.part(step)(given)[0], batch_first=True)
    return out[step.other % 2]


class Frozen(nn.Module):
    """Runs without gradients by a decorator, on the device of its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(COLUMNS, COLUMNS).requires_grad_(False)
        self.unused = nn.Linear(COLUMNS, COLUMNS)

    @torch.no_grad()
    def forward(self, x):
        return self.fc(x.to(self.fc.weight.device))


@kind(lambda step: Frozen())
def frozen(block, live, step):
    return block.part(step)(one(live, step))
