"""Which region an operation is in, by the modes around the module and in it; writes without
versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn import functional

import torchrecorder
from tests.notation import flow
from tests.zoo.case import net
from torchrecorder.events import CALLED

CONTEXTS: dict[str, Callable[[], Any]] = {
    "enable_grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "no inference": lambda: torch.inference_mode(False),
    "bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
    "float16": lambda: torch.autocast("cpu", torch.float16),
    "no autocast": lambda: torch.autocast("cpu", enabled=False),
}
AROUND = [(), ("no_grad",), ("inference",), ("bfloat16",), ("no_grad", "bfloat16"),
          ("inference", "float16")]
INSIDE = [(name,) for name in CONTEXTS] + [
    ("no_grad", "bfloat16"), ("bfloat16", "enable_grad"), ("inference", "bfloat16"),
]


class Modes(NamedTuple):
    """What PyTorch says about itself."""

    grad: bool
    inference: bool
    autocast: str


def now() -> Modes:
    """The modes that are on."""
    kind = str(torch.get_autocast_dtype("cpu")) if torch.is_autocast_enabled("cpu") else ""
    return Modes(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), kind)


@contextlib.contextmanager
def entered(names: Sequence[str]) -> Any:
    """Within these contexts, one in another."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(CONTEXTS[name]())
        yield


def expected_kind(before: Modes, inside: Modes) -> str:
    """The region around an operation: what is on only there, the strongest first."""
    if inside.inference > before.inference:
        return "inference_mode"
    if inside.autocast not in ("", before.autocast):
        return "autocast"
    if inside.grad != before.grad:
        return "enable_grad" if inside.grad else "no_grad"
    return "module"


def detail(before: Modes, inside: Modes) -> str:
    """What else is on only there: autocast with what it casts to, and whether gradients are off."""
    cast = f"cpu {inside.autocast.removeprefix('torch.')}"
    cast = cast if inside.autocast not in ("", before.autocast) else ""
    if inside.inference > before.inference:
        return f"autocast {cast}" if cast else ""
    if cast and inside.grad != before.grad:
        return f"{cast}, {'enable_grad' if inside.grad else 'no_grad'}"
    return cast


@pytest.mark.parametrize(("around", "names"), product(AROUND, INSIDE))
def test_regions_by_modes(around: Sequence[str], names: Sequence[str]) -> None:
    """A region is what differs from the module's call, and ends with the context."""
    seen = []

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        with entered(names):
            seen.append(now())
            z = y.exp()
        return z.sin() + y

    with entered(around):
        before = now()
        recording = torchrecorder.record(net(forward), torch.ones(2))
    scopes = {op.name: recording.scopes[op.scope] for op in recording.ops.values()}
    kinds = {name: scope.kind.value for name, scope in scopes.items()}
    assert kinds == {**dict.fromkeys(kinds, "module"), "exp": expected_kind(before, seen[0])}
    assert scopes["exp"].cls == ("Net" if kinds["exp"] == "module" else detail(before, seen[0]))


WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "method": lambda y: y.add_(1),
    "by flag": lambda y: functional.relu(y, inplace=True),
    "dropout": lambda y: functional.dropout(y, 0.5, inplace=True),
    "dropout in evaluation": lambda y: functional.dropout(y, 0.5, False, True),
    "out": lambda y: torch.add(y, 1, out=y),
    "of a part": lambda y: y[:1].mul_(2),
    "operator": lambda y: y.__iadd__(1),
    "item": lambda y: y.__setitem__(0, 5.0),
    "second argument": lambda y: torch.ones(2).mul_(y),
    "copy": lambda y: torch.zeros(2).copy_(y),
    "exchange": lambda y: y.copy_(torch.zeros(2)).add_(y),
    "nothing": lambda y: functional.relu(y, inplace=False),
}


