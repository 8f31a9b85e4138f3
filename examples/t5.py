"""T5: an encoder, a decoder that looks at it, and one embedding that three places share."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

import torchrecorder

PAGE = {"width": "180mm", "height": "260mm"}
"""What A4 and letter have in common; no text is smaller than five points on it."""


def t5():
    """A small T5, a sentence for its encoder and one for its decoder."""
    config = T5Config(
        d_model=64, d_kv=16, d_ff=128, num_layers=4, num_heads=4, vocab_size=100,
        decoder_start_token_id=0, use_cache=False,
    )
    ids = torch.arange(10).reshape(1, 10)
    return T5ForConditionalGeneration(config).eval(), {"input_ids": ids, "labels": ids[:, :6]}


if __name__ == "__main__":
    model, inputs = t5()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("t5.svg", depth=2))
    print(recording.render("t5.pdf", depth=2, counts=False, **PAGE))
    print(recording.summary(depth=2))
