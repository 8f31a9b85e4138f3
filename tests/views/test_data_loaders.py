"""Training loops over data loaders: their figures are as small as one step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from torchrecorder import Recorder, record
from torchrecorder.events import ScopeKind
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View

X, Y = torch.rand(20, 4), torch.randint(3, (20,))


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))  # type: ignore[no-any-return]


def as_it_comes(loader: Iterable[list[torch.Tensor]]) -> Iterator[list[torch.Tensor]]:
    """The batches of *loader*."""
    yield from loader


def one_ahead(loader: Iterable[list[torch.Tensor]]) -> Iterator[list[torch.Tensor]]:
    """The batches of *loader*; the next one is loaded before one is handed out."""
    batches = iter(loader)
    batch = next(batches)
    for following in batches:
        yield batch
        batch = following
    yield batch


def trained(size: int = 4, shuffle: bool = True, load=as_it_comes) -> Recording:
    """A pass of training over the data, in batches of *size*."""
    net, loss = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
    with Recorder(net) as recorder:
        for x, y in load(DataLoader(TensorDataset(X, Y), batch_size=size, shuffle=shuffle)):
            optimizer.zero_grad()
            loss(net(x), y).backward()
            optimizer.step()
    return recorder.recording


def loaders(view: View) -> list[str]:
    """The boxes and clusters of data loaders, by name."""
    scopes = view.recording.scopes
    return [scopes[item].name for item in (*view.boxes, *view.clusters)
            if item in scopes and scopes[item].kind is ScopeKind.DATA_LOADER]


def counts(view: View) -> list[int]:
    """How often each folded cluster stands for a repeat."""
    return [cluster.count for cluster in view.clusters.values() if cluster.count > 1]


@pytest.mark.parametrize("load", [as_it_comes, one_ahead])
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_steps_of_a_pass_fold(shuffle: bool, load) -> None:
    """With the first, which shuffles, and although batches are loaded one step ahead."""
    view = make_view(trained(shuffle=shuffle, load=load))
    assert counts(view) == [5]
    assert loaders(view) == ["DataLoader"]


def test_a_smaller_batch_at_the_end_is_a_step_of_its_own() -> None:
    """Sizes differ."""
    view = make_view(trained(size=8))
    assert counts(view) == [2] and loaders(view) == ["DataLoader"] * 2


def test_what_a_loader_does_for_no_batch_is_not_drawn() -> None:
    """It starts a pass and finds its end; with queries it is drawn."""
    recording = trained()
    assert loaders(make_view(recording, ViewOptions(fold=False))) == ["DataLoader"] * 5
    all_of_it = make_view(recording, ViewOptions(fold=False, queries=True))
    assert loaders(all_of_it) == ["DataLoader.__iter__"] + ["DataLoader"] * 6


def test_a_batch_opens_to_its_operations() -> None:
    """At the depth of operations, with the samples and what stacks them."""
    view = make_view(trained(shuffle=False), ViewOptions(depth="ops", fold=False))
    ops, scopes = view.recording.ops, view.recording.scopes
    names = [ops[box.id].name for box in view.boxes.values()
             if box.id in ops and box.cluster is not None
             and scopes[box.cluster].kind is ScopeKind.DATA_LOADER]
    assert names.count("getitem") == 40 and names.count("stack") == 10


def test_a_batch_that_nothing_reads_is_not_drawn() -> None:
    """A program may look at one and go on."""
    net = Net()
    with Recorder(net) as recorder:
        batches = iter(DataLoader(TensorDataset(X), batch_size=4))
        next(batches)
        net(next(batches)[0])
    view = make_view(recorder.recording)
    assert loaders(view) == ["DataLoader"]
    (box,) = [box for box in view.boxes if box in view.recording.scopes
              and view.recording.scopes[box].kind is ScopeKind.DATA_LOADER]
    assert any(arrow.tail == box for arrow in view.arrows)


class Embedded(TensorDataset):
    """Each sample goes through a model; so many of each go through the first one."""

    def __init__(self, models: nn.ModuleList, each: int) -> None:
        super().__init__(X)
        self.models = models
        self.each = each

    def __getitem__(self, number: int) -> torch.Tensor:
        model = self.models[number // self.each % len(self.models)]
        return model(X[0])  # type: ignore[no-any-return]


def embedded(*models: nn.Module) -> View:
    """A pass over two batches; each batch goes through the next of these *models*."""
    net, embed = Net(), nn.ModuleList(models)
    with torch.no_grad(), Recorder(nn.ModuleList([embed, net])) as recorder:
        for x in DataLoader(Embedded(embed, 10), batch_size=10):
            net(x)
    return make_view(recorder.recording, ViewOptions(max_boxes=500))


def test_a_dataset_that_runs_a_model_is_open() -> None:
    """A closed box of the program holds no module."""
    view = embedded(nn.Linear(4, 4))
    scopes = view.recording.scopes
    (opened,) = [item for item in view.clusters if item in scopes
                 and scopes[item].kind is ScopeKind.DATA_LOADER]
    assert 2 in counts(view)


def test_batches_of_different_models_do_not_fold() -> None:
    """Although they have equal shapes."""
    view = embedded(nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    assert len(loaders(view)) == 2


def _step(net: Net, batches: Iterator[list[torch.Tensor]]) -> torch.Tensor:
    """Load a batch, and use it."""
    x, y = next(batches)
    return nn.functional.cross_entropy(net(x), y)


def test_functions_that_load_a_batch_fold_with_the_first_that_shuffles() -> None:
    """What the first loads more is in no other batch."""
    net = Net()
    with Recorder(net) as recorder:
        batches = iter(DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True))
        for _ in range(5):
            _step(net, batches)
    view = make_view(recorder.recording, ViewOptions(functions=True))
    assert counts(view) == [5] and loaders(view) == ["DataLoader"]


def _fetched(batches: Iterator[list[torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch, and something that is computed besides."""
    (x,) = next(batches)
    return x, torch.rand(()).exp()


