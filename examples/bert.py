"""BERT-base from transformers, with random weights, called with what a tokenizer gives."""

import torch
from transformers import BertConfig, BertModel

import torchrecorder

PAGE = {"width": "180mm", "height": "260mm"}
"""What A4 and letter have in common; no text is smaller than five points on it."""


def bert():
    """BERT-base, and a batch of one sentence."""
    batch = {
        "input_ids": torch.arange(16).reshape(1, 16),
        "token_type_ids": torch.zeros(1, 16, dtype=torch.long),
        "attention_mask": torch.ones(1, 16, dtype=torch.long),
    }
    return BertModel(BertConfig()).eval(), batch


if __name__ == "__main__":
    model, batch = bert()
    with torch.no_grad():
        recording = torchrecorder.record(model, batch)
    print(recording.render("bert.svg", depth=5))
    print(recording.render("bert.pdf", depth=3, **PAGE))
    print(recording.summary(depth=3))
