"""A seq2seq model: an LSTM encoder, and an LSTM decoder with attention to the encoder states."""

import torch
from torch import nn

import torchrecorder


class Attention(nn.Module):
    """Attention from decoder states to encoder states."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(size, size, bias=False)
        self.output_proj = nn.Linear(2 * size, size)

    def forward(self, decoded: torch.Tensor, encoded: torch.Tensor) -> torch.Tensor:
        """The decoder states, combined with a weighted mean of the encoder states."""
        weights = (self.query_proj(decoded) @ encoded.transpose(1, 2)).softmax(-1)
        return self.output_proj(torch.cat([decoded, weights @ encoded], dim=-1)).tanh()


class Seq2Seq(nn.Module):
    """From tokens of one language to scores for tokens of another."""

    def __init__(self, vocabulary: int = 100, size: int = 32) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(vocabulary, size)
        self.target_embedding = nn.Embedding(vocabulary, size)
        self.encoder = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.decoder = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.attention = Attention(size)
        self.classifier = nn.Linear(size, vocabulary)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Scores for the token after each token of *target*."""
        encoded, state = self.encoder(self.source_embedding(source))
        decoded, _ = self.decoder(self.target_embedding(target), state)
        return self.classifier(self.attention(decoded, encoded))


def seq2seq():
    """The model, a source sentence and the beginning of its translation."""
    return Seq2Seq(), (torch.arange(7).reshape(1, 7), torch.arange(5).reshape(1, 5))


if __name__ == "__main__":
    model, sentences = seq2seq()
    recording = torchrecorder.record(model, sentences)
    print(recording.render("seq2seq.svg", depth=2))
