"""The first figure: the Transformer of 2017, recorded and drawn with nothing but pip."""

import torch
from torch import nn

import torchrecorder


def transformer():
    """The base model of "Attention is all you need", and two sentences for it."""
    model = nn.Transformer(d_model=512, nhead=8, batch_first=True).eval()
    return model, (torch.rand(1, 10, 512), torch.rand(1, 12, 512))


if __name__ == "__main__":
    model, sentences = transformer()
    recording = torchrecorder.record(model, sentences)
    print(recording.render("transformer.svg", depth=3))
    print(recording.summary(depth=3))
