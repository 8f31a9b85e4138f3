"""What is said to be different between two recordings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings

from tests.figures import network, regions
from tests.random_recordings import recordings
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.match import match
from torchrecorder.errors import InvalidArgument
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def stack(*names: str, width: int = 4, detail: str = "", container: str = "body") -> Recording:
    """A chain of modules of these classes in a container that numbers them."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x", (2, width))
        with run.scope(container, "Sequential"):
            for place, cls in enumerate(names):
                with run.scope(str(place), cls, detail=detail):
                    weights = [run.parameter("weight", (width, width))] if cls == "Linear" else []
                    x = run.op(cls.lower(), x, *weights, shape=(2, width))
    return run.recording()


def lines(before: Recording, after: Recording, **options: Any) -> list[str]:
    """Every change as ``kind where text``."""
    return [
        " ".join([each.kind.value, each.where, each.text]).strip()
        for each in compare(before, after, **options).changes
    ]


@settings(max_examples=60, deadline=None)
@given(recordings())
def test_same_is_no_difference(recording: Recording) -> None:
    """A recording does not differ from itself, and each of its parts is its own counterpart."""
    found = compare(recording, recording, times=1.5)
    assert not found and found.changes == ()
    assert all(one == other for one, other in found.matching.ops.items())
    assert len(found.matching.ops) == len(recording.ops)
    assert len(found.matching.scopes) == len(recording.scopes)


@settings(max_examples=60, deadline=None)
@given(recordings(), recordings())
def test_any_two(before: Recording, after: Recording) -> None:
    """Whatever two recordings are, pairs are one to one, and changes name what exists."""
    found = compare(before, after)
    for pairs in (found.matching.scopes, found.matching.ops, found.matching.values):
        assert len(set(pairs.values())) == len(pairs)
    for each in found.changes:
        assert each.before is not None or each.after is not None
        for side, node in ((before, each.before), (after, each.after)):
            tables = (side.scopes, side.ops, side.values, side.modules)
            assert node in (None, "") or any(node in table for table in tables)
    assert json.loads(json.dumps(found.json())) == found.json()
    assert found.text().count("\n") <= 61


TURNED = {
    ChangeKind.ADDED: ChangeKind.REMOVED, ChangeKind.REMOVED: ChangeKind.ADDED,
    ChangeKind.FROZEN: ChangeKind.UNFROZEN, ChangeKind.UNFROZEN: ChangeKind.FROZEN,
}
"""What becomes of the kinds that have a direction, the other way round."""


@settings(max_examples=30, deadline=None)
@given(recordings(), recordings())
def test_both_ways(before: Recording, after: Recording) -> None:
    """The other way round, the same nodes differ in the same way, and what was added is removed."""
    there, back = compare(before, after).changes, compare(after, before).changes
    turned = [(TURNED.get(each.kind, each.kind), each.after, each.before) for each in there]
    assert Counter(turned) == Counter((each.kind, each.before, each.after) for each in back)


def test_put_into_a_container() -> None:
    """What comes after a new module has another number, and is the same."""
    before, after = ("Linear", "ReLU", "Linear"), ("Linear", "ReLU", "Dropout", "Linear")
    assert lines(stack(*before), stack(*after)) == [
        "added body.2 (Dropout) 1 op",
        "renamed body.3 was body.2",
        "rewired body.3 reads body.2, not body.1",
    ]


def test_taken_out_of_a_container() -> None:
    """A module that is gone is listed where it was."""
    assert lines(stack("Linear", "ReLU", "Linear"), stack("Linear", "Linear")) == [
        "removed body.1 (ReLU) 1 op",
        "renamed body.1 was body.2",
        "rewired body.1 reads body.0, not body.1",
    ]


def test_another_class() -> None:
    """A module of another class in the same place is replaced, and its inside not listed."""
    assert lines(stack("Linear", "ReLU", "Linear"), stack("Linear", "GELU", "Linear")) == [
        "replaced body.1 ReLU → GELU"
    ]


def test_another_name() -> None:
    """A container that is called otherwise is the same container."""
    assert lines(stack("Linear", "ReLU"), stack("Linear", "ReLU", container="trunk")) == [
        "renamed trunk was body"
    ]


def test_other_sizes() -> None:
    """Shapes and hyperparameters are told one by one; equal lines are joined in the text."""
    before = stack("Linear", "Linear", detail="in_features=4, kernel=(3, 3)")
    after = stack("Linear", "Linear", width=8, detail="in_features=8, kernel=(3, 3)")
    found = compare(before, after)
    assert found.text() == (
        "Net: 2 changed, 5 resized\n"
        "  total     parameters: 32 → 128 (+300 %), output_bytes: 64 B → 128 B (+100 %)\n"
        "  resized   x and 2 more                   2×4 → 2×8\n"
        "  changed   body.0, body.1                 in_features: 4 → 8\n"
        "  resized   body.0.weight … body.1.weight  4×4 → 8×8"
    )
    assert found.text(limit=1).endswith("\n  … and 2 more lines")
    assert found.text(limit=2).endswith("\n  … and 1 more line")


