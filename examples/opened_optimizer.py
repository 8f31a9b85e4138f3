"""One step of AdamW, opened: what it does to every weight, drawn once."""

import torch
from torch import nn

import torchrecorder


def step() -> torchrecorder.Recording:
    """The recording of the second training step; the first made the state of the optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    inputs, classes = torch.rand(8, 16), torch.randint(4, (8,))

    def train() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes).backward()
        optimizer.step()

    train()
    with torchrecorder.Recorder(model) as recorder:
        train()
    return recorder.recording


if __name__ == "__main__":
    print(step().render("opened_optimizer.svg", depth="ops", closed="Sequential"))
