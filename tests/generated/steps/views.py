"""Other names for the same memory, and tensors cut up and put together."""

from __future__ import annotations

import torch

from tests.generated.steps.kind import COLUMNS, ROWS, Kinds, either, fit, one, pick, two

KINDS = Kinds()
kind = KINDS.kind


@kind()
def row(block, live, step):
    return one(live, step)[step.other % ROWS]


@kind()
def column(block, live, step):
    column = step.other % COLUMNS
    return one(live, step)[:, column : column + 1]


@kind()
def flat(block, live, step):
    return one(live, step).view(-1) if one(live, step).is_contiguous() else None


@kind()
def transposed(block, live, step):
    x = one(live, step)
    return either(step.other, x.t, lambda: x.mT, lambda: x.permute(1, 0), lambda: x.T)


@kind()
def diagonal(block, live, step):
    return one(live, step).diagonal()


@kind()
def same_view(block, live, step):
    x = one(live, step)
    return either(
        step.other, lambda: x[:], lambda: x.view_as(x), lambda: x.swapaxes(0, 0),
        lambda: x.expand_as(x), lambda: x.narrow(0, 0, ROWS), lambda: x[None].squeeze(0),
    )


@kind()
def maybe_same(block, live, step):
    """Functions that may give back the very tensor they are given."""
    x = one(live, step)
    return either(
        step.other, x.contiguous, x.float, lambda: x.to("cpu"), lambda: x.reshape(ROWS, COLUMNS),
        lambda: x.type_as(x), lambda: x.requires_grad_(x.requires_grad),
    )


@kind()
def chunks(block, live, step):
    first, second = one(live, step).chunk(2, dim=step.other % 2)
    live.append(second)
    return first


@kind()
def split_unused(block, live, step):
    return one(live, step).split([1, 3], dim=1)[step.other % 2].sum(1)


@kind()
def unbound(block, live, step):
    first, second = one(live, step)
    live.append(second)
    return first


@kind()
def joined(block, live, step):
    x, y = two(live, step)
    return either(
        step.one + step.other, lambda: torch.cat([x, y], 1)[:, ::2],
        lambda: torch.stack([x, y, x]).sum(0), lambda: torch.cat((x[:1], y[1:])),
    )


@kind()
def unfolded(block, live, step):
    return one(live, step).unfold(1, 2, 1).sum((-1, -2))


@kind()
def strided(block, live, step):
    x = one(live, step)
    return torch.as_strided(x, (ROWS, 2), (COLUMNS, 2)) if x.is_contiguous() else None


@kind()
def as_complex(block, live, step):
    x = one(live, step).contiguous()
    y = torch.view_as_complex(x.view(ROWS, 2, 2)) * 1j
    return y.conj() if step.other % 2 else torch.view_as_real(y)


@kind()
def bits(block, live, step):
    x = fit(pick(live, step.one)).detach()
    return x.view(torch.int32) if step.other % 2 and x.is_contiguous() else x.data
