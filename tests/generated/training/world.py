"""World: the nets, optimizers, tensors and losses of a training program; and a witness of it.

The witness asks PyTorch itself, in a run without a recorder: hooks of the parameters say which of
them receive a gradient in a pass, and copies say which of them a step changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

if TYPE_CHECKING:
    from tests.generated.training.program import Training

ROWS, COLUMNS = 3, 4
"""The shape of all inputs and outputs of nets."""


class Normed(nn.Module):
    """With buffers and random numbers."""

    def __init__(self):
        super().__init__()
        self.inner, self.norm = nn.Linear(COLUMNS, COLUMNS), nn.BatchNorm1d(COLUMNS)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(self.norm(self.inner(x)).relu())


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(COLUMNS, COLUMNS, bias=False), nn.Linear(COLUMNS, COLUMNS)
        self.up.weight = self.down.weight

    def forward(self, x):
        return self.up(self.down(x).tanh())


class Skipping(nn.Module):
    """With a layer that never runs, and one whose result gets no gradient."""

    def __init__(self):
        super().__init__()
        self.used, self.unused, self.cut = (nn.Linear(COLUMNS, COLUMNS) for _ in range(3))
        self.scale = nn.Parameter(torch.ones(COLUMNS))

    def forward(self, x):
        return self.used(x) * self.scale + self.cut(x).detach()


class Recurrent(nn.Module):
    """A cell that runs twice."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(COLUMNS, COLUMNS)

    def forward(self, x):
        return self.cell(x, self.cell(x, torch.zeros_like(x)))


def layers() -> nn.Module:
    """Two layers in a row."""
    return nn.Sequential(nn.Linear(COLUMNS, COLUMNS), nn.Tanh(), nn.Linear(COLUMNS, COLUMNS))


NETS: tuple[Callable[[], nn.Module], ...] = (layers, Normed, Tied, Skipping, Recurrent)

OPTIMIZERS: tuple[Callable[[Any], Optimizer], ...] = (
    lambda weights: torch.optim.SGD(weights, 0.1),
    lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9),
    lambda weights: torch.optim.Adam(weights, 0.01),
    lambda weights: torch.optim.AdamW(weights, 0.01, foreach=False),
    lambda weights: torch.optim.RMSprop(weights, 0.01),
    lambda weights: torch.optim.Adagrad(weights, 0.1),
)


class World:
    """What the statements of *program* work on, the same each time.

    Attributes:
        live: The tensors made so far.
        losses: The losses made so far.
        numbers: What was read as numbers.
    """

    def __init__(self, program: Training) -> None:
        torch.manual_seed(program.seed)
        self.nets = nn.ModuleDict({name: NETS[kind]() for name, kind in zip("ab", program.nets)})
        first, second = (OPTIMIZERS[kind] for kind in program.optimizers)
        both = self.nets if program.joint else self.nets["b"]
        self.optimizers = [first(self.nets["a"].parameters()), second(both.parameters())]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        self.live = [torch.randn(ROWS, COLUMNS) for _ in range(2)]
        self.losses: list[Tensor] = []
        self.numbers: list[float] = []

    def net(self, number: int) -> nn.Module:
        """One of the nets."""
        return self.nets["ab"[number % 2]]

    def weights(self, number: int) -> list[nn.Parameter]:
        """The parameters of one of the nets."""
        return list(self.net(number).parameters())

    def tensor(self, number: int) -> Tensor:
        """A tensor made before, counted back from the latest."""
        return self.live[-1 - number % len(self.live)]

    def loss(self, number: int = 0) -> Tensor | None:
        """A loss made before, if there is one."""
        return self.losses[-1 - number % len(self.losses)] if self.losses else None

    def passes(self, loss: Tensor, **options: Any) -> None:
        """Run a backward pass."""
        loss.backward(**options)

    def step(self, optimizer: Optimizer, *closure: Callable[[], Tensor]) -> None:
        """Run a step."""
        optimizer.step(*closure)

    def state(self) -> dict[str, Any]:
        """Everything that a recorder must not change."""
        found: dict[str, Any] = {"random state": _bits(torch.get_rng_state())}
        for name, weight in self.nets.named_parameters():
            found[name] = _bits(weight), weight.requires_grad, weight._version
            found[f"{name}.grad"] = _bits(weight.grad), len(weight._backward_hooks or ())
        for name, buffer in self.nets.named_buffers():
            found[name] = _bits(buffer)
        for number, optimizer in enumerate(self.optimizers):
            for place, state in enumerate(optimizer.state.values()):
                found[f"state {number}.{place}"] = {
                    key: _bits(item) if isinstance(item, Tensor) else item
                    for key, item in state.items()
                }
        found["tensors"] = [_bits(item) for item in (*self.live, *self.losses)]
        return {**found, "numbers": self.numbers}


def _bits(tensor: Tensor | None) -> object:
    if tensor is None:
        return None
    plain = tensor.detach().reshape(-1).view(torch.uint8)
    return str(tensor.dtype), tuple(tensor.shape), plain.numpy().tobytes()


class Witnessed(World):
    """A world that notes what autograd and the optimizers do.

    Attributes:
        names: The name of each parameter.
        received: How often each parameter received a gradient in each backward pass.
        updated: For each step the parameters whose numbers it changed, and those that it can.
    """

    def __init__(self, program: Training) -> None:
        super().__init__(program)
        self.names = {id(weight): name for name, weight in self.nets.named_parameters()}
        self.received: list[Counter[str]] = []
        self.updated: list[tuple[set[str], set[str]]] = []

    def passes(self, loss: Tensor, **options: Any) -> None:
        found: Counter[str] = Counter()
        handles = [
            weight.register_post_accumulate_grad_hook(lambda leaf: found.update([self.name(leaf)]))
            for weight in self.nets.parameters() if weight.requires_grad
        ]
        try:
            super().passes(loss, **options)
        finally:
            for handle in handles:
                handle.remove()
            self.received.append(found)

    def name(self, weight: Any) -> str:
        """The name of a parameter."""
        return self.names[id(weight)]

    def step(self, optimizer: Optimizer, *closure: Callable[[], Tensor]) -> None:
        weights = dict(self.nets.named_parameters())
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        own = [weight for group in optimizer.param_groups for weight in group["params"]]
        able = {self.name(weight) for weight in own if closure or weight.grad is not None}
        super().step(optimizer, *closure)
        changed = {name for name in weights if not torch.equal(weights[name], before[name])}
        self.updated.append((changed, able))
