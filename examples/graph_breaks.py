"""Where `torch.compile` breaks a model into several graphs, and the same model without breaks.

`Before` branches on a number that only the run knows, prints, and reads a number out of a tensor.
`After` computes the same results in one graph.
"""

import torch
from torch import nn

import torchrecorder


class Normalize(nn.Module):
    """Divides by a scale, and reports it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.std()
        print(f"scale {scale:.2f}")
        return x / scale


class QuietNormalize(nn.Module):
    """Divides by a scale."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.std()


class Before(nn.Module):
    """Three breaks of different kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.normalize = Normalize()
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        if x.abs().max() > 10:
            x = x / 10
        x = self.normalize(x)
        largest = x.abs().max().item()
        return self.head(x) / largest


class After(Before):
    """The same results: `where` for the branch, no call of `print`, a tensor that stays one."""

    def __init__(self) -> None:
        super().__init__()
        self.normalize = QuietNormalize()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = torch.where(x.abs().max() > 10, x / 10, x)
        x = self.normalize(x)
        return self.head(x) / x.abs().max()


def main() -> None:
    torch.manual_seed(0)
    before, after, x = Before(), After(), torch.randn(2, 8)
    after.load_state_dict(before.state_dict())
    for model in (before, after):
        name = type(model).__name__.lower()
        recording = torchrecorder.record(model, x, compiled=True)
        print(f"{name}: {len(recording.compiled_graphs)} graphs")
        for each in recording.breaks:
            print(f"  {each['line']} in {each['module']}: {each['reason']}")
        print(recording.render(f"graphs_{name}.svg", depth=2))
    torch.testing.assert_close(before(x), after(x))
    first, second = (torchrecorder.record(each, x, compiled=True) for each in (before, after))
    print(torchrecorder.compare(first, second))


if __name__ == "__main__":
    main()
