"""Captions of closed modules that combine others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.events import ScopeKind
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

IMAGE = (2, 4, 6, 6)


def caption(model: nn.Module, shape: tuple[int, ...] = IMAGE, **options: str) -> str:
    """The second line on the box of a closed model; empty if it is the number of weights."""
    recording = torchrecorder.record(model, torch.ones(shape))
    view = make_view(recording, ViewOptions(depth=0))
    (label,) = (item.label for item in draw(view, Style(**options)).shapes if item.kind == "module")
    texts = [line.text for line in label[1:]]
    return texts[0] if texts and not texts[0].endswith((" params", "6")) else ""


class Mixed(nn.Module):
    """A layer with functions around it, and a batch norm that holds its activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False)
        self.norm = Norm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.norm(self.conv(x)))


class Norm(nn.BatchNorm2d):
    """A norm with a module inside, and with the counter of batches that PyTorch's has."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.act = nn.Hardtanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(super().forward(x))


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (
            [nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()],
            "4 → 8, 3×3, s2 + BN + ReLU",
        ),
        ([nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 5, 1)], "BN + ReLU + 4 → 5, 1×1"),
        ([nn.Conv2d(4, 4, 3, groups=4), nn.GroupNorm(2, 4)], "4 → 4, 3×3, 4 groups + GN"),
        ([nn.Linear(6, 3), nn.LayerNorm(3), nn.GELU()], "6 → 3 + LN + GELU"),
        ([nn.Sequential(nn.Linear(6, 3), nn.Identity()), nn.LeakyReLU()], "6 → 3 + LeakyReLU"),
        ([nn.Linear(6, 3), nn.Dropout(0.5).eval(), nn.Tanh()], "6 → 3 + Tanh"),
        ([Mixed()], "4 → 8, 3×3, s2, 2 groups + BN + Hardta… + SiLU"),
    ],
)
def test_a_layer_with_norm_and_activation(layers: list[nn.Module], said: str) -> None:
    """Those that ran, in their order, in one line of limited length."""
    text = caption(nn.Sequential(*layers))
    assert len(text) <= 40
    head, cut, tail = said.partition("…")
    assert text == said or cut and text.startswith(head[:20]) and text.endswith(tail)


@pytest.mark.parametrize(
    "layers",
    [
        [nn.Conv2d(4, 4, 3)],
        [nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU()],
        [nn.BatchNorm2d(4), nn.ReLU()],
        [nn.Conv2d(4, 4, 3), nn.MaxPool2d(2)],
        [nn.Linear(6, 6), nn.Dropout(0.5)],
    ],
)
def test_what_is_more_or_less_has_no_such_caption(layers: list[nn.Module]) -> None:
    """A layer alone, two layers, none, and one with something else."""
    assert caption(nn.Sequential(*layers)) == ""


class Counting(nn.ReLU):
    """An activation that counts its calls in the only buffer of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return super().forward(x)


def test_a_counter_is_no_layer() -> None:
    """Also if the model has no other buffer."""
    assert caption(nn.Sequential(nn.Linear(6, 3), Counting())) == "6 → 3 + ReLU"


@pytest.mark.parametrize(("inner", "said"), [
    (ScopeKind.MODULE, ["Inner"]), (ScopeKind.NO_GRAD, []), (ScopeKind.FUNCTION, []),
])
def test_a_function_around_one_module_says_its_class(inner: ScopeKind, said: list[str]) -> None:
    """One around a region, or around another function, does not."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("outer", "outer", kind=ScopeKind.FUNCTION):
        with run.scope("inner", "Inner", kind=inner):
            run.op("relu", run.input("x"))
    view = make_view(run.recording(), ViewOptions(depth=1, functions=True))
    (label,) = (item.label for item in draw(view).shapes if item.label[0].text == "outer")
    assert [line.text for line in label[1:]] == said


class Block(nn.Module):
    """Two layers and a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.other(self.one(x))


def test_equal_blocks_are_counted() -> None:
    """By their class, as it is renamed; also where the first of them is the widest."""
    assert caption(nn.Sequential(Block(), nn.Identity(), Block(), Block())) == "3 × Block"
    model = nn.Sequential(Block(), Block())
    recording = torchrecorder.record(model, torch.ones(IMAGE))
    style = Style(rename={"Block": "Unit"})
    (label,) = (
        item.label
        for item in draw(make_view(recording, ViewOptions(depth=0)), style).shapes
        if item.kind == "module"
    )
    assert label[1].text == "2 × Unit"


def pairs(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), layer) for layer in layers))


