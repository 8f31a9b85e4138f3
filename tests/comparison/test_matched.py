"""Which modules of two recordings correspond: by number, by what they are, or elsewhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn

import torchrecorder
from tests.comparison.test_compare import lines
from tests.stepped import events, stepped
from torchrecorder.build import build
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.match import match
from torchrecorder.events import ScopeKind
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _run(*names: str, container: str = "ModuleList", width: int = 4) -> Recording:
    """A chain of blocks of these classes, in a container that runs or in one that does not."""
    builder = Builder("Net")
    with builder.scope("Net"):
        x = builder.input("x", (2, width))
        with builder.scope("body", container) if container == "Sequential" else nullcontext():
            before = "" if container == "Sequential" else "body."
            for place, cls in enumerate(names):
                with builder.scope(f"{before}{place}", cls):
                    with builder.scope("norm", "LayerNorm"):
                        x = builder.op("layer_norm", x, shape=(2, width))
                    x = builder.op(cls.lower(), x, shape=(2, width))
    return builder.recording()


@pytest.mark.parametrize("container", ["Sequential", "ModuleList"])
def test_a_module_inserted_among_numbered_siblings(container: str) -> None:
    """It is added, and equal modules after it are renamed; it does not replace the module that had
    its number."""
    found = compare(
        _run("Block", "Block", "Block", container=container),
        _run("Block", "Adapter", "Block", "Block", container=container),
    )
    kinds = [(change.kind, change.where) for change in found.changes]
    assert (ChangeKind.ADDED, "body.1 (Adapter)") in kinds
    assert [where for kind, where in kinds if kind is ChangeKind.RENAMED] == ["body.2", "body.3"]
    assert {kind for kind, _ in kinds} == {
        ChangeKind.ADDED, ChangeKind.RENAMED, ChangeKind.REWIRED
    }


@pytest.mark.parametrize("width", [4, 8])
def test_another_class_in_the_same_place_is_replaced(width: int) -> None:
    """Where as many siblings match by number as in any other way, those with one number do, also if
    all shapes differ."""
    found = compare(_run("Block", "Block", "Block"), _run("Adapter", "Block", "Block", width=width))
    kinds = [(change.kind, change.where) for change in found.changes]
    assert (ChangeKind.REPLACED, "body.0") in kinds
    assert not {ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.RENAMED} & {k for k, _ in kinds}


def test_numbered_modules_in_another_order_are_the_same() -> None:
    """None is added or removed: one has another number, and both read something else."""
    kinds = {change.kind for change in compare(_run("A", "B"), _run("B", "A")).changes}
    assert kinds <= {ChangeKind.RENAMED, ChangeKind.REWIRED}


Parts = Sequence[tuple[str, "str | Parts"]]
"""Names of modules, each with its class, or with the modules in it."""


def _tree(parts: Parts) -> Recording:
    """Modules in modules, in a chain; Linear, Conv and Wide have a weight."""
    builder = Builder("Net")

    def run(x: str, parts: Parts) -> str:
        for name, inner in parts:
            with builder.scope(name, inner if isinstance(inner, str) else "Block"):
                if not isinstance(inner, str):
                    x = run(x, inner)
                elif inner in ("Linear", "Conv", "Wide"):
                    weight = builder.parameter("weight", (4, 4))
                    x = builder.op(inner.lower(), x, weight, shape=(2, 4))
                else:
                    x = builder.op(inner.lower(), x, shape=(2, 4))
        return x

    with builder.scope("Net"):
        run(builder.input("x", (2, 4)), parts)
    return builder.recording()


def _pairs(before: Parts, after: Parts) -> set[tuple[str, str]]:
    """The paths of the modules that correspond."""
    left, right = _tree(before), _tree(after)
    return {(left.scopes[one].path, right.scopes[other].path)
            for one, other in match(left, right).scopes.items()}


def test_a_block_that_moved_is_found_with_all_that_is_in_it() -> None:
    """The block first: a layer in it does not match the same layer elsewhere."""
    for block in ([("fc", "Linear"), ("act", "ReLU")], [("fc", "Linear"), ("out", "Linear")]):
        found = _pairs(
            [("one", block), ("last", "Tanh")],
            [("last", "Tanh"), ("new", [("a", "Linear"), ("b", [("c", "ReLU"), ("two", block)])])],
        )
        assert ("one", "new.b.two") in found
        assert {(f"one.{name}", f"new.b.two.{name}") for name, _ in block} <= found


def test_a_block_that_moved_is_the_same_with_an_operation_more() -> None:
    """It has the path that it had; the container around it ran before, and no longer does."""
    def run(container: bool, *ops: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.op("abs", builder.input("x"))
            with builder.scope("body", "Sequential") if container else nullcontext():
                with builder.scope("block" if container else "body.block", "Block"):
                    for name in ops:
                        x = builder.op(name, x)
                x = builder.op("relu", x) if container else x
            builder.op("exp", x)
        return builder.recording()

    found = lines(run(True, "sin", "cos"), run(False, "sin", "tan", "cos"))
    assert [line for line in found if line.startswith("added")] == ["added body.block: tan"]


def test_a_result_with_the_shape_of_another_one_is_still_the_same() -> None:
    """In a narrower block, the first activation has the shape that the second one had."""
    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.fc = nn.LayerNorm(2 * width), nn.Linear(2 * width, width)
            self.out = nn.Linear(width, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.fc(self.norm(x).relu())
            return self.out(hidden.relu())

    before, after = (torchrecorder.record(Block(width), torch.ones(1, 2 * width))
                     for width in (4, 2))
    for changes in (compare(before, after), compare(after, before)):
        kinds = {change.kind for change in changes.changes}
        assert kinds.isdisjoint({ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.REWIRED})


def test_steps_beside_modules_of_one_name_are_the_same() -> None:
    """Although each expert has other tokens: those of the second have the numbers of the third."""
    def run(counts: Sequence[int]) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for number, count in enumerate(counts):
                arguments = (("other", str(number)),)
                tokens = builder.op("eq", x, shape=(count, 2), arguments=arguments)
                with builder.scope(f"experts.{number}", "Expert"):
                    tokens = builder.op("relu", tokens, shape=(count, 2))
        return builder.recording()

    left, right = run([5, 3, 4]), run([9, 5, 3, 4, 6])
    assert {(left.scopes[a].name, right.scopes[b].name)
            for a, b in match(left, right).scopes.items()} >= {
        (f"experts.{number}", f"experts.{number}") for number in range(3)}


def test_equal_layers_in_other_blocks_are_no_match() -> None:
    """Two models have layers of one size, each with other layers around it. They match where the
    whole block is there, or if each model has only one of the name."""
    plain: Parts = [("first", "Tanh"), ("second", "Tanh")]
    one: Parts = [("conv", "Conv"), ("norm", "Linear"), ("act", "ReLU")]
    two: Parts = [("wide", "Wide"), ("norm", "Linear"), ("act", "ReLU")]
    before: Parts = [("one", one), ("two", one)]
    assert {old for old, _ in _pairs(before, [("three", two), ("four", two), *plain])} == {""}
    assert ("one.norm", "three.four.norm") in _pairs(before, [*plain, ("three", [("four", one)])])
    alone: Parts = [("one", one), ("two", [("conv", "Conv"), ("act", "ReLU")])]
    assert ("one.norm", "three.norm") in _pairs(alone, [*plain, ("three", two)])


def test_a_new_block_is_not_made_of_one_layer_of_each_block() -> None:
    """Both of its layers are there, but in two blocks: those of one block match."""
    end, new = ("last", "Tanh"), ("new", [("a", "Linear"), ("b", "Linear")])
    each: Parts = [("conv", "Conv"), ("fc", "Linear")]
    both: Parts = [("conv", "Conv"), ("fc", "Linear"), ("out", "Linear")]
    apart = _pairs([("one", each), ("two", each), end], [end, new])
    assert {there for _, there in apart}.isdisjoint({"new.a", "new.b"})
    assert {("one.fc", "new.a"), ("one.out", "new.b")} <= _pairs([("one", both), end], [end, new])


def test_a_layer_of_the_model_is_not_one_of_a_new_block() -> None:
    """Although all layers of the model are elsewhere: the block has another layer, too."""
    block: Parts = [("a", "Linear"), ("b", "Conv")]
    assert ("fc", "new.a") not in _pairs([("fc", "Linear"), ("last", "Tanh")], [("new", block)])
    assert ("fc", "new.a") in _pairs([("fc", "Linear"), ("last", "Tanh")], [("new", block[:1])])


def test_a_layer_beside_a_block_that_moved_is_no_layer_of_the_block() -> None:
    """The block comes first, and what is in it is taken."""
    block: Parts = [("fc", "Linear"), ("act", "ReLU")]
    found = _pairs(
        [("one", block), ("lone", "Linear"), ("last", "Tanh")],
        [("last", "Tanh"), ("new", [("one", block), ("deep", [("lone", "Linear")])])],
    )
    assert {("one.fc", "new.one.fc"), ("lone", "new.deep.lone")} <= found


class Guarded(nn.Module):
    """Runs an operation after a layer, without gradients if it is asked to."""

    def __init__(self, guards: bool) -> None:
        super().__init__()
        self.fc, self.guards = nn.Linear(4, 4), guards

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        with torch.no_grad() if self.guards else nullcontext():
            return x.exp()


def test_a_region_in_another_module_is_another_region() -> None:
    """It has no path: only modules are found elsewhere by where they are called."""
    runs = [
        torchrecorder.record(
            nn.Sequential(OrderedDict(first=Guarded(first), second=Guarded(not first))),
            torch.ones(1, 4),
        )
        for first in (True, False)
    ]
    found = match(*runs).scopes
    assert not [one for one in found if runs[0].scopes[one].kind is ScopeKind.NO_GRAD]
    assert len(found) == 5


def test_what_moved_without_weights_is_no_match() -> None:
    """Any activation is like any other: it is removed here and added there."""
    found = _pairs(
        [("one", [("act", "ReLU")]), ("last", "Tanh")],
        [("last", "Tanh"), ("new", [("fc", "Linear"), ("two", [("act", "ReLU")])])],
    )
    assert {one for one, _ in found} == {"", "last"}


@pytest.mark.parametrize("container", ["Sequential", "ModuleList"])
def test_of_equal_siblings_the_one_with_the_same_number_matches(container: str) -> None:
    """Where another number would match as many."""
    for old, new, name in (("AA", "BA", "body.1"), ("AA", "AB", "body.0")):
        before, after = _run(*old, container=container), _run(*new, container=container)
        pairs = match(before, after).scopes.items()
        paths = {(before.scopes[one].path, after.scopes[other].path) for one, other in pairs}
        assert (name, name) in paths


def test_two_models_do_not_match_one_of_another_class() -> None:
    """Which of the two would it be?"""
    def run(*names: str) -> Recording:
        builder = Builder("run")
        x = builder.input("x")
        for name in names:
            with builder.scope(name):
                x = builder.op(name.lower(), x)
        return builder.recording()

    two, one = run("Encoder", "Decoder"), run("Net")
    assert not match(two, one).scopes and not match(one, two).scopes
    assert len(match(one, run("Other")).scopes) == 1


def test_calls_of_a_module_that_runs_once_more() -> None:
    """The last call stays the last: what was added is a layer and the call after the second."""
    def run(layers: int, width: int) -> Recording:
        builder = Builder("Block")
        with builder.scope("Block"):
            first = x = builder.input("x", (2, 4))
            for layer in range(layers):
                with builder.scope(f"conv{layer}", "Conv2d"):
                    x = builder.op("conv2d", x, shape=(2, 4))
                if layer < layers - 1:
                    with builder.scope("relu", "ReLU"):
                        x = builder.op("relu", x, shape=(2, 4))
            x = builder.op("add", x, first, shape=(2, width))
            with builder.scope("relu", "ReLU"):
                builder.op("relu", x, shape=(2, width))
        return builder.recording()

    short, long = run(2, 4), run(3, 16)
    for before, after, last in ((short, long, (1, 2)), (long, short, (2, 1))):
        found = match(before, after)
        calls = {(before.scopes[one].call, after.scopes[other].call)
                 for one, other in found.scopes.items() if before.scopes[one].name == "relu"}
        assert calls == {(0, 0), last}
        assert any(before.ops[one].name == "add" for one in found.ops)


def test_ops_do_not_match_by_their_ids() -> None:
    """Each run counts its own ops: the first op of a layer is not the first op of another."""
    def run(*names: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for name in names:
                x = builder.op(name, x)
        return builder.recording()

    assert not match(run("linear"), run("quantize", "dequantize")).ops
    assert len(match(run("linear"), run("quantize")).ops) == 1


def _called(namespace: str) -> Recording:
    """Functions of this namespace between others."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in ("sin", "relu", "exp", "cos"):
            x = run.op(name, x)
    found = run.recording()
    ops = {key: op.replace(qualname=namespace + op.name) if op.name in ("relu", "exp") else op
           for key, op in found.ops.items()}
    return replace(found, ops=ops)