@pytest.mark.parametrize("kind", WRITES)
def test_writes_are_seen_without_versions(kind: str) -> None:
    """Tensors of inference mode have no version counter; the recording is that of no_grad."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        WRITES[kind](y)
        return y * 3

    flows = []
    for name in ("no_grad", "inference"):
        with entered([name]):
            flows.append(flow(torchrecorder.record(net(forward), torch.ones(2))))
    assert flows[0] == flows[1]


def test_regions_name_all_their_modes() -> None:
    """Evaluation in mixed precision: the frame and the table say both."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            y = x.exp()
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            return y.sin()

    recording = torchrecorder.record(net(forward), torch.ones(2))
    dot, table = torchrecorder.make_dot(recording, depth=9).source, recording.summary()
    for title in ("autocast cpu bfloat16, no_grad", "inference_mode, autocast cpu bfloat16"):
        assert title in dot and title in table


def regions(run: Callable[[torch.Tensor], Any]) -> list[tuple[str, list[str]]]:
    """The regions of a run, each with the names of what is directly in it."""
    recording = torchrecorder.record(run, torch.ones(2))
    return [(scope.kind.value, [inner.name for inner in recording.children[scope.id]])
            for scope in recording.scopes.values() if scope.kind not in CALLED]


def test_a_block_inside_one_of_the_same_mode_does_not_end_it() -> None:
    """Nor do functions decorated with ``no_grad``; of two blocks side by side each is a region."""
    quiet = torch.no_grad()(torch.sin)

    def nested(x: torch.Tensor) -> None:
        with torch.no_grad():
            y = quiet(x.exp()).cos()
            with torch.no_grad():
                y = y.tan()
            y.tanh()

    def beside(x: torch.Tensor) -> None:
        with torch.no_grad():
            x.exp()
        with torch.no_grad():
            x.cos()

    assert regions(nested) == [("no_grad", ["exp", "sin", "cos", "tan", "tanh"])]
    assert regions(beside) == [("no_grad", ["exp"]), ("no_grad", ["cos"])]


def test_a_block_in_which_nothing_runs_does_not_end_the_mode_around_it() -> None:
    """Of autocast here; one in which something runs is a region inside it."""

    def run(x: torch.Tensor, inside: bool) -> None:
        with torch.autocast("cpu"):
            x.exp()
            with torch.no_grad():
                if inside:
                    x.cos()
            x.tan()

    assert regions(lambda x: run(x, False)) == [("autocast", ["exp", "tan"])]
    assert regions(lambda x: run(x, True)) == [
        ("autocast", ["exp", "no_grad", "tan"]), ("no_grad", ["cos"])
    ]


def test_a_mode_inside_of_another_is_a_region_in_its_region() -> None:
    """As where a function without gradients evaluates batches with autocast, in a loop."""

    def evaluate(x: torch.Tensor) -> None:
        with torch.no_grad():
            for _ in range(2):
                y = x.exp()
                with torch.autocast("cpu"):
                    y.cos()
                y.tan()
        x.sin()

    assert regions(evaluate) == [
        ("no_grad", ["exp", "autocast", "tan", "exp", "autocast", "tan"]),
        ("autocast", ["cos"]),
        ("autocast", ["cos"]),
    ]
    recording = torchrecorder.record(evaluate, torch.ones(2))
    inner = [scope.cls for scope in recording.scopes.values() if scope.kind.value == "autocast"]
    assert inner == ["cpu bfloat16"] * 2


@pytest.mark.parametrize("mode", [lambda: torch.autocast("cpu"), torch.inference_mode])
def test_a_mode_that_had_ended_has_no_region_inside(mode: Callable[..., Any]) -> None:
    """Although gradients are switched off before it begins again, and nothing ran between."""

    def run(x: torch.Tensor) -> None:
        with mode():
            x.exp()
        with torch.no_grad():
            with mode():
                x.cos()
            x.tan()

    assert [inside for _, inside in regions(run)] == [["exp"], ["cos"], ["tan"]]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.autocast])
def test_a_model_that_is_made_in_a_mode_is_in_its_region(mode: Callable[..., Any]) -> None:
    """Although the initialization of its weights switches gradients off and on."""

    def run(x: torch.Tensor) -> None:
        with mode("cpu") if mode is torch.autocast else mode():
            y = x.exp()
            torch.nn.Linear(2, 2)(y)

    (name, inside), (made, _), *rest = regions(run)
    assert name == mode.__name__ and made == "construction" and not rest
    assert inside == ["exp", "Linear.__init__", "Linear"]


