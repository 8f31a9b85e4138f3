"""A backward pass that PyTorch refuses, explained: what wrote to a tensor that was saved for it."""

import torch
from torch import nn

import torchrecorder


class Gate(nn.Module):
    """Scales its input by a gate, and then uses the memory of the gate again."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.fc(self.norm(x)))
        scaled = gate * x
        gate -= 1
        return scaled - gate * x


def failed() -> torchrecorder.Recording:
    """The recording of a training step whose backward pass fails."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), Gate(), nn.Linear(16, 2))
    x = torch.randn(3, 4)
    recorder = torchrecorder.Recorder(model)
    try:
        with recorder:
            model(x).sum().backward()
    except RuntimeError as error:
        print(error)
        print(*getattr(error, "__notes__", ()), sep="\n")
    return recorder.recording


if __name__ == "__main__":
    recording = failed()
    print(recording.why_backward_failed())
    print(recording.render("modified_in_place.svg"))
