"""A deep network whose gradients vanish, beside one whose gradients do not.

The same ten layers, once with sigmoids, once with residual connections around ReLUs:
colored by the norm of the gradient that reaches the weights, and followed over training.
"""

import torch
from torch import nn

import torchrecorder


class Block(nn.Module):
    """One layer, with a residual connection or without."""

    def __init__(self, activation: nn.Module, residual: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.activation = activation
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.activation(self.linear(x))
        return x + y if self.residual else y


def network(activation: type, residual: bool) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(activation(), residual) for _ in range(10)), nn.Linear(32, 1))


def train(model: nn.Module, steps: int = 41) -> torchrecorder.Series:
    series = torchrecorder.Series(model, every=4, scopes=["*.linear", "10"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        x = torch.randn(64, 32, generator=generator)
        with series.step():
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            optimizer.step()
    return series


if __name__ == "__main__":
    for name, model in (
        ("vanishing", network(nn.Sigmoid, residual=False)),
        ("fixed", network(nn.ReLU, residual=True)),
    ):
        x = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
        recording = torchrecorder.record(model, x, backward=True, stats=True)
        print(
            recording.render(
                f"{name}_gradients.svg",
                color_by="parameter_gradient_norm",
                color_range=(1e-7, 1e3),
                depth=1,
                fold=False,
                direction="LR",
            )
        )
        series = train(model)
        print(series.plot(f"{name}_gradients_over_time.svg", "parameter_gradient_norm"))
        print(series.text("parameter_gradient_norm"))
