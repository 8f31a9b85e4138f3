"""A vision transformer: patches become tokens, twelve equal layers are one box."""

import torch
from transformers import ViTConfig, ViTModel

import torchrecorder


def vit():
    """ViT with 4 x 4 patches on images of 32 x 32, and an input for it."""
    config = ViTConfig(
        hidden_size=96, num_hidden_layers=12, num_attention_heads=3, intermediate_size=384,
        image_size=32, patch_size=4,
    )
    return ViTModel(config).eval(), {"pixel_values": torch.rand(1, 3, 32, 32)}


if __name__ == "__main__":
    model, inputs = vit()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("vit.svg", depth=4))
