"""What is overwritten without being read has no arrow; what calls read again and again has one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.graph.structural_hash import structures
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.unread_arguments import overwritten
from torchrecorder.views.view import BoxKind, View


class Holds(nn.Module):
    """Keeps a tensor that is no buffer, and does something with it in each call."""

    def __init__(self, use: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.held = [torch.zeros(4)]
        self.use = use

    def forward(self, x: Tensor) -> Tensor:
        """Use the tensor, then read it."""
        self.use(self.held[0], x)
        result: Tensor = self.linear(self.held[0])
        return result


class Around(nn.Module):
    """A module with such a module in it."""

    def __init__(self, use: Callable[[Tensor, Tensor], object]) -> None:
        super().__init__()
        self.inner = Holds(use)

    def forward(self, x: Tensor) -> Tensor:
        """Its activation."""
        result: Tensor = self.inner(x).relu()
        return result


def called(use: Callable[[Tensor, Tensor], object], times: int = 5) -> Recording:
    """So many calls of the module."""
    model = Around(use)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(times):
            model(torch.rand(4)).sum()
    return recorder.recording


def constants(view: View) -> list[str | None]:
    """The clusters in which constants stand."""
    return [box.cluster for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]


def split(held: Tensor, x: Tensor) -> None:
    """Write both halves."""
    torch.split_with_sizes_copy(x, [2, 2], out=[held[:2], held[2:]])


REPLACING = {
    "copy": lambda held, x: held.copy_(x),
    "out": lambda held, x: torch.mul(x, 2, out=held),
    "out of several": lambda held, x: torch.split_with_sizes_copy(x, [4], out=[held]),
    "a view": lambda held, x: held.view(2, 2).copy_(x.view(2, 2)),
    "a view of a view": lambda held, x: torch.exp(x.view(2, 2), out=held.view(4).view(2, 2)),
}

READING = {
    "added": lambda held, x: held.add_(x),
    "read too": lambda held, x: torch.add(held, x, out=held),
    "a part": lambda held, x: held[:2].copy_(x[:2]),
    "halves": split,
    "from nothing": lambda held, x: torch.rand(4, out=held),
    "with nothing": lambda held, x: held.fill_(1.0),
}


@pytest.mark.parametrize("use", REPLACING.values(), ids=REPLACING)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_is_replaced_is_no_input(use: Callable[[Tensor, Tensor], object], depth: int) -> None:
    """Nothing leads from what was there before: calls are independent of each other."""
    view = make_view(called(use), ViewOptions(depth=depth))
    view.check()
    assert constants(view) == []
    (fold,) = (cluster for cluster in view.clusters.values() if cluster.count == 5)
    assert fold.parent is None
    assert not fold.carried


@pytest.mark.parametrize("use", READING.values(), ids=READING)
@pytest.mark.parametrize("depth", [1, 2])
def test_what_is_kept_begins_outside_of_the_calls(
    use: Callable[[Tensor, Tensor], object], depth: int
) -> None:
    """Each call reads what the one before left; the first what was there before all of them."""
    view = make_view(called(use), ViewOptions(depth=depth))
    view.check()
    assert constants(view) == [None]
    (fold,) = (cluster for cluster in view.clusters.values() if cluster.count == 5)
    assert fold.carried


def test_one_call_holds_its_tensor() -> None:
    """Where no other call reads what a closed module has written, its tensor is not drawn."""
    recording = called(READING["added"], times=1)
    assert constants(make_view(recording, ViewOptions(depth=1))) == []
    (cluster,) = constants(make_view(recording, ViewOptions(depth=2)))
    assert cluster is not None and recording.scopes[cluster].path == "inner"  # type: ignore[index]


def test_views_that_are_read_too_stay() -> None:
    """Only those that nothing but an overwriting reads are left out."""

    def use(held: Tensor, x: Tensor) -> Tensor:
        part = held.view(2, 2)
        part.copy_(x.view(2, 2))
        return part.exp()

    def shown(held: Tensor, x: Tensor) -> Tensor:
        part = held.view(2, 2)
        before = part.sin()
        part.copy_(x.view(2, 2))
        return before

    left_out = [overwritten(called(each, times=1)) for each in (use, shown)]
    assert [len(found.views) for found in left_out] == [1, 0]
    assert [len(found.inputs) for found in left_out] == [1, 1]


def test_all_is_shown_on_request() -> None:
    """The view that is overwritten, and what it is a view of."""
    recording = called(lambda held, x: held.view(2, 2).copy_(x.view(2, 2)), times=1)
    (hidden,) = overwritten(recording).views
    for queries in (False, True):
        view = make_view(recording, ViewOptions(depth=2, queries=queries))
        assert (hidden in view.boxes, len(constants(view))) == (queries, queries)


def test_what_is_computed_stays() -> None:
    """Also if it is written to memory that is replaced before anything reads it."""

    def use(held: Tensor, x: Tensor) -> None:
        held.add_(x)
        held.copy_(x)

    recording = called(use, times=1)
    assert overwritten(recording).views == frozenset()
    view = make_view(recording, ViewOptions(depth=2))
    names = [recording.ops[box].name for box in view.boxes if box in recording.ops]
    assert "add_" in names and "copy_" in names


def test_an_argument_called_out_that_is_only_read() -> None:
    """It is an input like all others."""
    with torch.library._scoped_library("torchrecorder_tests", "DEF") as library:
        library.define("scale(Tensor(a!) x, Tensor out) -> ()")
        library.impl("scale", lambda x, out: x.mul_(out) and None, "CompositeExplicitAutograd")
        with torchrecorder.Recorder() as recorder:
            torch.ops.torchrecorder_tests.scale(torch.ones(1), torch.ones(1))
    (op,) = (op for op in recorder.recording.ops.values() if op.name == "scale")
    assert [slot.name for slot in op.inputs] == ["x", "out"] and op.writes
    assert not overwritten(recorder.recording).inputs


class Sparse(nn.Module):
    """Holds a tensor without memory of its own, and is given another."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [torch.eye(2).to_sparse()]

    def forward(self, x: Tensor) -> Tensor:
        """Add them."""
        return x + self.held[0]


