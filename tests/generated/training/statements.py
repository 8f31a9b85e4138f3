"""What the statements of a training program do: ``KINDS`` has them all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.generated.training.world import COLUMNS, ROWS

KINDS: dict[str, Callable[[Any, Any], None]] = {}
"""Every kind of statement by name; it takes the world and the step."""


def kind(run: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Add the decorated function as a kind of its name."""
    KINDS[run.__name__.strip("_")] = run
    return run


def run(world: Any, steps: Any) -> None:
    """Run the statements one after the other."""
    for step in steps:
        KINDS[step.kind](world, step)


def _passes(world: Any, loss: torch.Tensor | None, **options: Any) -> None:
    if loss is not None and loss.requires_grad:
        world.passes(loss, **options)


# Forward ------------------------------------------------------------------------------------


@kind
def forward(world, step):
    world.live.append(world.net(step.one)(world.tensor(step.other)))


@kind
def one_net_after_the_other(world, step):
    inner = world.net(step.one)(world.tensor(step.other))
    world.live.append(world.net(step.one + 1)(inner))


@kind
def forward_of_detached(world, step):
    world.live.append(world.net(step.one)(world.tensor(step.other).detach()))


@kind
def forward_without_gradients(world, step):
    with torch.no_grad():
        world.live.append(world.net(step.one)(world.tensor(step.other)))


@kind
def forward_in_a_function(world, step):
    def inner(x):
        return world.net(step.one)(x) * 2

    world.live.append(inner(world.tensor(step.other)))


@kind
def forward_in_half_precision(world, step):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        world.live.append(world.net(step.one)(world.tensor(step.other)).float())


@kind
def checkpointed(world, step):
    x = world.tensor(step.other)
    world.live.append(checkpoint(world.net(step.one), x, use_reentrant=False))


@kind
def forward_with_other_weights(world, step):
    net = world.net(step.one)
    weights = {name: weight * 1.1 for name, weight in net.named_parameters()}
    world.live.append(functional_call(net, weights, (world.tensor(step.other),)))


@kind
def forward_of_a_copy(world, step):
    world.live.append(copy.deepcopy(world.net(step.one))(world.tensor(step.other)))


@kind
def forward_that_fails(world, step):
    try:
        world.net(step.one)(torch.ones(2, COLUMNS + 3))
    except RuntimeError:
        world.live.append(torch.ones(ROWS, COLUMNS))


@kind
def mixed(world, step):
    both = torch.stack([world.tensor(step.one), world.tensor(step.other)])
    world.live.append(both.mean(0))


@kind
def new_leaf(world, step):
    world.live.append(world.tensor(step.one).detach().clone().requires_grad_())


@kind
def write(world, step):
    x = world.tensor(step.one)
    if not (x.is_leaf and x.requires_grad):
        x.add_(1)


# Losses -------------------------------------------------------------------------------------


@kind
def square_error(world, step):
    target = world.tensor(step.other).detach()
    world.losses.append(F.mse_loss(world.tensor(step.one), target))


@kind
def sum_of_losses(world, step):
    world.losses.append(sum(world.losses[-2:]) if world.losses else world.tensor(0).sum())


@kind
def weight_penalty(world, step):
    world.losses.append(sum(weight.pow(2).sum() for weight in world.weights(step.one)) * 0.01)


@kind
def number(world, step):
    if world.losses:
        world.numbers.append(world.loss().item())


# Backward -----------------------------------------------------------------------------------


@kind
def backward(world, step):
    _passes(world, world.loss(step.one % 2), retain_graph=step.other % 3 == 0)


@kind
def backward_that_may_fail(world, step):
    if world.losses:
        world.passes(world.loss(step.one))


@kind
def backward_to_some(world, step):
    weights = [weight for weight in world.weights(step.one) if weight.requires_grad]
    if weights:
        some = weights[: 1 + step.other]
        _passes(world, world.loss(), inputs=some, retain_graph=True)


@kind
def gradients(world, step):
    loss, weights = world.loss(), [w for w in world.weights(step.one) if w.requires_grad]
    if loss is None or not loss.requires_grad or not weights:
        return
    options = {"allow_unused": True, "retain_graph": True, "create_graph": step.other % 2 == 1}
    found = torch.autograd.grad(loss, weights, **options)
    found = [one for one in found if one is not None and one.requires_grad]
    if found:
        world.losses.append(sum(one.pow(2).sum() for one in found))


