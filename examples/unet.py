"""A U-Net: down, up again, and across."""

import torch
from torch import nn

import torchrecorder


class Twice(nn.Sequential):
    """Two convolutions, each with a norm and a ReLU."""

    def __init__(self, ins: int, outs: int) -> None:
        super().__init__(
            nn.Conv2d(ins, outs, 3, padding=1), nn.BatchNorm2d(outs), nn.ReLU(inplace=True),
            nn.Conv2d(outs, outs, 3, padding=1), nn.BatchNorm2d(outs), nn.ReLU(inplace=True),
        )


class Up(nn.Module):
    """Twice as large, joined with what was there on the way down."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.enlarge = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.mix = Twice(2 * channels, channels)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Features as large as *skip*."""
        return self.mix(torch.cat([skip, self.enlarge(x)], dim=1))


class UNet(nn.Module):
    """Three levels, for pictures whose sides are multiples of eight."""

    def __init__(self, channels: int = 16, levels: int = 3, classes: int = 2) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels + 1)]
        self.enter = Twice(3, channels)
        self.downs = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), Twice(wide, 2 * wide)) for wide in widths[:-1]
        )
        self.ups = nn.ModuleList(Up(wide) for wide in reversed(widths[:-1]))
        self.leave = nn.Conv2d(channels, classes, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores for each pixel."""
        kept = [self.enter(image)]
        for down in self.downs:
            kept.append(down(kept[-1]))
        x = kept.pop()
        for up in self.ups:
            x = up(x, kept.pop())
        return self.leave(x)


def unet():
    """A U-Net in evaluation mode, and a picture for it."""
    return UNet().eval(), torch.rand(1, 3, 64, 64)


if __name__ == "__main__":
    model, image = unet()
    recording = torchrecorder.record(model, image)
    print(recording.render("unet.svg", depth=2))
