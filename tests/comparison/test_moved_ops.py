"""Operations that another module computes in the other run, from the same tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Union

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.comparison.test_box_captions import labels
from tests.comparison.test_compare import lines
from tests.comparison.test_overlay import laid
from torchrecorder import record
from torchrecorder.graph.consistency import problems
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


class Net(nn.Module):
    """Two layers, and what is between them: a module, or a function."""

    def __init__(self, between: object) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The function may be a region."""
        return self.last(self.between(self.first(x)))  # type: ignore[operator]


class Double(torch.autograd.Function):
    """Two times something."""

    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        """Its gradient."""
        return gradient * 2


class Around(nn.Module):
    """Calls a function."""

    def __init__(self, inside: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Its result."""
        return self.inside(x)


class Scale(nn.Module):
    """Divides by the root of the mean square."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Four operations."""
        return scaled(x)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """What the module computes."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True))


def scattered(x: torch.Tensor) -> torch.Tensor:
    """Reads tensors that are made from nothing."""
    steps, shifts = torch.arange(4.0), torch.zeros(4)
    return x * steps + shifts


SHIFT = torch.ones(4)


def shifted(x: torch.Tensor) -> torch.Tensor:
    """Reads a tensor from outside of the model."""
    return x + SHIFT


def repeated(x: torch.Tensor) -> torch.Tensor:
    """Another region."""
    return checkpoint(torch.relu, x, use_reentrant=False)  # type: ignore[no-any-return]


def doubled(x: torch.Tensor) -> torch.Tensor:
    """A region with operations of its own kind."""
    return Double.apply(x)  # type: ignore[no-any-return, no-untyped-call]


def without_grad(x: torch.Tensor) -> torch.Tensor:
    """A region around an operation."""
    with torch.no_grad():
        return torch.relu(x)


@pytest.mark.parametrize(("inline", "inside", "where", "text"), [
    (F.relu, nn.ReLU(), "between (ReLU)", "around 1 op"),
    (torch.relu, nn.ReLU(), "between (ReLU)", "around 1 op"),
    (scaled, Scale(), "between (Scale)", "around 4 ops"),
    (torch.relu, without_grad, "no_grad", "around 1 op"),
    (scattered, Around(scattered), "between (Around)", "around 4 ops"),
    (shifted, Around(shifted), "between (Around)", "around 1 op"),
    (doubled, Around(doubled), "between (Around)", "around 1 op"),
    (repeated, Around(repeated), "between (Around)", "around 1 op"),
])
def test_code_that_moves_into_a_module_or_region(
    inline: object, inside: object, where: str, text: str
) -> None:
    """It is the only difference: what it computes is read by the same layer as before."""
    before, after = (record(Net(one), torch.ones(1, 4)) for one in (inline, inside))
    assert lines(before, after) == [f"added {where} {text}"]
    assert lines(after, before) == [f"removed {where} {text}"]


def test_a_module_around_a_region_is_named_without_itself() -> None:
    """Its path, which the region has too, is in the first column."""
    class Repeated(nn.Module):
        def __init__(self, around: bool) -> None:
            super().__init__()
            self.act = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            self.around = Around(self.repeated) if around else self.repeated

        def repeated(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.act, x, use_reentrant=False)  # type: ignore[no-any-return]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.around(x)

    before, after = (record(Repeated(around), torch.ones(1, 4)) for around in (False, True))
    assert lines(before, after) == ["added around (Around) around checkpoint"]


Part = Union[str, tuple[str, "list[Part]"]]
"""An op, or a module of this name, and class if it is given, with parts."""


def _run(*parts: Part) -> Recording:
    """A chain of ops, some of them in modules."""
    run = Builder("Net")

    def chain(x: str, parts: list[Part]) -> str:
        for part in parts:
            if isinstance(part, str):
                x = run.op(part, x)
            else:
                name, _, cls = part[0].partition(":")
                with run.scope(name, cls or name.rstrip("12").title()):
                    x = chain(x, part[1])
        return x

    with run.scope("Net"):
        chain(run.input("x"), list(parts))
    return run.recording()


def test_an_op_that_moves_to_another_module_has_another_name(tmp_path: Path) -> None:
    """If both runs have the module that it leaves, and that which it joins."""
    before = _run(("block1", ["sin", "cos"]), ("block2", ["exp"]))
    after = _run(("block1", ["sin"]), ("block2", ["cos", "exp"]))
    assert "renamed block2: cos was block1: cos" in lines(before, after)
    assert "renamed block1: cos was block2: cos" in lines(after, before)
    kinds = {line.partition(" ")[0] for line in lines(before, after)}
    assert kinds == {"renamed", "rewired"}
    assert labels(tmp_path, before, after, depth=2)["cos"] == "was block1: cos"


def test_a_module_of_another_name_around_the_same_ops() -> None:
    """Without weights, and with modules in it, in a place of its own."""
    for inside in (["sin"], ["sin", ("deep", ["cos"])]):
        before = _run(("one", ["tanh"]), ("act1", [*inside]), "exp")
        after = _run(("one", ["tanh", ("act2", [*inside])]), "exp")
        assert "renamed one.act2 was act1" in lines(before, after)


def test_a_module_in_another_place_has_a_weight_of_its_own() -> None:
    """Which no operation reads, in one run only."""
    def run(moved: bool, *weights: str) -> Recording:
        builder = Builder("Net")

        def act(x: str) -> str:
            with builder.scope("act", "Act"):
                for name in weights:
                    builder.parameter(name)
                return builder.op("sin", x)

        with builder.scope("Net"):
            x = builder.input("x")
            with builder.scope("one"):
                x = builder.op("tanh", x)
                x = act(x) if moved else x
            builder.op("exp", x if moved else act(x))
        return builder.recording()

    assert "added one.act.scale 4×4 float32" in lines(run(False), run(True, "scale"))
    assert "removed one.act.scale 4×4 float32" in lines(run(True, "scale"), run(False))
    same = lines(run(False, "scale"), run(True, "scale"))
    assert not [line for line in same if "scale" in line]


def test_another_module_around_the_same_ops_is_no_match() -> None:
    """If it has another class, or computes more."""
    found = lines(_run(("one", ["sin"]), "exp"), _run(("two", ["sin"]), "exp"))
    assert found == ["removed one (One) around 1 op", "added two (Two) around 1 op"]
    found = lines(_run(("one1", ["sin"]), "exp"), _run(("one2", ["sin", "cos"]), "exp"))
    assert not [line for line in found if line.startswith("renamed")]


def test_a_module_without_weights_in_another_place_is_another_one() -> None:
    """If it has another name, too."""
    inside: list[Part] = ["sin", "cos"]
    found = lines(_run(("one:Act", inside), "exp"), _run("exp", ("two:Act", inside)))
    assert {"removed one (Act) 2 ops", "added two (Act) 2 ops"} <= {*found}


def test_ops_in_replaced_modules_are_not_moved() -> None:
    """What is in them is not listed."""
    before, after = _run(("a", ["sin"]), "exp"), _run("sin", ("a:B", ["cos"]), "exp")
    assert lines(before, after) == ["added sin", "replaced a A → B"]
    assert {*lines(after, before)} == {"removed sin", "replaced a B → A"}


def test_an_op_in_the_same_module_matches_before_one_elsewhere() -> None:
    """Two modules compute the same; one of them no longer does, the other does it later."""
    def run(*blocks: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for place, names in enumerate(blocks):
                with builder.scope(f"block{place}", "Block"):
                    for name in names.split():
                        builder.op(name, x)
        return builder.recording()

    for before, after in (("sin cos", "cos"), ("cos sin", "cos")):
        found = lines(run(before, "sin cos tan"), run(after, "cos tan sin"))
        assert [line for line in found if "rewired" not in line] == ["removed block0: sin"]


@pytest.mark.parametrize("parts", [["sin"], ["sin", "cos"], ["sin", ("deep", ["cos"]), "tan"]])
def test_a_module_that_is_gone_is_drawn_around_what_was_in_it(parts: list[Part]) -> None:
    """So that it is on the way from what it read to what reads its result."""
    found = laid(_run("abs", ("mod", parts), "exp"), _run("abs", *parts, "exp")).recording
    assert list(problems(found)) == []
    [gone] = [scope for scope in found.scopes.values() if scope.name == "mod"]
    assert gone.id.startswith("old_")
    assert [step.name for step in found.children[gone.id]] == [
        part if isinstance(part, str) else part[0] for part in parts
    ]
    [root] = found.roots
    assert [step.name for step in found.children[root]] == ["abs", "mod", "exp"]


def test_modules_that_are_gone_from_a_program() -> None:
    """The outermost is drawn around what was in it; one in it not around what has left both."""
    def program(*modules: str) -> Recording:
        run = Builder("program")
        x = run.op("abs", run.input("x"))
        with ExitStack() as stack:
            for name in modules:
                stack.enter_context(run.scope(name))
            x = run.op("cos", run.op("sin", x))
        run.op("exp", x)
        return run.recording()

    found = laid(program("outer"), program()).recording
    assert list(problems(found)) == []
    assert [step.name for step in found.children[None]] == ["abs", "outer", "exp"]
    [outer] = found.roots
    assert [step.name for step in found.children[outer]] == ["sin", "cos"]
    found = laid(program("outer", "inner"), program()).recording
    assert list(problems(found)) == []
    assert [step.name for step in found.children[None]] == ["abs", "outer", "sin", "cos", "exp"]


def test_a_module_that_is_gone_is_not_drawn_around_steps_in_other_places() -> None:
    """Another operation is between them, which was not in it."""
    before = _run("abs", ("mod", ["sin", "cos"]), "exp")
    found = laid(before, _run("abs", "sin", "new", "cos", "exp")).recording
    assert list(problems(found)) == []
    [root] = found.roots
    assert [step.name for step in found.children[root] if not step.id.startswith("old_")] == [
        "abs", "sin", "new", "cos", "exp"
    ]
