"""Training steps repeat: they fold like layers, and cost in proportion to their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

import torchrecorder
from tests.figures import linear
from tests.views.loops import closure_of, trained
from torchrecorder.events import TRAINING, OpId, ScopeId, ScopeKind, SourceLine
from torchrecorder.graph.nodes import Op
from torchrecorder.recording import Recording
from torchrecorder.select.functions import WithFunctions
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.quiet_ops import idle_transfers
from torchrecorder.views.view import BoxKind


class Block(torch.nn.Module):
    """Two linear layers with a skip connection around them."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.b(self.a(x).relu())
        return x + y


def steps(number: int) -> Recording:
    """So many training steps of three equal blocks."""
    model = torch.nn.Sequential(Block(), Block(), Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return trained(model, optimizer, number)


def test_steps_are_one_cluster_and_the_layers_in_them_too() -> None:
    """Although each layer of all but the first reads weights that the step before has updated."""
    view = make_view(steps(5), ViewOptions())
    view.check()
    counts = Counter(cluster.count for cluster in view.clusters.values())
    assert counts[5] == 1 and counts[3] == 1, counts
    assert len(make_view(steps(9), ViewOptions()).boxes) == len(view.boxes)


def test_steps_whose_factors_change_fold_too() -> None:
    """Those of Adam are corrected by the number of the step; the first step makes its state."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    recording = trained(model, optimizer, 5)
    view = make_view(recording, ViewOptions())
    assert [c.count for c in view.clusters.values() if "AdamW" in c.names] == [5]
    updates = [scope for scope in recording.scopes.values() if scope.name == "AdamW"]
    told = {str([op.arguments for op in recording.children[scope.id]]) for scope in updates}
    assert len(told) == 5


def test_steps_of_two_optimizers_fold() -> None:
    """The second pass of a step adds to gradients that the first has left: of changed weights."""
    made, judged = torch.nn.Linear(4, 6), torch.nn.Linear(6, 1)
    both = torch.nn.ModuleDict({"maker": made, "judge": judged})
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in (judged, made)]
    with torchrecorder.Recorder(both) as recorder:
        for _ in range(5):
            fake = made(torch.ones(3, 4))
            for optimizer, x in zip(optimizers, (fake.detach(), fake)):
                optimizer.zero_grad()
                judged(x).mean().backward()
                optimizer.step()
    recording = recorder.recording
    view = make_view(recording, ViewOptions())
    view.check()
    assert 5 in {cluster.count for cluster in view.clusters.values()}
    passes = [recording.ops[run.op] for run in recording.backward_runs]
    added = {slot.name for op in passes[1::2] for slot in op.inputs[1:]}
    assert added == {"judge.weight.grad", "judge.bias.grad"}


def test_what_a_box_returned_is_found_in_proportion_to_the_run() -> None:
    """However often the same weights were written before."""
    once, twice = (_lookups(steps(number)) for number in (6, 12))
    assert twice <= 2.5 * once


def _lookups(recording: Recording) -> int:
    counted = _Counted(recording.ops)
    view = make_view(recording, ViewOptions(depth=99, fold=False))
    view = replace(view, recording=replace(recording, ops=counted))
    for arrow in view.arrows:
        view.given(arrow)
    return counted.number


class _Counted(Mapping[Any, Any]):
    """A mapping that counts how often something is looked up in it."""

    def __init__(self, inner: Mapping[Any, Any]) -> None:
        self.inner, self.number = inner, 0

    def __getitem__(self, key: Any) -> Any:
        self.number += 1
        return self.inner[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)

    def __len__(self) -> int:
        return len(self.inner)


def names(recording: Recording, **options: Any) -> list[str]:
    """The boxes of a view but inputs and constants, by class or name of an op."""
    view = make_view(recording, ViewOptions(**options))
    view.check()
    scopes, ops = recording.scopes, recording.ops
    return [
        scopes[ScopeId(box)].cls if box in scopes else ops[OpId(box)].name if box in ops else box
        for box in view.boxes
        if box not in recording.values
    ]


def scaled(clip: bool = True) -> Recording:
    """A step with a gradient scaler, clipping, and autocast around the model."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, x = torch.amp.GradScaler("cpu"), torch.ones(2, 4)
    with torchrecorder.Recorder(model) as recorder:
        with torch.autocast("cpu"):
            loss = model(x).float().sum()
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return recorder.recording


def test_what_is_done_to_gradients_is_one_box_each() -> None:
    """However small the model; the last level opens them."""
    steps_of = [
        "GradScaler.scale", "backward", "GradScaler.unscale_", "clip_grad_norm_",
        "clip_grad_value_", "SGD", "GradScaler.update",
    ]
    recording = scaled()
    assert names(recording)[-7:] == steps_of
    assert [each for each in names(scaled(clip=False)) if each in steps_of] == [
        "GradScaler.scale", "backward", "GradScaler.unscale_", "SGD", "GradScaler.update"
    ]
    opened = names(recording, depth=9)
    assert "_amp_update_scale_" in opened and not set(opened) & (set(steps_of) - {"backward"})
    assert len(recording.inputs) == 1  # of the call inside autocast


@pytest.mark.parametrize("way", ["first", "average", "foreach"])
def test_averaging_weights_is_one_box(way: str) -> None:
    """The first update copies, later ones average, and all tensors at once are a way of its own."""
    average = torch.optim.swa_utils
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
    multiple = average.get_ema_multi_avg_fn(0.9) if way == "foreach" else None
    averaged = average.AveragedModel(model, multi_avg_fn=multiple)
    if way != "first":
        averaged.update_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        averaged.update_parameters(model)
    recording = recorder.recording
    *_, passed, updated, name = names(recording)
    assert (passed, updated) == ("backward", "SGD") and name.endswith("update_parameters")
    assert ScopeKind.AVERAGING in TRAINING
    opened = names(recording, depth=9)
    assert name not in opened and len(opened) > len(names(recording))


@pytest.mark.parametrize("move", ["double", "to"])
def test_moving_a_model_is_one_box(move: str) -> None:
    """It writes each of its weights, which have the gradients of the step after it."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    with torchrecorder.Recorder(model) as recorder:
        model.double() if move == "double" else model.to(torch.float64)
        model(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
    recording = recorder.recording
    assert names(recording)[:2] == [move, "ones"]
    (moved,) = (item for item in recording.scopes.values() if item.kind is ScopeKind.TRANSFER)
    written = [op for op in recording.children[moved.id] if isinstance(op, Op) and op.writes]
    assert len(written) == len(list(model.parameters()))
    inside = {op.id for op in recording.children[moved.id]}
    assert not any(scope.parent == moved.id for scope in recording.scopes.values())
    assert not inside & {op.id for op in recording.children[None]}


@pytest.mark.parametrize("move", ["cpu", "float", "to"])
def test_a_move_that_changes_nothing_is_not_drawn(move: str) -> None:
    """As of a model on the CPU to the CPU, before and after a training; ``queries`` draws it."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torchrecorder.Recorder(model) as recorder:
        model.to("cpu") if move == "to" else getattr(model, move)()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        model.cpu()
    recording = recorder.recording
    kinds = [scope.kind for scope in recording.scopes.values()]
    assert kinds.count(ScopeKind.TRANSFER) == 2
    expected = ["ones", "Linear", "BatchNorm1d", "sum", "backward", "SGD"]
    assert names(recording) == expected
    assert names(recording, queries=True) == [move, *expected, "cpu"]
    make_view(recording, ViewOptions(depth=9)).check()


@pytest.mark.parametrize("is_own, failed", [(True, False), (False, False), (True, True)])
def test_a_move_that_assigns_other_data_is_drawn(is_own: bool, failed: bool) -> None:
    """Although no operation of the move made these data; so is one that failed."""
    run = Builder("fit")
    x, other = run.input("x"), run.input("other")
    with run.scope("to", "to", kind=ScopeKind.TRANSFER):
        run.op("set_data", x, x if is_own else other)
    run.op("exp", x)
    made = run.recording()
    move = next(op.replace(failed=failed) for op in made.ops.values())
    found = idle_transfers(replace(made, ops={**made.ops, move.id: move}))
    assert (len(found) == 1) == (is_own and not failed)


def test_a_module_is_no_move() -> None:
    """Even if all that it does is to assign a tensor to itself."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("set_data", x, x)
    assert not idle_transfers(run.recording())


def test_what_the_program_goes_on_with_is_no_output() -> None:
    """The input of a loss, and the loss that backward starts from."""
    model, loss = torch.nn.Linear(4, 4), torch.nn.MSELoss()
    with torchrecorder.Recorder(model) as recorder:
        out = model(torch.ones(2, 4))
        error = loss(out, torch.zeros(2, 4))
        error.item()
    assert [each for each in names(recorder.recording) if each.startswith("out:")] == ["out:1"]
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(2):
            loss(model(torch.ones(2, 4)), torch.zeros(2, 4)).backward()
    found = names(recorder.recording, fold=False)
    assert not any(each.startswith("out:") for each in found)
    assert found.count("backward") == 2


def test_a_step_that_holds_the_model_is_open() -> None:
    """That of LBFGS runs the model, which would not be seen."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    with torchrecorder.Recorder(model) as recorder:
        optimizer.step(closure_of(model, optimizer))
    assert "LBFGS" not in names(recorder.recording)


def _step(own: int, model: str) -> Recording:
    """A step of so many operations, three times, each time after a run of a *model* if any."""
    run = Builder("job")
    with run.scope("LBFGS", "LBFGS", kind=ScopeKind.OPTIMIZER):
        h = run.input()
        for _ in range(3):
            with run.scope("fc", model) if model else nullcontext():
                h = run.op("linear", h)
            for _ in range(own):
                h = run.op("mul", h)
    found, line = run.recording(), SourceLine("/home/me/train.py", 3, "train")
    scopes = {key: scope.replace(source=line) if scope.kind is ScopeKind.OPTIMIZER else scope
              for key, scope in found.scopes.items()}
    ops = {key: op.replace(source=line) if op.scope in found.roots else op
           for key, op in found.ops.items()}
    return replace(found, scopes=scopes, ops=ops)


def test_what_a_step_does_between_runs_of_the_model_is_one_box() -> None:
    """A search for the length of the step has hundreds of operations."""
    recording = WithFunctions()(_step(12, "Linear"))
    shown = [recording.scopes.get(ScopeId(box), None) for box in make_view(recording).boxes]
    assert [scope.cls for scope in shown if scope] == ["Linear", "LBFGS"] * 3
    step, *inside = (scope.id for scope in recording.scopes.values() if scope.cls == "LBFGS")
    held = [len(recording.children[scope]) for scope in inside]
    assert held == [12, 12, 12] and len(recording.children[step]) == 6
    assert set(recording.weight_updates) == {*inside}


@pytest.mark.parametrize("own", [1, 2])
def test_what_a_short_step_does_after_its_closure_is_one_box(own: int) -> None:
    """However few operations: they are the step, and the frame around them holds the model."""
    recording = WithFunctions()(_step(own, "Linear"))
    shown = [recording.scopes[ScopeId(box)].cls for box in make_view(recording).boxes
             if box in recording.scopes]
    assert shown == ["Linear", "LBFGS"] * 3


def test_a_step_without_the_model_is_as_it_was() -> None:
    """There is nothing to tell its operations from."""
    recording = _step(40, "")
    assert WithFunctions()(recording).scopes == recording.scopes


def _averaged(number: int) -> Recording:
    """A layer, and a region that changes so many weights of an average."""
    run = Builder("job")
    with run.scope("Net"):
        for name in ("up", "down"):
            linear(run, name, run.input())
    with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
        for place in range(number):
            run.op("lerp_", run.parameter(f"average.{place}", (2, 4 + place)))
    return run.recording()


def test_an_update_of_averages_is_one_box_where_it_is_large() -> None:
    """Small enough, it is open; and where nothing else ran, or a depth is asked for."""
    for number, depth, closed in ((100, None, 1), (5, None, 0), (100, 9, 0)):
        view = make_view(_averaged(number), ViewOptions(depth=depth))
        view.check()
        assert sum(box.kind is BoxKind.REGION for box in view.boxes.values()) == closed
    run = Builder("job")
    with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
        for place in range(100):
            run.op("sin", run.input(shape=(2, 4 + place)))
    alone = make_view(run.recording(), ViewOptions())
    assert not any(box.kind is BoxKind.REGION for box in alone.boxes.values())