@pytest.mark.parametrize("namespace", ["torch.Tensor.", "torch.nn.functional."])
def test_one_function_in_another_spelling(namespace: str) -> None:
    """`x.relu()` and `torch.relu(x)` are the same."""
    assert lines(_called("torch."), _called(namespace)) == []


def test_another_function_of_the_same_name() -> None:
    """It takes the place of the other, and the text has the full names."""
    assert lines(_called("torch."), _called("mine.")) == [
        f"replaced {name} torch.{name} → mine.{name}" for name in ("relu", "exp")
    ]


def _sum(*, size: int = 4, turned: bool = False, role: str = "constant") -> Recording:
    """The input plus a tensor that no op computed."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        other = run.constant((size,)) if role == "constant" else run.buffer("c", (size,))
        run.op("add", *((other, x) if turned else (x, other)))
    return run.recording()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (_sum(size=8), {"v1": "v1"}),
        (_sum(turned=True), {"v1": "v1"}),
        (_sum(turned=True, size=8), {}),
        (_sum(role="buffer"), {}),
    ],
)
def test_constants(after: Recording, expected: dict[str, str]) -> None:
    """They are the same where they are read in the same place, or look the same; no constant is a
    buffer."""
    x, _, result = _sum().values
    assert match(_sum(), after).values == {x: x, result: result, **expected}


def test_inputs_with_other_names() -> None:
    """They match in their order, also where nothing reads them in the same way."""
    def run(name: str, op: str, *, weight: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input(name)
            builder.op(op, *([builder.parameter("w")] if weight else []), x)
        return builder.recording()

    before, after = run("x", "abs", weight=False), run("tokens", "linear", weight=True)
    (old,), (new,) = before.inputs, after.inputs
    assert match(before, after).values[old.value] == new.value


def test_a_class_counts_where_modules_are_only_numbered() -> None:
    """With another number and another class nothing is in common; with a name, the name is."""
    assert _pairs([("0", "A"), ("1", "B"), ("2", "D")], [("0", "B"), ("1", "C")]) >= {("1", "0")}
    for names in ([("0", "A"), ("1", "B")], [("0", "B"), ("1", "A")]):
        assert _pairs(names, [("1", "C")]) == {("", ""), ("1", "1")}
    assert ("fc", "fc") in _pairs([("fc", "A"), ("act", "B")], [("fc", "C"), ("new", "D")])


def test_calls_of_which_one_run_does_not_know_the_module() -> None:
    """As where that was not written; the calls match all the same."""
    lost = build([event for event in events() if not isinstance(event, Module)], Recording)
    assert lines(stepped(), lost) == lines(lost, stepped()) == []