@pytest.mark.parametrize(
    ("cls", "before", "after", "text"),
    [
        ("Conv2d", "3, 16, kernel_size=(3, 3)", "3, 32, kernel_size=(3, 3)",
         "out_channels: 16 → 32"),
        ("MyConv", "3, 16, kernel_size=(3, 3), stride=(2, 2)", "4, 16, kernel_size=(3, 3)",
         "in_channels: 3 → 4, stride: (2, 2) → default"),
        ("BatchNorm2d", "16, eps=1e-05", "32, eps=1e-05", "num_features: 16 → 32"),
        ("LayerNorm", "(16,), eps=1e-05", "(32,), eps=1e-05", "normalized_shape: (16,) → (32,)"),
        ("LSTM", "3, 4, batch_first=True", "3, 8, batch_first=True", "hidden_size: 4 → 8"),
        ("Embedding", "10, 4", "12, 4", "num_embeddings: 10 → 12"),
        ("Mixer", "10, 4", "10, 8", "argument 2: 4 → 8"),
        ("ConvMixer", "10", "12", "argument 1: 10 → 12"),
    ],
)
def test_unnamed_arguments_have_names(cls: str, before: str, after: str, text: str) -> None:
    """Those of the classes of PyTorch; of others their place, counted from one."""
    assert f"changed body.0 {text}" in lines(stack(cls, detail=before), stack(cls, detail=after))


def test_another_op() -> None:
    """An op in the place of another; an op more; an argument of another value."""
    def run(*names: str, dim: str = "0") -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for name in names:
                x = builder.op(name, x, arguments=(("dim", dim),) if name == "sum" else ())
        return builder.recording()

    assert lines(run("exp", "relu", "sum"), run("exp", "gelu", "sum")) == [
        "replaced gelu relu → gelu"
    ]
    assert lines(run("exp", "sum"), run("exp", "sum", dim="1")) == ["changed sum dim: 0 → 1"]
    assert lines(run("exp", "sum"), run("exp", "abs", "sum")) == [
        "added abs", "rewired sum reads abs, not exp"
    ]