class AroundSparse(nn.Module):
    """Makes what such a module is given, and calls it twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Sparse()

    def forward(self, x: Tensor) -> Tensor:
        """Dense again."""
        result: Tensor = self.inner(self.inner(x.to_sparse())).to_dense()
        return result


def test_tensors_without_memory_share_none() -> None:
    """A constant in a closed module is not drawn because others have no memory either."""
    recording = torchrecorder.record(AroundSparse(), torch.ones(2, 2))
    assert {recording.values[slot.value].storage for op in recording.ops.values()
            for slot in op.inputs if op.name == "add"} == {-1}
    assert constants(make_view(recording, ViewOptions(depth=1))) == []


class Shard(nn.Module):
    """Reads its weight through another tensor, which the first call meets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.held = [self.weight.data]
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Its product with the input."""
        result: Tensor = self.act(x * self.held[0])
        return result


def test_the_first_use_of_other_memory_of_a_weight() -> None:
    """Rounds fold although only the first of them has an op for it."""
    model = Shard()
    with torchrecorder.Recorder(model) as recorder, torch.no_grad():
        for _ in range(3):
            model(torch.rand(4)).sum()
            model.held[0].mul_(0.9)
    recording = recorder.recording
    assert [op.name for op in recording.ops.values()].count("alias") == 1
    view = make_view(recording, ViewOptions(depth=1))
    assert [cluster.count for cluster in view.clusters.values()].count(3) == 1


class Picks(nn.Module):
    """Returns one of two results, as a tensor that unseen code makes of it."""

    def __init__(self, which: int) -> None:
        super().__init__()
        self.which = which

    def forward(self, x: Tensor) -> Tensor:
        """The exponential or the sine, doubled."""
        found = x.exp(), x.sin()
        return nn.Parameter(found[self.which], requires_grad=False) * 2


def test_of_which_tensor_something_is_another_use() -> None:
    """Calls that differ only in this have different structures."""
    models = [Picks(which) for which in (0, 0, 1)]
    with torchrecorder.Recorder() as recorder, torch.no_grad():
        for model in models:
            model(torch.rand(4))
    found = structures(recorder.recording)
    first, second, third = (found[scope.id] for scope in recorder.recording.scopes.values()
                            if scope.cls == "Picks")
    assert first == second != third


def test_weights_are_versions_of_one_tensor() -> None:
    """What is copied into a weight has an arrow from its former value."""
    model = nn.Linear(2, 2)
    with torchrecorder.Recorder(model) as recorder, torch.no_grad():
        model.weight.copy_(torch.ones(2, 2))
        model(torch.ones(2))
    assert not overwritten(recorder.recording).inputs


def test_a_result_of_the_run_stays() -> None:
    """A view that the model returned is drawn, although the program overwrites it then."""
    flatten = nn.Flatten(0)
    with torchrecorder.Recorder(flatten) as recorder:
        result = flatten(torch.ones(2, 2))
        result.copy_(torch.zeros(4))
    recording = recorder.recording
    assert len(overwritten(recording).inputs) == 1 and not overwritten(recording).views
    (module,) = recording.scopes
    view = make_view(recording, ViewOptions())
    assert module in {item for box in view.boxes.values() for item in (box.id, box.cluster)}


def _read(function: Callable[[Tensor], object], queries: bool = False) -> set[str]:
    """The operations with an arrow from ``sin``."""
    def called(x: Tensor) -> object:
        return function(x.sin())

    recording = torchrecorder.record(called, torch.ones(2, 3))
    view = make_view(recording, ViewOptions(depth="ops", fold=False, queries=queries))
    names = {box: recording.ops[box].name for box in view.boxes if box in recording.ops}
    return {names[arrow.head] for arrow in view.arrows
            if names.get(arrow.tail) == "sin" and arrow.head in names}


@pytest.mark.parametrize(
    "made",
    [
        torch.randn_like, torch.zeros_like, lambda y: torch.empty_like(input=y),
        lambda y: torch.full_like(y, 2.0), lambda y: y.new_zeros(3), lambda y: y.new_tensor([1.0]),
        lambda y: torch.ones(3).expand_as(y), lambda y: torch.ones(6).view_as(y),
        lambda y: torch.ones(3, dtype=torch.int64).type_as(y),
    ],
)
def test_a_tensor_of_which_only_the_form_is_read(made: Callable[[Tensor], Tensor]) -> None:
    """It has no arrow, as in ``torch.randn(x.shape)``, but the recording has the input."""
    assert _read(lambda y: made(y).sum() + y.cos().sum()) == {"cos"}
    assert len(_read(lambda y: made(y).sum() + y.cos().sum(), queries=True)) == 2


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda y: torch.zeros_like(y).sum(), {"zeros_like"}),  # nothing else reads it
        (lambda y: torch.zeros_like(y).sum() + y.new_ones(2).sum(), {"zeros_like", "new_ones"}),
        (lambda y: (y, torch.zeros_like(y)), set()),  # it is a result
        (lambda y: torch.full_like(y.cos(), y.sum()), {"cos", "sum"}),
        (lambda y: y.expand_as(torch.ones(4, 2, 3)) + y, {"expand_as", "add"}),
    ],
)
def test_contents_that_are_read_have_an_arrow(
    function: Callable[[Tensor], object], expected: set[str]
) -> None:
    """And so has what nothing else reads: it is not unused."""
    assert _read(function) == expected


def test_the_form_of_what_no_instrument_knows() -> None:
    """There is no arrow to hide."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("add", run.op("zeros_like"), run.input("x"))
    view = make_view(run.recording(), ViewOptions(depth=9))
    assert [arrow.slot for arrow in view.arrows if arrow.head == "o1"] == ["0", "1"]