Block = list[Any]
"""A grad mode, and what runs in it: blocks, and None for an operation."""


def blocks(random: Random, depth: int = 0) -> Block:
    """A random block with others in it."""
    inside = [
        blocks(random, depth + 1) if depth < 4 and random.random() < 0.55 else None
        for _ in range(random.randint(0 if depth else 2, 4))
    ]
    return [random.choice((True, False)), *inside]


def run_in(block: Block, around: tuple[tuple[bool, int], ...], seen: dict[str, Any]) -> None:
    """Run a block; note the blocks around each operation, and whether it has gradients."""
    on, *inside = block
    switch = torch.enable_grad if on else torch.no_grad
    with switch() if len(inside) % 2 else torch.set_grad_enabled(on):
        here = (*around, (on, len(seen)))
        for item in inside:
            if item is None:
                number = len(seen)
                torch.ones(number + 1).exp()
                seen[f"({number + 1},)"] = here, torch.is_grad_enabled()
            else:
                run_in(item, here, seen)


@pytest.mark.parametrize("seed", range(60))
def test_blocks_of_grad_modes_in_others(seed: int) -> None:
    """The innermost region of an operation has its mode; there are no more regions around it than
    blocks that switch the mode, and nothing is in one whose block has ended."""
    random, seen = Random(seed), dict[str, Any]()
    with torchrecorder.Recorder() as recorder:
        for _ in range(3):
            run_in(blocks(random), (), seen)
            number = len(seen)
            torch.ones(number + 1).exp()
            seen[f"({number + 1},)"] = (), True
    recording = recorder.recording
    in_region: dict[str, set[tuple[bool, int]]] = {}
    for op in recording.ops.values():
        if op.name != "exp":
            continue
        around, grad = seen[str(recording.values[op.inputs[0].value].shape)]
        chain = [recording.scopes[scope] for scope in recording.within(op.scope)]
        innermost = chain[0].kind.value if chain else "enable_grad"
        assert innermost == ("enable_grad" if grad else "no_grad"), seed
        switches = [on for place, (on, _) in enumerate(around)
                    if on != (around[place - 1][0] if place else True)]
        assert len(chain) <= len(switches)
        for region in chain:
            in_region.setdefault(region.id, set()).add(around[0])
    assert all(len(programs) == 1 for programs in in_region.values())


def test_a_block_inside_another_that_raises_ends() -> None:
    """What runs next in the outer block is directly in that."""
    with torchrecorder.Recorder() as recorder, torch.no_grad():
        x = torch.ones(2).sin()
        with contextlib.suppress(ValueError), torch.enable_grad():
            x.exp()
            raise ValueError
        x.cos()
    recording = recorder.recording
    kinds = {op.name: [recording.scopes[scope].kind.value for scope in recording.within(op.scope)]
             for op in recording.ops.values()}
    assert kinds["exp"] == ["enable_grad", "no_grad"]
    assert kinds["sin"] == kinds["cos"] == ["no_grad"]


@torch.set_grad_enabled(True)
def tan_with_gradients(x: torch.Tensor) -> torch.Tensor:
    return x.tan()


def test_set_grad_enabled_switches_before_its_block_begins() -> None:
    """The block, or that of a decorated function, is inside of the one around; a call without a
    block ends it."""
    with torchrecorder.Recorder() as recorder:
        with torch.no_grad():
            x = torch.ones(2).sin()
            with torch.set_grad_enabled(True):
                x.exp()
            tan_with_gradients(x.cos())
            x.log()
        torch.set_grad_enabled(False)
        x.neg()
        torch.set_grad_enabled(True)
        x.abs()
    recording = recorder.recording
    around = {op.name: [recording.scopes[scope].kind.value for scope in recording.within(op.scope)]
              for op in recording.ops.values()}
    inside = ["enable_grad", "no_grad"]
    assert [around[name] for name in ("sin", "exp", "tan", "cos", "log", "neg", "abs")] == [
        ["no_grad"], inside, inside, ["no_grad"], ["no_grad"], ["no_grad"], []
    ]
    regions = [scope.kind.value for scope in recording.scopes.values()]
    assert regions == ["no_grad", "enable_grad", "enable_grad", "no_grad"]
