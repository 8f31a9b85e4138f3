"""Versions of small models: what was changed is listed in both directions, and nothing else is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.comparison.test_overlay import laid
from torchrecorder import Recorder, compare, record
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.recording import Recording
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

X = torch.ones(2, 8)

MIRRORED = {"added": "removed", "removed": "added"}


class Chain(nn.Module):
    """Calls its modules by name, with a function after each call."""

    def __init__(
        self, order: str = "", then: Callable[[Tensor], Tensor] = torch.relu, **parts: nn.Module
    ) -> None:
        super().__init__()
        self.order, self.then = order.split() or list(parts), then
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        for name in self.order:
            x = self.then(self.get_submodule(name)(x))
        return x


def linear(width: int = 8) -> nn.Linear:
    return nn.Linear(8, width)


def told(before: Recording, after: Recording) -> list[str]:
    """The lines about differences; as many and about the same kinds the other way round."""
    there, back = compare(before, after), compare(after, before)
    kinds = Counter(change.kind.value for change in there.changes)
    turned = Counter(MIRRORED.get(change.kind.value, change.kind.value) for change in back.changes)
    assert kinds == turned
    lines = there.text().splitlines()[1:]
    return [" ".join(line.split()) for line in lines if not line.startswith("  total")]


def both(before: nn.Module, after: nn.Module) -> list[str]:
    return told(record(before, X), record(after, X))


def drawn(before: Recording, after: Recording, path: Path) -> str:
    return compare(before, after).render(path / "both.dot").read_text()


def test_a_layer_that_became_a_sequence() -> None:
    """Its operation and weights are listed as removed, and as added the other way round."""
    after = Chain(fc=nn.Sequential(nn.Dropout(0.0), linear(8)))
    found = both(Chain(fc=nn.Linear(8, 8, bias=False)), after)
    assert "replaced fc Linear → Sequential" in found
    assert "removed fc: linear" in found and "removed fc.weight 8×8 float32" in found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x.softmax(-1), lambda x: F.softmax(x, dim=-1)),
        (lambda x: x.relu(), lambda x: F.relu(x)),
        (lambda x: torch.matmul(x, x.t()), lambda x: x @ x.t()),
        (lambda x: torch.add(x, 1), lambda x: x + 1),
    ],
)
def test_one_function_called_in_two_ways(
    one: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor]
) -> None:
    """A method and a function of PyTorch with one name are no difference."""
    assert both(Chain(a=linear(), then=one), Chain(a=linear(), then=other)) == []


def test_arguments_of_a_function_called_in_two_ways() -> None:
    """Those that only one call has count, except private ones and those that are not set."""
    def summed(then: Callable[[Tensor], Tensor]) -> Recording:
        return record(Chain(a=linear(), then=then), X)

    one, other = summed(lambda x: x.sum()), summed(lambda x: torch.sum(x, 1))
    assert told(one, other)[0] == "changed sum dim: default → 1"
    assert told(other, one)[0] == "changed sum dim: 1 → default"


def test_functions_of_one_name_that_are_not_the_same() -> None:
    """The text says where each is from."""
    def run(qualname: str) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            run.op("norm", run.input("x"))
        made = run.recording()
        ops = {name: op.replace(qualname=qualname) for name, op in made.ops.items()}
        return replace(made, ops=MappingProxyType(ops))

    assert told(run("torch.norm"), run("mine.norm")) == ["replaced norm torch.norm → mine.norm"]
    assert told(run("torch.norm"), run("torch.Tensor.norm")) == []


def test_operations_in_another_order() -> None:
    """They do the same with the same tensors: only their reader differs."""
    one = Chain(a=linear(), then=lambda x: x.exp() - x.sin().neg())
    other = Chain(a=linear(), then=lambda x: x.sin().neg() - x.exp())
    assert both(one, other) == [
        "rewired sub self: reads neg, not exp", "rewired sub other: reads exp, not neg"
    ]


def test_a_module_with_another_name_beside_a_new_one() -> None:
    """In each of two blocks, the one with the weights of the block is the former one."""
    def block(gated: bool) -> nn.Module:
        more = {"gate": nn.Linear(8, 8)} if gated else {}
        return Chain(**more, **{"wi_0" if gated else "wi": linear()}, act=nn.ReLU())

    found = both(Chain(a=block(False), b=block(False)), Chain(a=block(True), b=block(True)))
    renamed = [line for line in found if line.startswith("renamed")]
    assert all(line.count("a.") != 1 for line in renamed)


def test_an_attribute_of_another_class_in_another_place() -> None:
    """It has its name: replaced and rewired, not removed and added."""
    before = Chain("norm part", norm=nn.LayerNorm(8), part=nn.GELU())
    after = Chain("part norm", norm=nn.LayerNorm(8), part=nn.ReLU())
    assert "replaced part GELU → ReLU" in both(before, after)


def test_modules_that_are_called_from_elsewhere() -> None:
    """A traced model calls inner modules itself: they are no other modules, and what was around
    them is removed without them."""
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 8))
    traced = torch.fx.symbolic_trace(model)
    found = told(record(model, X), record(traced, X))
    assert "removed 0 (Sequential) around 2 ops" in found
    assert not any(line.startswith(("renamed", "added 0", "rewired")) for line in found)


def test_a_container_of_which_a_part_is_elsewhere() -> None:
    """Only what is removed with it counts."""
    inner = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8))
    before = nn.Sequential(inner, nn.ReLU())
    found = both(before, nn.Sequential(nn.ReLU(), nn.Linear(8, 8)))
    assert "removed 0 (Sequential) 1 of 2 ops" in found


def test_a_module_in_a_region_keeps_its_name() -> None:
    """The region is added around what was there."""
    def run(mixed: bool) -> Recording:
        model = nn.Sequential(linear(), nn.ReLU())
        with Recorder(model) as recorder:
            with torch.autocast("cpu", enabled=mixed):
                model(X)
        return recorder.recording

    found = told(run(False), run(True))
    assert "added autocast (cpu bfloat16) around Sequential" in found
    assert not any("renamed" in line for line in found)


def test_fewer_results_than_before() -> None:
    """Each is named, also where a new layer gives it."""
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = linear(), linear()

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            x = self.a(x)
            return x, self.b(x)

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.head = Encoder(), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.encoder(x)[1])

    found = told(record(Encoder(), X), record(Classifier(), X))
    assert "rewired the result is head, not a" in found
    assert "rewired the result is nothing, not b" in found


def test_hyperparameters_that_a_run_does_not_have() -> None:
    """An exported program has no text about them; that is no difference."""

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = linear()
            self.act = nn.Sigmoid()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(self.fc(x))

    model = Layer().eval()
    assert told(record(model, X), record(torch.export.export(model, (X,)), X)) == []


def test_more_inputs_of_new_layers() -> None:
    """What reads more tensors because more layers compute them follows; what reads one that was
    there does not."""
    def dense(layers: int, skip: bool = False) -> Recording:
        parts = nn.ModuleList(linear() for _ in range(layers))

        def forward(x: Tensor) -> Tensor:
            return torch.cat([*(part(x) for part in parts), *([x] if skip else [])])

        return record(forward, X)

    follows = [change.follows for change in compare(dense(2), dense(3)).changes
               if change.kind is ChangeKind.REWIRED]
    assert follows == [True]
    follows = [change.follows for change in compare(dense(2), dense(2, True)).changes
               if change.kind is ChangeKind.REWIRED]
    assert follows == [False]


def test_the_last_operation_of_a_module(tmp_path: Path) -> None:
    """A removed one is drawn also where another one computes the result, with an arrow to who read
    it; it is not unused."""
    def model(then: Callable[[Tensor], Tensor]) -> Recording:
        return record(nn.Sequential(Chain(a=linear(), then=then), linear()), X)

    figure = drawn(model(torch.relu), model(lambda x: x.exp().log()), tmp_path)
    assert "relu" in figure and "unused" not in figure


def test_what_is_removed_is_not_unused() -> None:
    """Something else is read in its place, also in pages, which draw no arrow from it."""
    both = laid(
        record(Chain(a=linear(), then=torch.relu), X),
        record(Chain(a=linear(), then=lambda x: x), X),
    ).recording
    view = make_view(both, ViewOptions(depth=9))
    assert any(box.startswith("old_") for box in view.boxes)
    assert unread(view) == {}


def test_modules_at_one_path_that_are_others() -> None:
    """Modules that are called in both runs correspond if their calls do, not by their paths."""
    before = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 8, bias=False))
    after = nn.Sequential(nn.Linear(6, 8, bias=False), nn.LayerNorm(8), nn.Linear(8, 6))
    one, other = record(before, X), record(after, X[:, :6])
    matching = compare(one, other).matching
    called = {one.scopes[old].module: other.scopes[new].module
              for old, new in matching.scopes.items()}
    assert len(matching.modules) == 3 and matching.modules == called
    assert not any("running_mean" in line for line in told(one, other))


def test_one_long_name_is_not_several() -> None:
    """A name beyond the length of a range has no number of others."""
    name = "a_module_with_a_name_longer_than_a_range_of_names"
    found = both(Chain(a=linear()), Chain(a=linear(), **{name: nn.Linear(8, 8)}))
    assert f"added {name} (Linear) 1 op, 2 parameters" in found
