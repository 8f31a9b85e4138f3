"""Calls of one module with other sizes each time are rounds of a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.page.test_data import data_of
from torchrecorder.events import ScopeId
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
    """Although what they read and return grows. The loop has the name of the model."""
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
    assert [item.names for item in view.clusters.values() if item.count == 6] == [("model",)]


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


# Sizes that depend on data --------------------------------------------------------------


class Expert(nn.Module):
    """Part of a mixture."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        """As many tokens, scaled by their position."""
        positions = torch.arange(len(tokens)).unsqueeze(1)
        return self.down(self.up(tokens).view(len(tokens), 2, 4).flatten(1).relu()) * positions


class Mixture(nn.Module):
    """Each token goes to one expert; the counts are those of *choices*."""

    def __init__(self, choices: list[int]) -> None:
        super().__init__()
        self.choice = torch.tensor(choices)
        self.experts = nn.ModuleList(Expert() for _ in range(max(choices) + 1))

    def forward(self, tokens: Tensor) -> Tensor:
        """The tokens after their experts."""
        found = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            (mine,) = torch.where(self.choice == number)
            found.index_add_(0, mine, expert(tokens[mine]))
        return found


ROUTED = [0, 1, 1, 1, 2, 2, 3, 1, 0, 1]
EXPERTS = "experts.0", "experts.1", "experts.2", "experts.3"


def names_inside(view: View) -> dict[str, tuple[str, ...]]:
    """The names in the titles of folded scopes, by class."""
    scopes = view.recording.scopes
    return {scopes[ScopeId(item.id)].cls: item.names
            for item in (*view.boxes.values(), *view.clusters.values())
            if item.id in scopes and item.names}


def test_experts_fold_whatever_the_number_of_their_tokens() -> None:
    """With what is made and cut for that number, at each depth."""
    recording = torchrecorder.record(Mixture(ROUTED), torch.rand(10, 4))
    for depth in (1, 2):
        view = view_of(recording, depth)
        assert folds(view) == [4]
        assert names_inside(view) == {"Expert": EXPERTS}
    text = torchrecorder.make_dot(recording, depth=2).source
    assert "→ 2×4 … 1×4" in text and "→ [2] int64 … [1] int64" in text
    assert "experts.0 … experts.3 (Expert)  ×4" in str(recording.summary())
    assert len(folds(make_view(recording, ViewOptions(view="backward")))) == 1


def test_layers_fold_around_experts() -> None:
    """Each routes the tokens in another way; the names are those of one layer."""
    other = [3, 2, 1, 2, 1, 0, 0, 0, 3, 3]
    layers = nn.Sequential(Mixture(ROUTED), Mixture(other), Mixture(ROUTED[::-1]))
    view = view_of(torchrecorder.record(layers, torch.rand(10, 4)), depth=2)
    assert folds(view) == [3, 4]
    assert names_inside(view)["Expert"] == EXPERTS


def test_groups_of_points_fold() -> None:
    """In each iteration of k-means, and in the loop around them."""
    points = torch.tensor([[0.0], [1.0], [2.0], [6.0], [9.0], [20.0], [30.0]])

    def means(points: Tensor) -> Tensor:
        centers = points[:3]
        for _ in range(3):
            nearest = torch.cdist(points, centers).argmin(1)
            centers = torch.stack([points[nearest == number].mean(0) for number in range(3)])
        return centers

    recording = torchrecorder.record(means, points)
    sizes = {recording.values[op.outputs[0]].shape for op in recording.ops.values()
             if op.name == "getitem" and op.id in recording.varying_sizes}
    assert len(sizes) > 1
    assert folds(view_of(recording)) == [3, 3]


def test_sizes_that_the_code_chooses_count() -> None:
    """Beside sizes that depend on data they do not, if the argument is the size."""
    def cut(x: Tensor) -> Tensor:
        return torch.stack([x[:size].sigmoid().sum() for size in (1, 2, 3, 4)])

    recording = torchrecorder.record(cut, torch.rand(6))
    assert not recording.varying_sizes and folds(view_of(recording)) == []

    def masked(x: Tensor) -> Tensor:
        found = []
        for low in (0, 1, 3, 4):
            rest = x[x > low]
            found.append((rest * x[:len(rest)]).sum())
        return torch.stack(found)

    recording = torchrecorder.record(masked, torch.arange(6.0))
    assert folds(view_of(recording)) == [4]

    def beside(x: Tensor, parts: list[Tensor]) -> Tensor:
        return torch.stack([x[x > low].sum() + (part * 2).sum() for low, part in enumerate(parts)])

    parts = [torch.ones(size) for size in (1, 2, 3, 4)]
    recording = torchrecorder.record(beside, (torch.arange(6.0), parts))
    names = {op.name for op in recording.ops.values() if op.id in recording.varying_sizes}
    assert names == {"getitem", "sum"} and folds(view_of(recording)) == []


def test_other_settings_of_experts_are_drawn() -> None:
    """Only sizes do not count."""
    mixture = Mixture(ROUTED)
    mixture.experts[2].up = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    view = view_of(torchrecorder.record(mixture, torch.rand(10, 4)), depth=1)
    assert folds(view) == [2]


@pytest.mark.parametrize("start, window, folded", [(1, 2, [4]), (3, 2, [6]), (1, 4, [2, 4])])
def test_a_model_reads_the_end_of_a_sequence_that_grows(
    start: int, window: int, folded: list[int]
) -> None:
    """From the first step on, or after some steps; the slice is the only other operation."""
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9))

    def generate(tokens: Tensor) -> Tensor:
        for _ in range(6):
            read = tokens if len(tokens) <= window else tokens[-window:]
            tokens = torch.cat([tokens, model(read)[-1].argmax(-1, keepdim=True)])
        return tokens

    recording = torchrecorder.record(generate, torch.ones(start, dtype=torch.long))
    assert folds(view_of(recording)) == folded


@pytest.mark.parametrize(("steps", "grows"), [(2, False), (3, True)])
def test_a_sequence_that_grows_three_times(steps: int, grows: bool) -> None:
    """Twice is no loop."""
    def joined(x: Tensor) -> Tensor:
        for _ in range(steps):
            x = torch.cat([x, torch.ones(1)])
        return x

    recording = torchrecorder.record(joined, torch.ones(4))
    names = [op.name for op in recording.ops.values() if op.id in recording.varying_sizes]
    assert names == ["cat"] * steps * grows


@pytest.mark.parametrize("resized", [
    lambda x: nn.functional.max_pool1d(x, 2), lambda x: torch.cat([x, x], -1),
    lambda x: nn.functional.pad(x, (1, 1, 1, 1)), lambda x: x[..., 1:],
])
def test_only_sequences_that_grow_step_by_step(resized: Callable[[Tensor], Tensor]) -> None:
    """Results that are halved, doubled, wider in two dimensions or shorter are none."""
    def sizes(x: Tensor) -> Tensor:
        for _ in range(4):
            x = resized(x)
        return x

    assert not torchrecorder.record(sizes, torch.ones(1, 1, 32)).varying_sizes


def test_outputs_of_a_loop_are_one_box() -> None:
    """As its inputs are, with the first and the last size; those of one operation are apart."""
    layer = nn.Linear(4, 4)

    def each(parts: list[Tensor]) -> list[Tensor]:
        return [layer(part).relu() for part in parts]

    recording = torchrecorder.record(each, ([torch.ones(rows, 4) for rows in range(2, 8)],))
    for depth in (0, None):
        shapes = torchrecorder.figure(recording, depth=depth).shapes
        (box,) = (shape.label for shape in shapes if "output" in shape.label[0].text)
        assert [line.text for line in box] == ["output 0 … 5  ×6", "2×4 … 7×4"]
    recording = torchrecorder.record(lambda x: x.split([1, 2, 3, 1, 1]), torch.ones(8, 3))
    view = view_of(recording)
    assert sum(box.startswith("out:") for box in view.boxes) == 5
