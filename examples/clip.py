"""CLIP: an image encoder, a text encoder, and the similarity of their embeddings."""

import torch
from transformers import CLIPConfig, CLIPModel

import torchrecorder


def clip():
    """A small CLIP, an image and two sentences for it."""
    small = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
             "num_attention_heads": 4}
    config = CLIPConfig(
        text_config={**small, "vocab_size": 100, "max_position_embeddings": 16,
                     "eos_token_id": 99, "bos_token_id": 98, "pad_token_id": 97},
        vision_config={**small, "image_size": 32, "patch_size": 8},
        projection_dim=32,
    )
    ids = torch.tensor([[98, 5, 6, 99], [98, 7, 8, 99]])
    return CLIPModel(config).eval(), {"input_ids": ids, "pixel_values": torch.rand(1, 3, 32, 32)}


if __name__ == "__main__":
    model, inputs = clip()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("clip.svg", depth=2))