def test_containers_show_what_is_in_them() -> None:
    """If that is alike in all, and short; what is off does not count."""
    assert caption(pairs(nn.ReLU(), nn.ReLU(), nn.ReLU())) == "3 × (Linear, ReLU)"
    inactive = [nn.Sequential(Block(), nn.Identity()) for _ in range(2)]
    assert caption(nn.Sequential(*inactive)) == "2 × (Block)"
    assert caption(pairs(nn.ReLU(), nn.Tanh())) == "2 × Sequential"
    long = [nn.Sequential(*(Block() for _ in range(9))) for _ in range(2)]
    assert caption(nn.Sequential(*long)) == "2 × Sequential"


class Scaled(nn.Module):
    """One op with an argument, or with one that the shape shows, or two ops."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "view":
            return x.view(2, 12)
        return x * 3 if self.kind == "one" else (x * 3).exp()


@pytest.mark.parametrize("kind, expected", [("one", "× 3"), ("view", ""), ("two", "")])
def test_arguments_of_the_only_op(kind: str, expected: str) -> None:
    """A module without settings, such as a loss, is what its op does."""
    assert caption(Scaled(kind), (2, 3, 4)) == expected


def test_reduction_of_a_loss() -> None:
    """It is in no ``extra_repr``."""
    recording = torchrecorder.record(
        nn.CrossEntropyLoss(reduction="sum"), (torch.ones(4, 3), torch.zeros(4).long())
    )
    view = make_view(recording, ViewOptions(depth=0))
    (label,) = (shape.label for shape in draw(view).shapes if shape.kind == "module")
    assert [line.text for line in label] == ["CrossEntropyLoss", "reduction sum"]


def test_calls_of_one_module_are_no_blocks() -> None:
    """Nor are different classes, or blocks with an op beside them."""
    block = Block()
    assert caption(nn.Sequential(block, block)) == ""
    assert caption(nn.Sequential(Block(), nn.Linear(6, 6), nn.Linear(6, 6))) == ""
    assert caption(nn.Sequential(Block(), nn.Sequential(Block(), Block()))) == ""


@pytest.mark.parametrize(
    ("last", "said"), [(nn.ReLU, ["4 … 16 → 8 … 32, 1×1 + BN + ReLU"]), (nn.Tanh, [])]
)
def test_folded_siblings_share_a_caption(last: type[nn.Module], said: list[str]) -> None:
    """With the range of what differs; none if they combine different things."""
    layers = [
        nn.Sequential(nn.Conv2d(wide, 2 * wide, 1), nn.BatchNorm2d(2 * wide), act())
        for wide, act in ((4, nn.ReLU), (8, nn.ReLU), (16, last))
    ]
    recording = torchrecorder.record(nn.Sequential(*layers), torch.ones(IMAGE))
    view = make_view(recording, ViewOptions(depth=1, fold="similar"))
    folded = [item.label for item in draw(view).shapes if item.count == 3]
    texts = [line.text for label in folded for line in label]
    assert [text for text in texts if " + " in text] == said


class Clamped(nn.Softplus):
    """A module with settings of its own around one operation, or around two."""

    def __init__(self, doubles: bool) -> None:
        super().__init__()
        self.doubles = doubles

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clamp(0, 3)
        return y * 2 if self.doubles else y


@pytest.mark.parametrize("doubles", [False, True])
def test_the_settings_of_a_module_stand_for_those_of_its_only_operation(doubles: bool) -> None:
    """Where a second one follows, each tells its own."""
    recording = torchrecorder.record(Clamped(doubles), torch.rand(2, 4))
    shapes = draw(make_view(recording, ViewOptions(depth=9)), Style()).shapes
    (told,) = (shape.label[1:] for shape in shapes if shape.label[0].text == "clamp")
    assert any("3" in line.text for line in told) == doubles


class Bounded(nn.Module):
    """A module without settings around one operation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(0, 3)


def test_an_operation_tells_its_settings_in_a_module_that_has_none() -> None:
    recording = torchrecorder.record(Bounded(), torch.rand(2, 4))
    shapes = draw(make_view(recording, ViewOptions(depth=9)), Style()).shapes
    (told,) = (shape.label[1:] for shape in shapes if shape.label[0].text == "clamp")
    assert any("3" in line.text for line in told)


class Functional(nn.Module):
    """The same layer as an op, with a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(nn.functional.linear(x, self.weight))


def test_a_layer_of_functions() -> None:
    """The layer by the name of its op, which has no sizes; the activation as that of a module."""
    assert caption(Functional()) == "linear + ReLU"
