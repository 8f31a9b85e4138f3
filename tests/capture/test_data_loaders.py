"""Data loaders: their batches are regions, wherever the operations of a batch run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from torchrecorder import Recorder
from torchrecorder.events import ScopeKind
from torchrecorder.graph.nodes import Scope
from torchrecorder.recording import Recording

ROWS = torch.arange(12.0).reshape(6, 2)


class Doubled(Dataset):
    """Computes each sample in a function of its own; sample *broken* raises."""

    def __init__(self, broken: int = -1) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, number: int) -> torch.Tensor:
        if number == self.broken:
            raise OSError("no such image")
        return self.read(number) * 2

    def read(self, number: int) -> torch.Tensor:
        """One row, shifted."""
        return ROWS[number] + 1


class Stream(IterableDataset):
    """A generator of samples."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for row in ROWS:
            yield row * 3


def recorded(loader: DataLoader) -> tuple[Recording, list[torch.Tensor]]:
    """A pass of a linear layer over all batches of *loader*; and the batches."""
    model, batches = nn.Linear(2, 1), list[torch.Tensor]()
    with Recorder(model) as recorder:
        for batch in loader:
            model(batch[0] if isinstance(batch, list) else batch)
            batches.append(batch)
    return recorder.recording, batches


def regions(recording: Recording) -> dict[str, list[str]]:
    """The names of the operations directly in each region of a data loader, in order."""
    return {
        f"{scope.name} {number}": [
            op.name for op in recording.ops.values() if op.scope == scope.id
        ]
        for number, scope in enumerate(recording.scopes.values())
        if scope.kind is ScopeKind.DATA_LOADER
    }


def made_by(recording: Recording) -> list[ScopeKind | None]:
    """The kind of scope in which the input of each call of the model was made."""
    found: list[ScopeKind | None] = []
    for scope in recording.scopes.values():
        if scope.kind is ScopeKind.MODULE:
            producer = recording.values[scope.inputs[0].value].producer
            home = recording.ops[producer].scope if producer is not None else None
            found.append(recording.scopes[home].kind if home is not None else None)
    return found


def test_each_batch_is_a_region() -> None:
    """Indexing and stacking are in it, as is the shuffling that a batch begins with."""
    recording, _ = recorded(DataLoader(TensorDataset(ROWS), batch_size=3, shuffle=True))
    start, first, second, end = regions(recording).values()
    assert start[:2] == ["empty", "random_"]
    assert first[:2] == ["empty", "random_"] and "randperm" in first
    assert first[-4:] == second == ["getitem"] * 3 + ["stack"]
    assert "stack" not in end
    assert [name.split()[0] for name in regions(recording)] == (
        ["DataLoader.__iter__"] + ["DataLoader"] * 3
    )
    assert made_by(recording) == [ScopeKind.DATA_LOADER] * 2


@pytest.mark.parametrize("dataset", [Doubled(), Stream()], ids=["map", "iterable"])
def test_the_code_of_a_dataset_runs_in_the_region(dataset: Dataset) -> None:
    """Also that of a generator; a line of the program is known for each operation."""
    recording, _ = recorded(DataLoader(dataset, batch_size=3))
    assert made_by(recording) == [ScopeKind.DATA_LOADER] * 2
    muls = [op for op in recording.ops.values() if op.name == "mul"]
    assert len(muls) == len(ROWS)
    for op in muls:
        assert op.scope is not None and op.source is not None
        assert recording.scopes[op.scope].kind is ScopeKind.DATA_LOADER
        assert op.source.function in ("__getitem__", "__iter__")


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        (torch.no_grad, ScopeKind.NO_GRAD),
        (torch.inference_mode, ScopeKind.INFERENCE_MODE),
        (lambda: torch.autocast("cpu"), ScopeKind.AUTOCAST),
    ],
)
def test_an_evaluation_is_one_region_with_its_batches(
    mode: Callable[[], AbstractContextManager[object]], kind: ScopeKind
) -> None:
    """A loader switches no mode itself: its batches are in that of the program."""
    model = nn.Linear(2, 1)
    with Recorder(model) as recorder:
        with mode():
            for batch in DataLoader(Doubled(), batch_size=3):
                model(batch)
        for batch in DataLoader(Doubled(), batch_size=3):
            model(batch)
    recording = recorder.recording
    outer = [scope for scope in recording.scopes.values() if scope.parent is None]
    first, rest = outer[0], [scope.kind for scope in outer[1:]]
    inside = [scope.kind for scope in recording.children[first.id] if isinstance(scope, Scope)]
    assert first.kind is kind and kind not in rest
    batch = [ScopeKind.DATA_LOADER, ScopeKind.MODULE]
    assert inside[-4:] == batch * 2 and rest[-4:] == batch * 2


def test_a_mode_of_a_collate_function_does_not_end_the_region() -> None:
    """All of a batch is in one."""

    def collate(rows: list[torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            batch = torch.stack(rows)
        return batch + 1

    recording, _ = recorded(DataLoader(Doubled(), batch_size=3, collate_fn=collate))
    assert [names[-2:] for names in regions(recording).values()][1:] == [["stack", "add"]] * 2
    assert ScopeKind.NO_GRAD not in {scope.kind for scope in recording.scopes.values()}


def test_a_collate_function_runs_in_the_region() -> None:
    """It makes the batch."""
    loader = DataLoader(Doubled(), batch_size=2, collate_fn=lambda rows: torch.cat(rows).view(2, 2))
    recording, _ = recorded(loader)
    assert [names[-2:] for names in regions(recording).values()][1:] == [["cat", "view"]] * 3
    assert made_by(recording) == [ScopeKind.DATA_LOADER] * 3


def test_a_dataset_that_raises_keeps_its_exception() -> None:
    """The program sees it as it is; the recording says in which region it was."""
    model = nn.Linear(2, 1)
    recorder = Recorder(model)
    with pytest.raises(OSError, match="no such image") as raised, recorder:
        for batch in DataLoader(Doubled(broken=4), batch_size=3):
            model(batch)
    assert "while running data loader" in raised.value.__notes__[0]
    recording = recorder.recording
    failure = recording.run.failure
    assert failure is not None and failure.error == "OSError" and failure.scope is not None
    assert recording.scopes[failure.scope].kind is ScopeKind.DATA_LOADER
    assert [scope.failed for scope in recording.scopes.values()] == [False] * 3 + [True]


def test_batches_of_worker_processes_come_from_outside() -> None:
    """They are inputs of the model, without an operation that makes them."""
    recording, batches = recorded(DataLoader(Doubled(), batch_size=3, num_workers=1))
    assert [tuple(batch.shape) for batch in batches] == [(3, 2), (3, 2)]
    assert made_by(recording) == [None, None]
    names = {op.name for op in recording.ops.values() if op.scope not in regions(recording)}
    assert "write in place" not in names
    values = [scope.inputs[0].value for scope in recording.scopes.values()
              if scope.kind is ScopeKind.MODULE]
    assert [recording.values[value].shape for value in values] == [(3, 2), (3, 2)]


def test_the_program_gets_the_batches_that_it_would_get() -> None:
    """The same numbers in the same order, with and without a recorder."""
    loader = DataLoader(TensorDataset(ROWS), batch_size=2, shuffle=True)
    torch.manual_seed(3)
    plain = [batch[0] for batch in loader]
    torch.manual_seed(3)
    model = nn.Linear(2, 1)
    torch.manual_seed(3)
    with Recorder(model):
        seen = [batch[0] for batch in loader]
    assert len(plain) == len(seen) == 3
    assert all(torch.equal(one, other) for one, other in zip(plain, seen))
