"""Other inputs are told once, where a reader of the figure sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.comparison.test_compare import lines
from torchrecorder import record
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

REWIRED = "rewired part reads exp, not sin"


def _run(*reads: int, inner: tuple[int, ...] = (), weight: str = "") -> Recording:
    """A module with ops that read one of two results: directly, and in a module in it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        made = [run.op("sin", x), run.op("exp", x)]
        with run.scope("part", "Part"):
            for place in reads:
                run.op("abs", made[place], *([run.parameter(weight)] if weight else []))
            if inner:
                with run.scope("inner", "Inner"):
                    for place in inner:
                        run.op("cos", made[place])
    return run.recording()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (_run(0, 0), _run(1, 1), [REWIRED]),
        (_run(0, 0, inner=(0, 0)), _run(1, 1, inner=(1, 1)), [REWIRED]),
        (_run(inner=(0, 0)), _run(inner=(1, 1)), [REWIRED]),
        (_run(0, 0), _run(0, 1), ["rewired part: abs #2 reads exp, not sin"]),
        (_run(0, inner=(0, 0)), _run(0, inner=(1, 1)),
         ["rewired part.inner reads exp, not sin"]),
    ],
)
def test_told_once_at_the_outermost_module_that_reads_it(
    before: Recording, after: Recording, expected: list[str]
) -> None:
    """Of all ops in it; where some still read what they did, those that do not are named."""
    assert lines(before, after) == expected
    back = [line.replace("exp, not sin", "sin, not exp") for line in expected]
    assert lines(after, before) == back


