"""What changed between two versions of a model: as text, and in one figure."""

import torch
from torch import nn

import torchrecorder


class Classifier(nn.Module):
    """A convolution, a pooling layer and a linear layer."""

    def __init__(self, channels: int = 16, dropout: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(8)
        self.dropout = nn.Dropout(0.1) if dropout else None
        self.head = nn.Linear(channels, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores for *image*, of shape (batch, 3, 8, 8)."""
        features = self.pool(torch.relu(self.conv(image))).flatten(1)
        if self.dropout is not None:
            features = self.dropout(features)
        return self.head(features)


def compared():
    """The comparison of the model before and after a change."""
    before = torchrecorder.record(Classifier(), input_shapes=(1, 3, 8, 8))
    after = torchrecorder.record(Classifier(24, dropout=True), input_shapes=(1, 3, 8, 8))
    return torchrecorder.compare(before, after)


if __name__ == "__main__":
    changes = compared()
    print(changes.text())
    for theme in ("light", "dark"):
        options = {"theme": theme, "background": "transparent", "reshapes": False}
        print(changes.render(f"compare-{theme}.svg", **options))
