"""A failing backward pass: the node, the line that created it, its inputs; then run alone."""

import torch
from torch import nn

import torchrecorder


class Clip(torch.autograd.Function):
    """Clips its input; its backward ignores that the input may have been broadcast."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, bound)
        return x.clamp(max=bound)

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, bound = ctx.saved_tensors
        passed = x < bound
        return gradient * passed, (gradient * ~passed).view_as(bound)


class Clipped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bound = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Clip.apply(x, self.bound)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), Clipped(), nn.Linear(8, 1))
    try:
        torchrecorder.record(model, torch.randn(16, 4), backward=True, replay=True)
    except RuntimeError as error:
        print(error)
        print(*getattr(error, "__notes__", ()), sep="\n")
        recording = torchrecorder.recording_of(error)
        assert recording is not None
    print(recording.render("failing_forward.svg", direction="LR"))
    print(recording.render("failing_backward.svg", view="backward"))
    try:
        recording.replay(recording.run.failure.grad)
    except RuntimeError as error:
        print("alone, the node fails in the same way:", error)
