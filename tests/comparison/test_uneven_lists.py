"""Lists of tensors that are longer in one run: which of their elements correspond."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from tests.comparison.test_compare import lines
from tests.comparison.test_training import trained
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.match import match
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _joined(names: str, *, copies: int = 1, argument: str = "tensors") -> Recording:
    """Results of ops with one letter, in lists that one op reads."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        made = [run.op(name, x) for name in names]
        slots = [f"{argument}{copy}.{place}" for copy in range(copies)
                 for place in range(len(names))]
        run.op("cat", *made * copies, x, slots=(*slots, "dim"))
    return run.recording()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("abd", "abcd", ["tensors0.2: reads c, not nothing"]),
        ("abcd", "abd", ["tensors0.2: reads nothing, not c"]),
        ("abc", "abdce", ["tensors0.2: reads d, not nothing", "tensors0.4: reads e, not nothing"]),
        ("a", "bac", ["tensors0.0: reads b, not nothing", "tensors0.2: reads c, not nothing"]),
        ("abc", "abc", []),
    ],
)
def test_an_element_in_the_middle(before: str, after: str, expected: list[str]) -> None:
    """Those after it are at another place, and are the same."""
    told = [line for line in lines(_joined(before), _joined(after)) if line.startswith("rewired")]
    assert told == [f"rewired cat {text}" for text in expected]


def test_a_result_is_the_same_whatever_is_before_it_in_the_list() -> None:
    """One result of a longer list, unlike an operation that has one for each element."""
    def run(*names: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            made = [builder.op(name, x) for name in names]
            slots = tuple(f"tensors.{place}" for place in range(len(names)))
            builder.op("tanh", builder.op("cat", *made, slots=slots))
        return builder.recording()

    assert lines(run("a", "b"), run("c", "a", "b")) == [
        "added c", "rewired cat tensors.0: reads c, not nothing"
    ]


def test_what_takes_the_place_of_another() -> None:
    """It is between the same neighbors."""
    def run(names: str, kept: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            made = {name: builder.op(name, x) for name in "abcdef"}
            slots = tuple(f"tensors.{place}" for place in range(len(names)))
            builder.op("cat", *(made[name] for name in names), slots=slots)
        return builder.recording()

    assert lines(run("abcd", ""), run("aecdf", "")) == [
        "rewired cat tensors.1: reads e, not b", "rewired cat tensors.4: reads f, not nothing"
    ]


def test_lists_of_one_length_belong_together() -> None:
    """An element without a counterpart is where those of the other list have theirs."""
    def run(weights: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            kept = [builder.parameter(name) for name in weights]
            states = [builder.op("zeros", shape=(3,)) for _ in weights]
            slots = [f"{name}.{place}" for name in ("self", "other")
                     for place in range(len(weights))]
            builder.op("_foreach_add_", *states, *kept, slots=tuple(slots), outputs=len(weights))
        return builder.recording()

    before, after = run("ac"), run("abc")
    found = match(before, after).values
    made = [run.ops[[*run.ops][-1]].outputs for run in (before, after)]
    assert [found[value] for value in made[0]] == [made[1][0], made[1][2]]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_all_weights_updated_at_once(optimizer: type[torch.optim.Optimizer]) -> None:
    """As on a GPU: another layer has no effect on the update of the others."""
    chosen = partial(optimizer, lr=0.1, foreach=True)
    before, after = (trained(*layers, optimizer=chosen) for layers in ([], [nn.LayerNorm(6)]))
    comparison = compare(before, after)
    assert not [each for each in comparison.changes if each.kind is ChangeKind.RESIZED]
    pairs = {(before.values[old].names[0], after.values[new].names[0])
             for old, new in comparison.matching.values.items() if before.values[old].names}
    numbers = {(old.split(".")[1], new.split(".")[1]) for old, new in pairs}
    assert numbers == {("0", "0"), ("1", "2")}
