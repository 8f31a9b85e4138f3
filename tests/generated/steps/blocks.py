"""Blocks: modules of steps inside modules of steps, called in every way there is."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.generated.edits import variants
from tests.generated.steps.kind import Kinds, fit, one, pick, two

KINDS = Kinds()


class Pair(typing.NamedTuple):
    """Two results by name."""

    first: Tensor
    second: Tensor


@dataclasses.dataclass
class Result:
    """Results as a dataclass, with more than tensors in it."""

    last: Tensor
    rest: list[Tensor]
    note: str = "made"


class Block(nn.Module):
    """Runs steps on the tensors it is given; each step adds to what there is."""

    def __init__(self, steps) -> None:
        super().__init__()
        from tests.generated.steps import STEPS

        self.kinds = STEPS
        self.steps = steps
        self.plain: dict[str, typing.Any] = {}
        for step in steps:
            make = self.kinds[step.kind].part
            if make is not None and not self._has(_name(step)):
                self._add(_name(step), make(step))
        for variant in (variants.VARIANTS[step.variant] for step in steps if step.variant):
            if variant.part is not None:
                setattr(self, variant.name, variant.part())

    def _has(self, name):
        return name in self.plain or hasattr(self, name)

    def _add(self, name, made):
        if isinstance(made, list):
            self.plain[name] = made
        elif isinstance(made, Tensor) and not isinstance(made, nn.Parameter):
            self.register_buffer(name, made)
        else:
            setattr(self, name, made)

    def part(self, step):
        """What belongs to *step*."""
        name = _name(step)
        return self.plain[name] if name in self.plain else getattr(self, name)

    def replace(self, step, buffer):
        """Put another tensor in place of a buffer."""
        setattr(self, _name(step), buffer)

    def forward(self, *given):
        return self.run(given)[-1]

    def run(self, given):
        """All tensors there are after the last step."""
        live = list(given)
        for step in self.steps:
            action = functools.partial(self.kinds[step.kind].run, self, live, step)
            made = variants.run(self, action, step.variant) if step.variant else action()
            if made is not None:
                live.append(made)
        return live


def _name(step):
    return f"{step.kind}_{step.other}{_digest(step.body)}"


def _digest(body):
    return f"_{len(body)}" if body else ""


class Gives(Block):
    """A block that returns more than one tensor."""

    def forward(self, *given, form=0):
        live = self.run(given)
        if form == 0:
            return live[-1], live[0]
        if form == 1:
            return {"last": live[-1], "first": live[0], "text": "x"}
        if form == 2:
            return Pair(live[-1], live[-2] if len(live) > 1 else live[-1])
        if form == 3:
            return Result(live[-1], live[:2])
        return [live[-1], [None, {"deep": live[0]}]]


class Again(Block):
    """Calls itself."""

    def forward(self, x, times=2):
        x = self.run([x])[-1]
        return self(fit(x), times - 1) if times else x


def _block(step):
    return Block(step.body)


def kind(part=_block, **facts):
    """A kind with a block inside."""
    return KINDS.kind(part, block=True, **facts)


@kind()
def child(block, live, step):
    return block.part(step)(*two(live, step))


@kind()
def residual(block, live, step):
    x = one(live, step)
    return x + fit(block.part(step)(x))


@kind()
def loop(block, live, step):
    x = one(live, step)
    for _ in range(1 + step.other % 3):
        x = fit(block.part(step)(x))
    return x


@kind(lambda step: Again(step.body))
def recursion(block, live, step):
    return block.part(step)(one(live, step), 1 + step.other % 3)


@kind(lambda step: Gives(step.body))
def several_results(block, live, step):
    made = block.part(step)(*two(live, step), form=step.other)
    if isinstance(made, (dict, Result)):
        last = made["first"] if isinstance(made, dict) else made.rest[0]
        live.append(made["last"] if isinstance(made, dict) else made.last)
        return last
    return made[0]


@kind(lambda step: nn.ModuleList([Block(step.body) for _ in range(1 + step.other % 3)]))
def stack(block, live, step):
    x = one(live, step)
    for each in block.part(step):
        x = fit(each(x))
    return x


@kind(lambda step: nn.Sequential(Block(step.body), nn.Identity(), Block(step.body)))
def sequence(block, live, step):
    return block.part(step)(one(live, step))


@kind(lambda step: [Block(step.body), Block(step.body)], modules=False)
def held_in_a_list(block, live, step):
    return sum(fit(each(one(live, step))) for each in block.part(step))


@kind()
def branches(block, live, step):
    x, y = two(live, step)
    part = block.part(step)
    return torch.cat([fit(part(x)), fit(part(y))]).view(2, -1)[:, :4]


@kind(lambda step: nn.ModuleList([Block(step.body), nn.Identity()]))
def switched(block, live, step):
    x = one(live, step)
    return block.part(step)[int(x.detach().nan_to_num().sum() > 0)](x)


REGIONS = (
    torch.no_grad, torch.enable_grad, torch.inference_mode,
    lambda: torch.autocast("cpu", dtype=torch.bfloat16), lambda: torch.set_grad_enabled(False),
    contextlib.nullcontext,
)


@kind()
def region(block, live, step):
    with REGIONS[step.other]():
        return block.part(step)(one(live, step))


@kind()
def region_of_steps(block, live, step):
    """The block's steps run in this module, within a region."""
    with REGIONS[step.other]():
        return block.part(step).run([one(live, step)])[-1]


@kind()
def checkpointed_block(block, live, step):
    return checkpoint(block.part(step), one(live, step), use_reentrant=False)


@kind(reaches=False)
def checkpointed_again(block, live, step):
    """The older way, whose backward runs a backward of its own."""
    return checkpoint(block.part(step), one(live, step), use_reentrant=True)


@kind()
def cached(block, live, step):
    """Keeps what it has made in a list beside the tensors."""
    kept = []
    for _ in range(2):
        kept.append(fit(block.part(step)(pick(live, step.one))))
        x = torch.stack(kept).sum(0)
    return x


@kind()
def written_by_a_child(block, live, step):
    x = one(live, step) * 1
    view = x[:, 1:]
    block.part(step)(view)
    return x + view.sum()