def test_other_wiring() -> None:
    """The same ops that read other things."""
    def run(crossed: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            one, other = builder.op("exp", x), builder.op("abs", x)
            builder.op("sub", *((other, one) if crossed else (one, other)))
        return builder.recording()

    assert lines(run(False), run(True)) == [
        "rewired sub reads abs, not exp", "rewired sub reads exp, not abs"
    ]


def test_other_result() -> None:
    """A module that gives back something else."""
    def run(early: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.op("exp", builder.input("x"))
            y = builder.op("abs", x)
            builder.returns(x if early else y)
        return builder.recording()

    assert lines(run(False), run(True)) == ["rewired Net returns exp, not abs"]


def test_wrapped() -> None:
    """A model inside another one is found there."""
    outer = Builder("Outer")
    with outer.scope("Outer"):
        x = outer.input("x")
        with outer.scope("net", "Net"):
            for place in "01":
                with outer.scope(place, "Linear"):
                    x = outer.op("linear", x, outer.parameter("weight"))
        outer.op("softmax", x)
    inner = Builder("Net")
    with inner.scope("Net"):
        x = inner.input("x")
        for place in "01":
            with inner.scope(place, "Linear"):
                x = inner.op("linear", x, inner.parameter("weight"))
    found = compare(inner.recording(), outer.recording())
    assert len(found.matching.ops) == 2 and len(found.matching.values) >= 5
    assert [each.kind for each in found.changes] == [
        ChangeKind.ADDED, ChangeKind.RENAMED, ChangeKind.REWIRED
    ]


def blocks(cls: str, norm: str) -> Recording:
    """A model of this class with three equal blocks, the middle one with a *norm* of its own."""
    run = Builder(cls)
    with run.scope(cls):
        x = run.input("x")
        for place, kind in enumerate(("LayerNorm", norm, "LayerNorm")):
            with run.scope(f"layers.{place}", "Block"):
                with run.scope("fc", "Linear"):
                    x = run.op("linear", x, run.parameter("weight"))
                with run.scope("norm", kind):
                    x = run.op(kind.lower(), x, run.parameter("weight"))
    return run.recording()


def test_a_class_derived_from_the_first() -> None:
    """In a model of another class too, a changed block is that block and no other."""
    assert lines(blocks("Net", "LayerNorm"), blocks("Better", "RMSNorm")) == [
        "replaced Better Net → Better",
        "replaced layers.1.norm LayerNorm → RMSNorm",
    ]


def test_a_comparison_shows_its_text() -> None:
    """As the last line of a cell, in a console, and where an assertion fails."""
    found = compare(stack("Linear", "ReLU", "Linear"), stack("Linear", "GELU", "Linear"))
    assert repr(found) == str(found) == found.text()
    assert "ReLU → GELU" in repr(found)


def test_frozen_and_tied() -> None:
    """Whether weights are trained and shared is part of a model."""
    before = stack("Linear")
    weight = next(each for each in before.values.values() if each.trainable)
    after = _with_value(before, weight.replace(trainable=False))
    assert lines(before, after) == ["frozen body.0.weight"]
    assert lines(after, before) == ["unfrozen body.0.weight"]
    after = _with_value(before, weight.replace(names=("body.0.weight", "head.weight")))
    assert lines(before, after) == [
        "changed body.0.weight names: body.0.weight → body.0.weight, head.weight"
    ]


def test_training() -> None:
    """A flag that is switched everywhere is told once."""
    def run(training: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net", training=training):
            x = builder.input("x")
            for name in "ab":
                with builder.scope(name, "Dropout", training=training):
                    x = builder.op("dropout", x)
        return builder.recording()

    assert lines(run(True), run(False)) == ["changed Net training → evaluation"]


def test_times_only_on_request() -> None:
    """Times differ in every run; a factor says from when on they matter."""
    before = network()
    scopes = {key: each.replace(seconds=0.1) for key, each in before.scopes.items()}
    slower = {key: each.replace(seconds=0.3) for key, each in before.scopes.items()}
    one = replace(before, scopes=MappingProxyType(scopes))
    other = replace(before, scopes=MappingProxyType(slower))
    assert not compare(one, other)
    assert not compare(one, other, times=4)
    assert "retimed body.1 100.00 ms → 300.00 ms" in lines(one, other, times=2)
    with pytest.raises(InvalidArgument, match="factor above 1"):
        compare(one, other, times=0.5)


def test_nothing_in_common() -> None:
    """Two models of different kinds: the roots belong together, the rest does not."""
    kinds = {each.kind for each in compare(network(), regions()).changes}
    assert {ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.REPLACED} <= kinds


def test_deep_and_long() -> None:
    """Neither depth nor length has a limit: a square of the length would take hours."""
    def run(depth: int, length: int, name: str) -> Recording:
        builder, opened = Builder("Net"), []
        for _ in range(depth):
            opened.append(builder.scope("inner", "Block"))
            opened[-1].__enter__()
        x = builder.input("x")
        for place in range(length):
            x = builder.op(name if place == length // 2 else "add", x)
        for scope in reversed(opened):
            scope.__exit__(None, None, None)
        return builder.recording()

    before, after = run(1500, 10, "abs"), run(1500, 10, "exp")
    assert [each.kind for each in compare(before, after).changes] == [ChangeKind.REPLACED]
    before, after = run(1, 20_000, "abs"), run(1, 20_000, "exp")
    assert [each.kind for each in compare(before, after).changes] == [ChangeKind.REPLACED]


def test_another_parameter() -> None:
    """A bias that one model has is added or removed; the op that reads it is not rewired, too."""
    def run(*names: str) -> Recording:
        build = Builder("Linear")
        with build.scope("Linear"):
            build.op("linear", build.input("x"), *map(build.parameter, names))
        return build.recording()

    with_bias, without = run("weight", "bias"), run("weight")
    text = "bias 4×4 float32"
    assert lines(without, with_bias) == [f"added {text}"]
    assert lines(with_bias, without) == [f"removed {text}"]


def test_modules_that_are_never_called() -> None:
    """One that only one model has is listed at the end, without the modules in it."""
    before, after = stack("Linear"), _with_idle(stack("GELU"), "head", "head.norm", "body.drop")
    assert lines(before, after)[-2:] == [
        "added head (Idle) never called", "added body.drop (Idle) never called"
    ]
    assert lines(after, before)[-2:] == [
        "removed head (Idle) never called", "removed body.drop (Idle) never called"
    ]
    assert lines(_with_idle(before, "head"), _with_idle(before, "head")) == []


def _with_idle(recording: Recording, *names: str) -> Recording:
    """The same with modules of these names that no scope calls."""
    first = next(iter(recording.modules.values()))
    idle = [
        first.replace(id=f"m{number}", names=(name,), cls="Idle", parameters=(), calls=())
        for number, name in enumerate(names, len(recording.modules))
    ]
    modules = {**recording.modules, **{module.id: module for module in idle}}
    return replace(recording, modules=MappingProxyType(modules))


def _with_value(recording: Recording, value: Any) -> Recording:
    return replace(recording, values=MappingProxyType({**recording.values, value.id: value}))


def _of(cls: str, *names: str) -> Recording:
    """A model of this class with a linear layer for each name."""
    run = Builder(cls)
    with run.scope(cls):
        x = run.input("x")
        for name in names:
            with run.scope(name, "Linear"):
                x = run.op("linear", x, run.parameter("weight"))
    return run.recording()


@pytest.mark.parametrize(
    ("old", "new"),
    [("ab", "ab"), ("ab", "bc"), ("abcd", "cdxy"), ("ab", "bcde"), ("bcde", "ab")],
)
def test_a_model_of_another_class_is_the_same_where_half_its_modules_are(
    old: str, new: str
) -> None:
    """Half of the names of the smaller one are enough to compare module by module."""
    before, after = _of("Net", *old), _of("Better", *new)
    pairs = match(before, after).scopes.items()
    names = {(before.scopes[one].name, after.scopes[other].name) for one, other in pairs}
    assert {("Net", "Better"), *((name, name) for name in set(old) & set(new))} <= names
    assert lines(before, after)[0] == "replaced Better Net → Better"
