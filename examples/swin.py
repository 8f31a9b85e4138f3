"""A Swin transformer: windows of attention, every second one shifted, and merging of patches."""

import torch
from transformers import SwinConfig, SwinModel

import torchrecorder


def swin():
    """Two stages of Swin on images of 32 x 32, and an input for it."""
    config = SwinConfig(
        image_size=32, patch_size=2, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
    )
    return SwinModel(config).eval(), {"pixel_values": torch.rand(1, 3, 32, 32)}


if __name__ == "__main__":
    model, inputs = swin()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("swin.svg", depth=3))
    print(recording.render("swin_attention.svg", focus="*.attention", depth=3))
