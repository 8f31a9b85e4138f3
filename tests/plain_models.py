"""Real architectures written in plain PyTorch, in small sizes.

They are added to ``MODELS`` of `tests.real_models` when this module is imported.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.real_models import image, model
from tests.zoo.case import Run


class _Seq2Seq(nn.Module):
    """An LSTM encoder on packed sequences, and a decoder with attention, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8, padding_idx=0)
        self.encoder = nn.LSTM(8, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(16, 16)
        self.cell = nn.LSTMCell(8, 16)
        self.head = nn.Linear(32, 50)

    def forward(self, source, lengths, target):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embed(source), lengths, batch_first=True, enforce_sorted=False
        )
        memory, _ = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        h = torch.tanh(self.bridge(memory.mean(1)))
        c, steps = torch.zeros_like(h), []
        for step in range(target.shape[1]):
            h, c = self.cell(self.embed(target[:, step]), (h, c))
            weights = (memory @ h.unsqueeze(-1)).softmax(1)
            steps.append(self.head(torch.cat([h, (weights * memory).sum(1)], -1)))
        return torch.stack(steps, 1)


@model()
def lstm_seq2seq() -> Run:
    source = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [9, 1, 2, 0]])
    return Run(_Seq2Seq(), (source, torch.tensor([4, 2, 3]), torch.randint(1, 50, (3, 5))))


@model()
def transformer() -> Run:
    made = nn.Transformer(16, 2, 2, 2, 32, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    return Run(made, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)), {"tgt_mask": mask})


@model()
def transformer_eval() -> Run:
    made = nn.Transformer(16, 2, 2, 2, 32, batch_first=True).eval()
    return Run(made, (torch.randn(2, 5, 16), torch.randn(2, 4, 16)))


class _UNet(nn.Module):
    """Down, down, up, up, with the two skips concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([self._block(3, 8), self._block(8, 16)])
        self.middle = self._block(16, 32)
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.merge = nn.ModuleList([self._block(32, 16), self._block(16, 8)])
        self.head = nn.Conv2d(8, 2, 1)

    @staticmethod
    def _block(inside: int, outside: int) -> nn.Module:
        conv = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outside), nn.ReLU(inplace=True))

    def forward(self, x):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.head(x)


@model()
def unet() -> Run:
    return Run(_UNet(), (image(16, 2),))


class _Autoencoder(nn.Module):
    """A variational autoencoder that returns its loss and its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ELU(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.GLU(), nn.Linear(8, 48), nn.Sigmoid())

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (spread / 2).exp()
        made = self.decoder(z).view_as(x)
        apart = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(-1).mean()
        return {"loss": nn.functional.mse_loss(made, x) + apart, "made": made, "code": (mean, z)}


@model()
def autoencoder() -> Run:
    return Run(_Autoencoder(), (torch.rand(2, 3, 4, 4),))


class _Solver(nn.Module):
    """An ODE solved by many steps of one small network."""

    def __init__(self, steps: int = 40) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
        self.steps = steps

    def forward(self, x):
        for _ in range(self.steps):
            half = x + self.field(x) / (2 * self.steps)
            x = x + self.field(half) / self.steps
        return x


@model()
def ode_solver() -> Run:
    return Run(_Solver(), (torch.randn(2, 4, requires_grad=True),))
