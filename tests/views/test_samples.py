"""Samples that data loaders read from a dataset in memory are one box."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset

from tests.views.test_data_loaders import Net, counts
from torchrecorder import Recorder
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View


class Samples(Dataset[dict[str, torch.Tensor]]):
    """Samples in memory, each with an input and a label."""

    def __init__(self, number: int) -> None:
        self.samples = [{"x": torch.rand(4), "label": torch.tensor(i % 3)} for i in range(number)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.samples[index]


@pytest.fixture(name="epochs", scope="module")
def epochs_of_samples() -> Recording:
    return two_passes(Samples(12), 4)


def two_passes(
    samples: Dataset[dict[str, torch.Tensor]], size: int, shuffle: bool = True
) -> Recording:
    """Two passes of training over the same samples, each in an order of its own."""
    torch.manual_seed(0)
    net, loader = Net(), DataLoader(samples, batch_size=size, shuffle=shuffle)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with Recorder(net) as recorder:
        for _ in range(2):
            for batch in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(net(batch["x"]), batch["label"]).backward()
                optimizer.step()
    return recorder.recording


@pytest.mark.parametrize("depth", [None, 1, "ops"])
def test_the_samples_of_a_dataset_are_one_box_for_each_of_their_parts(
    epochs: Recording, depth: int | str | None
) -> None:
    """Whichever batches they are in, so that the steps of all epochs fold."""
    view = make_view(epochs, ViewOptions(depth=depth))
    view.check()
    samples = {box.names: box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT}
    assert samples.keys() == {("dataset.samples.*.x",), ("dataset.samples.*.label",)}
    assert all(box.count == len(box.members) == 12 for box in samples.values())
    readers = [{arrow.head for arrow in view.arrows if arrow.tail == box.id}
               for box in samples.values()]
    if depth != "ops":  # what shuffles is between the epochs there
        assert counts(view)[0] == 6 and all(len(heads) == 1 for heads in readers)
    every = make_view(epochs, ViewOptions(depth=depth, fold=False))
    assert sum(box.kind is BoxKind.CONSTANT for box in every.boxes.values()) == 24


@pytest.mark.parametrize("number", [5, 6])
def test_a_few_samples_keep_their_names(number: int) -> None:
    """And a tensor without a name, which is in no dataset, has none."""
    dataset, offset = Samples(number), [torch.ones(4)]
    with Recorder() as recorder:
        for batch in DataLoader(dataset, batch_size=number):
            (lambda x: x + [*offset].pop())(batch["x"])
    view = make_view(recorder.recording, ViewOptions(depth=1))
    found = [box.count for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert sorted(found) == ([1] * 11 if number < 6 else [1, 6, 6])


def constants(view: View) -> dict[tuple[str, ...], int]:
    """The names of the constants, and how many tensors each box is."""
    return {box.names: box.count for box in view.boxes.values() if box.kind is BoxKind.CONSTANT}


def test_samples_of_datasets_in_a_dataset_are_one_box() -> None:
    """As in a ``ConcatDataset``: they are deep inside, and have a name all the same."""
    view = make_view(two_passes(ConcatDataset([Samples(6), Samples(6)]), 4))
    parts = ("x", "label")
    assert constants(view) == {(f"dataset.datasets.*.samples.*.{part}",): 12 for part in parts}
    assert counts(view) == [6]


class Columns(Dataset[dict[str, torch.Tensor]]):
    """One tensor for each part of all samples."""

    def __init__(self) -> None:
        self.x, self.label = torch.rand(6, 4), torch.arange(6) % 3

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"x": self.x[index], "label": self.label[index]}


def test_batches_of_several_datasets_fold() -> None:
    """Some are of the first dataset, some of the second, some of both."""
    view = make_view(two_passes(ConcatDataset([Columns(), Columns()]), 4, shuffle=False))
    assert constants(view) == {(f"dataset.datasets.*.{part}",): 2 for part in ("x", "label")}
    assert counts(view) == [6]


def test_the_samples_of_other_loops_stay_apart() -> None:
    """Training and validation have data sets of their own, with equal names."""
    net, train, valid = Net(), DataLoader(Samples(12), 4, shuffle=True), DataLoader(Samples(12), 4)
    with Recorder(net) as recorder:
        for _ in range(2):
            for batch in train:
                net(batch["x"]).sum().backward()
            with torch.no_grad():
                for batch in valid:
                    net(batch["x"])
    view = make_view(recorder.recording)
    view.check()
    constants = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert [box.count for box in constants if box.names == ("dataset.samples.*.x",)] == [12, 12]


def test_a_page_of_epochs_has_the_samples_once(epochs: Recording) -> None:
    """It draws all that folds, and each sibling."""
    whole = make_view(epochs).unfolded()
    constants = [box for box in whole.view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert sorted(len(box.members) for box in constants) == [12, 12]
    assert {*map(len, whole.repeats)} == {6}


class Remembers(nn.Module):
    """Adds some of the tensors that it holds to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.rows = nn.Linear(4, 4), [torch.rand(4) for _ in range(14)]

    def forward(self, x: torch.Tensor, places: Iterable[int]) -> torch.Tensor:
        return self.fc(x + torch.stack([self.rows[place] for place in places]).mean(0))


def test_a_tensor_that_folds_in_a_page_is_in_no_other_group() -> None:
    """The seven that one call reads may be one box, or those at one place of all calls."""
    net, x = Remembers(), torch.ones(4)
    with Recorder(net) as recorder:
        for start in (0, 7, 0, 7):
            x = net(x, range(start, start + 7))
    whole = make_view(recorder.recording).unfolded()
    repeats = [item for group in whole.repeats for item in group]
    assert {*repeats} <= {*whole.view.boxes, *whole.view.clusters}
    assert sum(whole.view.recording.values.keys() >= {*group} for group in whole.repeats) == 7
