"""The first picture: the Transformer of 2017, recorded and drawn with nothing but pip."""

import torch
from torch import nn

import torchrecorder


def transformer() -> nn.Transformer:
    """The base model of "Attention is all you need", in evaluation mode."""
    return nn.Transformer(d_model=512, nhead=8, batch_first=True).eval()


if __name__ == "__main__":
    model = transformer()
    source, target = torch.rand(1, 10, 512), torch.rand(1, 12, 512)
    recording = torchrecorder.record(model, (source, target))
    print(recording.render("transformer.svg", depth=3))
    print(recording.summary(depth=3))
