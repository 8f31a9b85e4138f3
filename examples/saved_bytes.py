"""GPT-2 colored by the bytes that its modules keep for backward."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import torchrecorder

if __name__ == "__main__":
    model = GPT2LMHeadModel(GPT2Config(n_layer=3))
    ids = torch.arange(128).reshape(1, 128)
    recording = torchrecorder.record(model, {"input_ids": ids, "labels": ids}, backward=True)
    print(recording.render("saved_bytes.svg", color_by="saved_bytes", depth=3))
    print(recording.summary(depth=3, columns=["saved_bytes", "output_bytes", "parameter_bytes"]))
