"""GPT-2 from transformers, with random weights: twelve equal blocks are one box."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import torchrecorder

PAGE = {"width": "180mm", "height": "260mm"}
"""What A4 and letter have in common; no text is smaller than five points on it."""


def gpt2():
    """GPT-2, and sixteen tokens for it."""
    model = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
    return model, {"input_ids": torch.arange(16).reshape(1, 16)}


if __name__ == "__main__":
    model, inputs = gpt2()
    with torch.no_grad():
        recording = torchrecorder.record(model, inputs)
    print(recording.render("gpt2.svg", depth=3))
    print(recording.render("gpt2.pdf", depth=3, **PAGE))
    print(recording.summary(depth=2))
