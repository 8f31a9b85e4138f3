"""A program that trains and evaluates over several epochs, as one figure."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torchrecorder


def dataset(size: int) -> TensorDataset:
    """Random pictures of digits, with their classes."""
    return TensorDataset(torch.rand(size, 1, 28, 28), torch.randint(10, (size,)))


def train(model: nn.Module, batches: DataLoader, optimizer: torch.optim.Optimizer) -> None:
    """One pass over the training data."""
    model.train()
    for images, classes in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), classes).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@torch.no_grad()
def evaluate(model: nn.Module, batches: DataLoader) -> float:
    """The share of pictures whose class is found."""
    model.eval()
    found = [(model(images).argmax(1) == classes).sum().item() for images, classes in batches]
    return sum(found) / len(batches.dataset)


def program() -> torchrecorder.Recording:
    """The recording of three epochs; the optimizer and the data are made before."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 13 * 13, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    training = DataLoader(dataset(64), batch_size=16, shuffle=True)
    held_out = DataLoader(dataset(32), batch_size=16)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(3):
            train(model, training, optimizer)
            evaluate(model, held_out)
    return recorder.recording


if __name__ == "__main__":
    print(program().render("training_program.svg"))
