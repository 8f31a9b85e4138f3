"""The figure at the top of the README: a small residual network, its equal blocks folded."""

import torch
from torch import nn

import torchrecorder


class ResidualBlock(nn.Module):
    """Two convolutions around which the input is carried."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, kernel_size=3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of the same shape as *x*."""
        return torch.relu(x + self.conv2(torch.relu(self.conv1(x))))


class TinyResNet(nn.Module):
    """A stem, two blocks, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, kernel_size=7, stride=2, padding=3)
        self.blocks = nn.Sequential(ResidualBlock(16), ResidualBlock(16))
        self.classify = nn.Linear(16, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores for *image*, of shape (batch, 3, height, width)."""
        features = self.blocks(torch.relu(self.stem(image)))
        return self.classify(features.mean(dim=(2, 3)))


if __name__ == "__main__":
    recording = torchrecorder.record(TinyResNet(), input_shapes=(1, 3, 32, 32))
    for theme in ("light", "dark"):
        print(recording.render(f"readme-{theme}.svg", depth=3, theme=theme))
