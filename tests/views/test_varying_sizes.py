"""Calls of one module with other sizes each time are rounds of a loop."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.page.test_data import data_of
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View


class Cached(nn.Module):
    """Attention to all tokens so far, the keys of which it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

    def forward(self, token: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and the keys with one more."""
        query = self.embed(token)
        keys = torch.cat([keys, query])
        return self.head((query @ keys.T).softmax(-1) @ keys), keys


def view_of(recording: Recording, depth: int | None = None) -> View:
    view = make_view(recording, ViewOptions(depth=depth))
    view.check()
    return view


def folds(view: View) -> list[int]:
    """How many siblings each fold stands for."""
    return sorted(item.count for item in (*view.boxes.values(), *view.clusters.values())
                  if item.count > 1)


def generated(rounds: int) -> Recording:
    """Tokens, each of which is chosen with the keys of all before."""
    model = Cached()

    def generate(token: Tensor) -> Tensor:
        keys, found = torch.zeros(1, 4), token
        for _ in range(rounds):
            logits, keys = model(token, keys)
            token = logits.argmax(-1)
            found = torch.cat([found, token])
        return found

    return torchrecorder.record(generate, torch.tensor([1]))


def test_steps_of_generation_are_one_loop() -> None:
    """With the first and the last size of what grows."""
    recording = generated(6)
    view = view_of(recording)
    assert folds(view) == [6]
    text = torchrecorder.make_dot(recording).source
    assert "→ 2×4 … 7×4" in text and "→ 1×2 … 1×7" in text and "→ 1×9<" in text
    assert folds(view_of(generated(2))) == []


def grown(found: Tensor, token: Tensor) -> Tensor:
    """All tokens with one more, and a copy of it."""
    return torch.cat([found, token]).clone()


def test_functions_in_the_steps_fold_with_them() -> None:
    """Although what they read and return grows."""
    model = Cached()

    def generate(token: Tensor) -> Tensor:
        keys, found = torch.zeros(1, 4), token
        for _ in range(6):
            logits, keys = model(token, keys)
            token = logits.argmax(-1)
            found = grown(found, token)
        return found

    recording = torchrecorder.record(generate, torch.tensor([1]))
    view = make_view(recording, ViewOptions(functions=True))
    view.check()
    assert folds(view) == [6]
    assert any(scope.name == "grown" for scope in view.recording.scopes.values())


def test_the_table_has_one_row_for_them() -> None:
    """As for calls of equal sizes."""
    assert "model (Cached)  ×6" in str(generated(6).summary())


class Pyramid(nn.Module):
    """A head for features of several sizes; or one for each, if they are not shared."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        made = [nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU()) for _ in range(1 if shared else 4)]
        self.heads = nn.ModuleList(made)

    def forward(self, levels: list[Tensor]) -> Tensor:
        """The sum of all."""
        heads = [*self.heads] * (4 // len(self.heads))
        return torch.stack([head(level).sum() for head, level in zip(heads, levels)]).sum()


@pytest.mark.parametrize("shared", [True, False])
def test_only_calls_of_one_module_fold(shared: bool) -> None:
    """Different modules with different sizes are drawn each."""
    levels = [torch.ones(1, 2, size, size) for size in (8, 4, 2, 1)]
    recording = torchrecorder.record(Pyramid(shared), (levels,))
    assert bool(recording.varying_sizes) is shared
    assert (4 in folds(view_of(recording, depth=2))) is shared


class Frozen(Pyramid):
    """The same without gradients for each level alone."""

    def forward(self, levels: list[Tensor]) -> Tensor:
        """The sum of all."""
        found = torch.zeros(())
        for level in levels:
            with torch.no_grad():
                found = found + self.heads[0](level).sum()
        return found


def test_what_runs_once_does_not_vary() -> None:
    """Although there are several regions in it; what runs beside the calls does."""
    levels = [torch.ones(1, 2, size, size) for size in (8, 4, 2, 1)]
    recording = torchrecorder.record(Frozen(True), (levels,))
    names = {op.name for op in recording.ops.values() if op.id in recording.varying_sizes}
    assert names == {"conv2d", "relu", "sum"}
    assert recording.varying_sizes.isdisjoint(recording.roots)


@pytest.mark.parametrize("sizes, varies", [
    ((3, 2, 4, 1), True), ((3, 3, 2, 4, 1), True), ((2, 2, 2, 1), False), ((1, 2), False),
    ((1, 1, 2, 2), False), ((1, 1, 2, 3), False), ((1, 2, 3), True),
])
def test_most_calls_have_sizes_of_their_own(sizes: tuple[int, ...], varies: bool) -> None:
    """A last batch that is smaller stands apart, and so do two kinds of batches."""
    layer = nn.Linear(2, 2)
    with torchrecorder.Recorder(layer) as recorder:
        for size in sizes:
            layer(torch.ones(size, 2)).sum().backward()
    recording = recorder.recording
    names = {op.name for op in recording.ops.values() if op.id in recording.varying_sizes}
    assert names == ({"ones", "linear", "sum"} if varies else set())
    assert {scope.cls for scope in recording.scopes.values()
            if scope.id in recording.varying_sizes} == ({"Linear"} if varies else set())


def test_what_a_round_passes_on_is_named_once() -> None:
    """On pages, too, where the closed loop has the arrows of all rounds."""
    strings = data_of(generated(6))["strings"]
    carried = [text for text in strings if "carried over:" in text]
    assert carried == ["carried over: token, keys, [2] int64"]
