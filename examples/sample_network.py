"""One call: a network with its layers as boxes, as torchrecorder 1.x drew it."""

import torch
from torch import nn

from torchrecorder import render_network


class SampleNet(nn.Module):
    """Two linear layers and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(in_features=3, out_features=3, bias=True)
        self.linear_2 = nn.Sequential(
            nn.Linear(in_features=3, out_features=3, bias=True),
            nn.ReLU(inplace=True),
        )
        self.linear_3 = nn.Linear(in_features=6, out_features=1, bias=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Score *x*, of shape (batch, 3)."""
        x = self.linear_1(x)
        return self.linear_3(torch.cat([x, self.linear_2(x)], dim=1))


if __name__ == "__main__":
    render_network(
        SampleNet(),
        name="Sample Net",
        input_shapes=(1, 3),
        directory="./",
        fmt="svg",
        render_depth=1,
    )
