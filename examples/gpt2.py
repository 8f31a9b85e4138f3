"""GPT-2 from transformers, with random weights: twelve equal blocks are one box."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import torchrecorder

if __name__ == "__main__":
    model = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()
    ids = torch.arange(16).reshape(1, 16)
    with torch.no_grad():
        recording = torchrecorder.record(model, {"input_ids": ids})
    print(recording.render("gpt2.svg", depth=3))
    print(recording.summary(depth=2))
