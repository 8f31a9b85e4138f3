"""A translator of 2015: an LSTM reads, another writes, and attends to what was read."""

import torch
from torch import nn

import torchrecorder


class Attention(nn.Module):
    """Looks for what *query* asks in what was read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.ask = nn.Linear(size, size, bias=False)
        self.mix = nn.Linear(2 * size, size)

    def forward(self, query: torch.Tensor, read: torch.Tensor) -> torch.Tensor:
        """*query*, with what was found."""
        weights = (self.ask(query) @ read.transpose(1, 2)).softmax(-1)
        return self.mix(torch.cat([query, weights @ read], dim=-1)).tanh()


class Translator(nn.Module):
    """From words of one language to scores for words of another."""

    def __init__(self, words: int = 100, size: int = 32) -> None:
        super().__init__()
        self.source = nn.Embedding(words, size)
        self.target = nn.Embedding(words, size)
        self.reader = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.writer = nn.LSTM(size, size, num_layers=2, batch_first=True)
        self.attention = Attention(size)
        self.spell = nn.Linear(size, words)

    def forward(self, sentence: torch.Tensor, translation: torch.Tensor) -> torch.Tensor:
        """Scores for the word after each of *translation*."""
        read, state = self.reader(self.source(sentence))
        written, _ = self.writer(self.target(translation), state)
        return self.spell(self.attention(written, read))


def seq2seq():
    """The translator, a sentence and the beginning of its translation."""
    return Translator(), (torch.arange(7).reshape(1, 7), torch.arange(5).reshape(1, 5))


if __name__ == "__main__":
    model, sentences = seq2seq()
    recording = torchrecorder.record(model, sentences)
    print(recording.render("seq2seq.svg", depth=2))