def test_each_module_is_told() -> None:
    """Two that read the same instead of the same are two."""
    def run(number: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            made = [builder.op("sin", x), builder.op("exp", x)]
            for name in ("one", "two"):
                with builder.scope(name, "Part"):
                    builder.op("abs", made[number])
                    builder.op("cos", made[number])
        return builder.recording()

    assert lines(run(0), run(1)) == [
        "rewired one reads exp, not sin", "rewired two reads exp, not sin"
    ]


def test_what_is_made_inside_is_told_inside() -> None:
    """The module itself is given the same."""
    def run(early: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("part", "Part"):
            x = builder.op("sin", builder.input("x"))
            y = builder.op("exp", x)
            with builder.scope("inner", "Inner"):
                builder.op("abs", x if early else y)
                builder.op("cos", x if early else y)
        return builder.recording()

    assert lines(run(True), run(False)) == ["rewired part.inner reads part: exp, not part: sin"]


def test_an_input_of_the_run_is_read_inside_of_the_model() -> None:
    """The model as a whole has both."""
    def run(name: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            given = {name: builder.input(name) for name in ("x", "mask")}
            with builder.scope("part", "Part"):
                builder.op("abs", given[name])
                builder.op("cos", given[name])
            builder.op("add", *given.values())
        return builder.recording()

    assert lines(run("x"), run("mask")) == ["rewired part reads mask, not x"]


def test_a_weight_is_read_where_it_is_used() -> None:
    """It comes from no module before."""
    def run(name: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            weights = {key: builder.parameter(key) for key in ("one", "two")}
            with builder.scope("part", "Part"):
                builder.op("abs", weights[name])
                builder.op("cos", builder.input("x"))
        return builder.recording()

    found = compare(run("one"), run("two"))
    rewired = [change.where for change in found.changes if change.kind == "rewired"]
    assert rewired in ([], ["part: abs"])


class _Part(nn.Module):
    """Reads one or two tensors."""

    def forward(self, mask: Tensor, key: Tensor | None = None) -> Tensor:
        """Run."""
        return mask.exp() if key is None else mask.exp() + key


class _Net(nn.Module):
    """Gives its part the result of one of two operations, and maybe its input."""

    def __init__(self, number: int, several: bool) -> None:
        super().__init__()
        self.part, self.number, self.several = _Part(), number, several

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        mask = (x.sin(), x.cos())[self.number]
        given = (mask, x) if self.several else (mask,)
        return self.part(*given)  # type: ignore[no-any-return]


@pytest.mark.parametrize("several", [True, False])
def test_the_argument_is_named_if_a_module_has_several(several: bool) -> None:
    """As its forward calls it."""
    before, after = (record(_Net(number, several), torch.ones(4)) for number in (0, 1))
    text = "mask: reads cos, not sin" if several else "reads cos, not sin"
    assert lines(before, after) == [f"rewired part {text}"]


@pytest.mark.parametrize(
    ("before", "after", "depth", "expected"),
    [
        (_run(0, 0), _run(0, 1), 9, set()),
        (_run(0, 0), _run(0, 1), 1, {"part"}),
        (_run(0, 0), _run(1, 1), 1, set()),
        (_run(inner=(0, 0)), _run(inner=(0, 1)), 2, {"inner"}),
    ],
)
def test_arrows_tell_what_a_box_reads(
    before: Recording, after: Recording, depth: int, expected: set[str], tmp_path: Path
) -> None:
    """It has no color itself; a closed module has one if something inside reads another tensor."""
    comparison = compare(before, after)
    text = comparison.render(tmp_path / "both.dot", depth=depth).read_text(encoding="utf-8")
    different = re.findall(r' color="(#\w+)"[^\n]*label=<different>', text)
    colored = re.findall(r'color="(#\w+)", fontcolor[^\n]*label=<(\w+)', text)
    listed = {"different"} if expected else set()
    assert {name for color, name in colored if color in different} == listed | expected
    assert expected or 'style="dashed", edgetooltip' in text


def _through(*names: str, source: str = "sin") -> Recording:
    """Ops with these names between what *source* computes and its reader."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        made = {name: run.op(name, x) for name in ("sin", "exp")}
        value = made[source]
        for name in names:
            with run.scope(name, "Step"):
                value = run.op(name, value)
        run.op("abs", value, made["exp"])
    return run.recording()


@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        (_through(), _through("one"), True),
        (_through(), _through("one", "two"), True),
        (_through("one"), _through(), True),
        (_through("one"), _through("one", "two"), True),
        (_through(), _through(source="exp"), False),
        (_through(), _through("one", source="exp"), False),
    ],
)
def test_a_reader_behind_what_was_added_or_removed_follows(
    before: Recording, after: Recording, follows: bool
) -> None:
    """If this is computed from what it read before, or was computed from what it reads now."""
    for one, other in ((before, after), (after, before)):
        read = [change for change in compare(one, other).changes
                if change.kind is ChangeKind.REWIRED and change.where.endswith("abs")]
        assert [change.follows for change in read] == [follows]


def test_many_of_them_share_a_line() -> None:
    """Up to three have their own."""
    def run(layers: int, added: bool) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for layer in range(layers):
                with builder.scope(f"fc{layer}", "Linear"):
                    x = builder.op("linear", x)
                if added:
                    with builder.scope(f"norm{layer}", "Norm"):
                        x = builder.op("norm", x)
        return builder.recording()

    for layers, told in ((4, 3), (5, 1)):
        found = compare(run(layers, False), run(layers, True))
        lines = [line for line in found.text().splitlines() if line.startswith("  rewired   fc")]
        assert len(lines) == told
    assert lines[0].endswith("because of what was added or removed before them")


def test_what_was_added_is_searched_once() -> None:
    """Not once for each way through it."""
    def run(layers: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            other, value = builder.op("sin", x), builder.op("exp", x)
            for number in range(layers):
                other = value = builder.op("add", *([value, value] if number else [other, other]))
            builder.op("abs", value)
        return builder.recording()

    rewired = [each for each in compare(run(0), run(60)).changes if each.kind == "rewired"]
    assert [change.follows for change in rewired] == [False]


class _Block(nn.Module):
    """A layer before or after a normalization."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.norm, self.fc, self.first = nn.LayerNorm(4), nn.Linear(4, 4), first

    def forward(self, x: Tensor) -> Tensor:
        """Of *x*, under this name."""
        return self.fc(self.norm(x)) if self.first else self.norm(self.fc(x))


def test_what_a_numbered_block_is_given_has_the_name_of_its_argument() -> None:
    """Each block is given the result of the one before it: equal rewirings share a line."""
    before, after = (
        record(nn.Sequential(*(_Block(first) for _ in range(3))), torch.ones(1, 4))
        for first in (True, False)
    )
    found = compare(before, after).text().splitlines()
    assert [" ".join(line.split()) for line in found[1:]] == [
        "rewired 0 … 2 returns 0.norm, not 0.fc",
        "rewired 0.fc … 2.fc reads 0: x, not 0.norm",
        "rewired 0.norm … 2.norm reads 0.fc, not 0: x",
    ]


def test_what_a_block_without_siblings_is_given_has_its_own_name() -> None:
    """That of the input, or of the module that computed it."""
    before, after = (record(_Block(first), torch.ones(1, 4)) for first in (True, False))
    assert "rewired fc reads x, not norm" in lines(before, after)
