"""A U-Net: an encoder, a decoder, and skip connections between them."""

import torch
from torch import nn

import torchrecorder


class DoubleConv(nn.Sequential):
    """Two convolutions, each with a norm and a ReLU."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(
            nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(out_channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )


class Up(nn.Module):
    """Upsamples, and concatenates the skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.conv = DoubleConv(2 * channels, channels)

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """Features as large as *skip*."""
        return self.conv(torch.cat([skip, self.up(x)], dim=1))


class UNet(nn.Module):
    """Three levels, for images whose sides are multiples of eight."""

    def __init__(self, channels: int = 16, levels: int = 3, classes: int = 2) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(levels + 1)]
        self.inc = DoubleConv(3, channels)
        self.downs = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), DoubleConv(wide, 2 * wide)) for wide in widths[:-1]
        )
        self.ups = nn.ModuleList(Up(wide) for wide in reversed(widths[:-1]))
        self.outc = nn.Conv2d(channels, classes, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores for each pixel."""
        skips = [self.inc(image)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.outc(x)


def unet():
    """A U-Net in evaluation mode, and an image for it."""
    return UNet().eval(), torch.rand(1, 3, 64, 64)


if __name__ == "__main__":
    model, image = unet()
    recording = torchrecorder.record(model, image)
    print(recording.render("unet.svg", depth=2))
