"""A Llama of 70 billion parameters: recorded on the meta device, without memory or compute."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import torchrecorder


def llama(layers: int = 80):
    """The architecture of Llama 3 70B, and eight tokens for it; no weight exists."""
    config = LlamaConfig(
        hidden_size=8192, intermediate_size=28672, num_hidden_layers=layers,
        num_attention_heads=64, num_key_value_heads=8, vocab_size=128256, use_cache=False,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        return LlamaForCausalLM(config).eval(), {"input_ids": torch.zeros(1, 8, dtype=torch.long)}


if __name__ == "__main__":
    model, inputs = llama()
    recording = torchrecorder.record(model, inputs, fake=True)
    print(recording.render("llama.svg", depth=4))
    print(recording.summary(depth=1, columns=["parameters", "parameter_bytes", "output_bytes"]))
