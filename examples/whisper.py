"""Whisper: two convolutions and an encoder for the spectrogram, and a text decoder."""

import torch
from transformers import WhisperConfig, WhisperModel

import torchrecorder


def whisper():
    """A small Whisper, a spectrogram and four tokens for it."""
    config = WhisperConfig(
        d_model=64, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=200,
        num_mel_bins=20, max_source_positions=50, max_target_positions=20, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )
    inputs = {
        "input_features": torch.rand(1, 20, 100),
        "decoder_input_ids": torch.arange(4).reshape(1, 4),
    }
    return WhisperModel(config).eval(), inputs


if __name__ == "__main__":
    model, inputs = whisper()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("whisper.svg", depth=2))