def functions_around_loaders(view: View) -> list[str]:
    """The functions around calls of data loaders, innermost first."""
    scopes = view.recording.scopes
    return [
        scopes[cluster].name
        for item, around in [
            *((box.id, box.cluster) for box in view.boxes.values()),
            *((cluster.id, cluster.parent) for cluster in view.clusters.values()),
        ]
        if item in scopes and scopes[item].kind is ScopeKind.DATA_LOADER
        for cluster in view.nesting.around(around)
        if cluster in scopes and scopes[cluster].kind is ScopeKind.FUNCTION
    ]


@pytest.mark.parametrize("between", [[], [nn.Identity()]])
def test_a_batch_is_in_the_functions_of_those_that_read_it(between: list[nn.Module]) -> None:
    """Not in the one that loads it for others, whether or not an identity passes it on."""
    net, batches = Net(), iter(DataLoader(TensorDataset(X), batch_size=4))

    def run() -> torch.Tensor:
        x, factor = _fetched(batches)
        return nn.Sequential(*between, net)(x) * factor

    view = make_view(record(run), ViewOptions(functions=True))
    assert functions_around_loaders(view) == ["run"]


class Feeder(nn.Module):
    """Loads a batch for those who call it."""

    def __init__(self) -> None:
        super().__init__()
        self.batches = iter(DataLoader(TensorDataset(X), batch_size=4))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        x, factor = _fetched(self.batches)
        return x, factor.sqrt()


def test_a_batch_of_a_module_is_in_the_function_that_loads_it() -> None:
    """What reads it is outside of the module, and in none of its functions."""
    feeder, net = Feeder(), Net()

    def run() -> torch.Tensor:
        x, factor = feeder()
        return net(x) * factor

    view = make_view(record(run), ViewOptions(functions=True, depth=9))
    assert functions_around_loaders(view) == ["_fetched", "run"]


def test_a_loader_that_fails_is_drawn() -> None:
    """Although it loads nothing; so is one that runs a module for nothing."""

    class Broken(TensorDataset):
        """The first sample is embedded, the second is missing."""

        def __getitem__(self, number: int) -> torch.Tensor:
            sample = X[number]
            if number:
                raise OSError("no such image")
            return net.body(sample)  # type: ignore[no-any-return]

    net = Net()
    recorder = Recorder(net)
    with pytest.raises(OSError, match="no such image"), recorder:
        batches = DataLoader(Broken(X), batch_size=1)
        list(batches)
    assert len(loaders(make_view(recorder.recording, ViewOptions(fold=False)))) == 2


@pytest.mark.parametrize("started_early", [True, False])
def test_a_batch_is_in_the_round_that_reads_it(started_early: bool) -> None:
    """Training and evaluation fold apart, although both begin with a batch. A recording may begin
    between a batch and its step."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = DataLoader(TensorDataset(X, Y), batch_size=4)
    recorder, stack = Recorder(net), ExitStack()
    with stack:
        if started_early:
            stack.enter_context(recorder)
        for number, (x, y) in enumerate(data):
            if not started_early and number == 0:
                stack.enter_context(recorder)
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in data:
                (net(x).argmax(1) == y).sum().item()
    view = make_view(recorder.recording)
    assert sorted(counts(view)) == ([5, 5] if started_early else [4, 5])
    scopes = view.recording.scopes
    for arrow in view.arrows:
        if arrow.tail in scopes and scopes[arrow.tail].kind is ScopeKind.DATA_LOADER:
            home = view.boxes[arrow.tail].cluster
            assert home in view.nesting.around(view.boxes[arrow.head].cluster)


def test_epochs_of_training_and_evaluation_fold() -> None:
    """Three loops: one of epochs, with one of steps and one of batches to evaluate."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True)
    with Recorder(net) as recorder:
        for _ in range(2):
            for x, y in data:
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                optimizer.step()
            with torch.no_grad():
                for x, _ in DataLoader(TensorDataset(X, Y), batch_size=10):
                    net(x).argmax(1).sum().item()
    view = make_view(recorder.recording)
    assert sorted(counts(view)) == [2, 2, 5] and loaders(view) == ["DataLoader"] * 2


def test_functions_in_a_call_that_loads_what_nothing_reads_are_not_drawn() -> None:
    """Nor is the call, however much it does: a batch that was loaded ahead, and never used."""
    def pad(rows: list[torch.Tensor]) -> torch.Tensor:
        padded = torch.zeros(len(rows), 20)
        for place, row in enumerate(rows):
            padded[place, : len(row)] = row
        return padded

    def collate(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([pad(rows), pad(rows[::-1])], 1)

    data = [torch.rand(4) for _ in range(30)]
    net = nn.Linear(40, 1)
    batches = iter(DataLoader(data, batch_size=15, collate_fn=collate))

    def run() -> torch.Tensor:
        batch = next(batches)
        next(batches)
        return net(batch)

    assert len(loaders(make_view(record(run)))) == 1
