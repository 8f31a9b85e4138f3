"""Mixtral: a router sends each token to two of eight experts."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

import torchrecorder

PAGE = {"width": "180mm", "height": "260mm"}
"""What A4 and letter have in common; no text is smaller than five points on it."""


def mixtral():
    """A small Mixtral, and eight tokens for it."""
    torch.manual_seed(0)
    config = MixtralConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=8, vocab_size=100, use_cache=False,
    )
    return MixtralForCausalLM(config).eval(), {"input_ids": torch.arange(8).reshape(1, 8)}


if __name__ == "__main__":
    model, inputs = mixtral()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("mixtral.svg", depth=3))
    print(recording.render("mixtral.pdf", depth=2, **PAGE))
    print(recording.render("mixtral_experts.svg", focus="model.layers.0.mlp", depth=2))