@kind
def inner_step(world, step):
    net, weights = world.net(step.one), dict(world.net(step.one).named_parameters())
    if not all(weight.requires_grad for weight in weights.values()):
        return
    x = world.tensor(step.other).detach()
    loss = functional_call(net, weights, (x,)).pow(2).mean()
    found = torch.autograd.grad(loss, [*weights.values()], create_graph=True, allow_unused=True)
    fast = {
        name: weight if gradient is None else weight - 0.1 * gradient
        for (name, weight), gradient in zip(weights.items(), found)
    }
    world.losses.append(functional_call(net, fast, (x,)).mean())


@kind
def accumulation(world, step):
    for part in range(2):
        result = world.net(step.one)(world.tensor(step.other + part))
        _passes(world, result.pow(2).mean() / 2)


@kind
def tensor_hook(world, step):
    x = world.tensor(step.one)
    if x.requires_grad:
        x.register_hook(lambda gradient: gradient * 0.5)


@kind
def weight_hook(world, step):
    weight = world.weights(step.one)[0]
    if weight.requires_grad:
        handle = weight.register_hook(lambda gradient: gradient * 0.5)
        _passes(world, world.net(step.one)(world.tensor(step.other)).sum())
        handle.remove()


# Steps --------------------------------------------------------------------------------------


@kind
def step(world, step):
    world.step(world.optimizers[step.one % 2])


@kind
def step_of_some(world, step):
    world.step(torch.optim.SGD(world.weights(step.one)[:2], 0.1))


@kind
def training_step(world, step):
    optimizer = world.optimizers[step.one % 2]
    optimizer.zero_grad()
    result = world.net(step.one)(world.tensor(step.other))
    loss = F.mse_loss(result, torch.ones_like(result))
    world.live.append(result)
    world.losses.append(loss)
    if loss.requires_grad:
        world.passes(loss)
        world.step(optimizer)


@kind
def step_with_closure(world, step):
    weights = world.weights(step.one)
    optimizer, x = torch.optim.LBFGS(weights, max_iter=1, lr=0.01), world.tensor(step.other)

    def closure():
        optimizer.zero_grad()
        loss = world.net(step.one)(x.detach()).pow(2).mean()
        world.passes(loss)
        return loss

    if all(weight.requires_grad for weight in weights):
        world.step(optimizer, closure)


@kind
def step_by_hand(world, step):
    with torch.no_grad():
        for weight in world.weights(step.one):
            if weight.grad is not None:
                weight -= 0.1 * weight.grad


@kind
def zero_grad(world, step):
    world.optimizers[step.one % 2].zero_grad(set_to_none=step.other % 2 == 0)


@kind
def no_grad_left(world, step):
    for weight in world.weights(step.one)[: 1 + step.other]:
        weight.grad = None


@kind
def grad_set(world, step):
    weight = world.weights(step.one)[0]
    if weight.requires_grad:
        weight.grad = torch.ones_like(weight)


@kind
def grad_scaled(world, step):
    for weight in world.weights(step.one):
        if weight.grad is not None:
            weight.grad.mul_(0.5)


@kind
def clip(world, step):
    if step.other % 2:
        nn.utils.clip_grad_norm_(world.weights(step.one), 0.1)
    else:
        nn.utils.clip_grad_value_(world.weights(step.one), 0.1)


@kind
def scaled(world, step):
    loss, optimizer = world.loss(), world.optimizers[step.one % 2]
    if loss is None or not loss.requires_grad:
        return
    world.passes(world.scaler.scale(loss), retain_graph=True)
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if any(weight.grad is not None for weight in weights):
        world.scaler.unscale_(optimizer)
        world.step(optimizer)
        world.scaler.update()


# Weights ------------------------------------------------------------------------------------


@kind
def freeze(world, step):
    world.net(step.one).requires_grad_(step.other % 2 == 1)


@kind
def average(world, step):
    with torch.no_grad():
        for weight, other in zip(world.weights(step.one), world.weights(step.one + 1)):
            if weight.shape == other.shape:
                weight.lerp_(other, 0.1)


@kind
def load(world, step):
    net = world.net(step.one)
    net.load_state_dict({name: item.clone() for name, item in net.state_dict().items()})


@kind
def replaced_data(world, step):
    weight = world.weights(step.one)[0]
    weight.data = weight.data * 0.9


@kind
def mode(world, step):
    world.net(step.one).train(step.other % 2 == 1)


@kind
def forget(world, step):
    if len(world.live) > 2:
        world.live.pop(1)
    if len(world.losses) > 1:
        world.losses.pop(0)


@kind
def loop(world, step):
    for _ in range(2 + step.one % 2):
        run(world, step.body)
