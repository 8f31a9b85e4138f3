"""Whole training steps, in one process and in two: scopes, edges, and an unchanged result."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
from pathlib import Path

import networkx as nx
import pytest
import torch
from torch import nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

import torchrecorder
from tests.capture.joined_ranks import TASKS
from tests.structure import structure
from tests.work import lines_run
from torchrecorder.events import Role, ScopeKind

pytestmark = pytest.mark.usefixtures("strict")


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def _loss(model):
    return model(torch.ones(2, 3)).square().sum()


def _train(model, optimizer):
    for _ in range(2):
        optimizer.zero_grad()
        _loss(model).backward()
        optimizer.step()


def _everything(model, optimizer):
    """Weights, gradients and the optimizer's own state."""
    state = [
        each
        for parameter in model.parameters()
        for each in optimizer.state[parameter].values()
        if isinstance(each, torch.Tensor)
    ]
    parameters = list(model.parameters())
    return [*parameters, *(each.grad for each in parameters), *state]


def _steps(recording):
    return [each for each in recording.scopes.values() if each.kind is ScopeKind.OPTIMIZER]


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
        (torch.optim.Adagrad, {"fused": True}),
        (torch.optim.Adam, {"foreach": True, "amsgrad": True}),
        (torch.optim.AdamW, {"foreach": False}),
        (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
        (torch.optim.RMSprop, {}),
    ],
)
def test_a_step_of_an_optimizer_is_a_scope(optimizer, options):
    """Two steps are two scopes; all comes out as without us; what is read next was written."""
    plain = _model()
    alone = optimizer(plain.parameters(), lr=0.1, **options)
    _train(plain, alone)
    model = _model()
    watched = optimizer(model.parameters(), lr=0.1, **options)
    with torchrecorder.Recorder(model) as recorder:
        _train(model, watched)
    assert all(map(torch.equal, _everything(plain, alone), _everything(model, watched)))
    recording = recorder.recording
    assert structure(recording) == []
    steps = _steps(recording)
    assert [each.name for each in steps] == [optimizer.__name__] * 2
    assert not any(each.failed for each in steps)
    later = [op for op in recording.ops.values() if op.name == "linear"][2:]
    for op in later:
        for slot in op.inputs[1:]:
            writer = recording.ops[recording.values[slot.value].producer]
            assert slot.value in writer.writes
            assert steps[0].id in recording.within(writer.scope)


def test_a_step_without_gradients_is_a_scope():
    """No operation runs in it."""
    model = _model()
    with torchrecorder.Recorder(model) as recorder:
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    (step,) = _steps(recorder.recording)
    assert step.name == "SGD" and not recorder.recording.children[step.id]


def test_fused_steps_write_what_changes():
    """A fused step writes its lists; gradients only where it is told a scale."""
    for scaled in (False, True):
        parameter, gradient = torch.ones(2), torch.ones(2)
        state = [torch.zeros(2), torch.zeros(2), torch.ones(())]
        scale = torch.tensor(2.0) if scaled else None

        def run():
            torch._fused_adamw_(
                [parameter], [gradient], [state[0]], [state[1]], [], [state[2]], grad_scale=scale,
                lr=0.1, beta1=0.9, beta2=0.9, weight_decay=0.0, eps=1e-8, amsgrad=False,
                maximize=False,
            )

        kept = [each.clone() for each in (parameter, gradient, *state)]
        recording = torchrecorder.record(run)
        changed = [
            not torch.equal(one, other)
            for one, other in zip(kept, (parameter, gradient, *state))
        ]
        (op,) = recording.ops.values()
        assert changed == [True, scaled, True, True, False]
        assert len(op.writes) == sum(changed)


def test_a_step_with_a_closure_holds_the_model():
    """What the closure runs lies inside the step; its calls of the model are scopes there."""
    model = _model()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = _loss(model)
        loss.backward()
        return loss

    with torchrecorder.Recorder(model) as recorder:
        optimizer.step(closure)
    recording = recorder.recording
    (step,) = _steps(recording)
    calls = [each for each in recording.scopes.values() if each.cls == "Sequential"]
    assert len(calls) > 1
    assert {each.parent for each in calls} == {step.id}
    assert structure(recording) == []


def test_a_closure_gives_the_run_its_inputs_and_outputs():
    """What it gives to the model, and what that returns and nothing reads, as without a closure."""
    model, batch = _model(), torch.ones(2, 3)
    optimizer = torch.optim.SGD(model.parameters())

    def closure():
        model(batch)
        return model(batch).sum()

    with torchrecorder.Recorder(model) as recorder:
        optimizer.step(closure)
    recording = recorder.recording
    assert [recording.values[slot.value].role for slot in recording.inputs] == [Role.INPUT]
    assert len(recording.outputs) == 2
    shapes = torchrecorder.figure(recording, depth=0, fold=False).shapes
    assert [shape.kind for shape in shapes].count("output") == 1


def test_a_step_that_raises_ends():
    """What runs after a step that raised does not lie inside it."""

    class Odd(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            raise ValueError("odd")

    model = _model()
    optimizer = Odd(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        _loss(model).backward()
        with pytest.raises(ValueError, match="odd"):
            optimizer.step()
        _loss(model)
    recording = recorder.recording
    last = list(recording.ops.values())[-1]
    assert last.name == "sum" and last.scope is None
    assert [each.name for each in _steps(recording)][:1] == ["Odd"]
    assert structure(recording) == []


def test_a_step_ends_when_it_ends():
    """The time until the next op is no time of the optimizer's; hooks are taken off again."""
    model = _model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    heard = _global_optimizer_pre_hooks, _global_optimizer_post_hooks
    before = list(map(len, heard))
    with torchrecorder.Recorder(model) as recorder:
        _loss(model).backward()
        optimizer.step()
        time.sleep(0.3)
        _loss(model)
    (step,) = _steps(recorder.recording)
    assert step.seconds < 0.3
    assert list(map(len, heard)) == before


def test_scaled_gradients():
    """A gradient scaler's ops and its optimizer's step form one unbroken path."""
    model = _model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with torchrecorder.Recorder(model) as recorder:
        scaler.scale(_loss(model)).backward()
        scaler.step(optimizer)
        scaler.update()
        model(torch.ones(1, 3))
    recording = recorder.recording
    unscale = next(op for op in recording.ops.values() if "unscale" in op.name)
    last = list(recording.ops.values())[-1]
    assert unscale.id in nx.ancestors(recording.graph, last.id)
    assert structure(recording) == []


def test_gradients_of_several_passes_are_added_up():
    """An optimizer reads what every pass since the gradients were cleared has added."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(1, 3)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    recording = recorder.recording
    assert structure(recording) == []
    passes = [op.id for op in recording.ops.values() if op.name == "backward"]
    steps = [scope.id for scope in recording.scopes.values() if scope.cls == "SGD"]
    added = [op for op in recording.ops.values() if op.scope in steps and op.writes]
    assert len(added) == 8
    for number, op in enumerate(added):
        behind = nx.ancestors(recording.graph, op.id)
        expected = passes[:4] if number < 4 else passes
        assert [each for each in passes if each in behind] == expected, op


def test_a_gradient_that_one_pass_gave_has_one_maker():
    """Passes that did not reach a weight have no part in its gradient."""
    first, second = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    with torchrecorder.Recorder(torch.nn.ModuleList([first, second])) as recorder:
        first(torch.ones(1, 2)).sum().backward()
        second(torch.ones(1, 2)).sum().backward()
        first.weight.grad * 2
    recording = recorder.recording
    passes = [op.id for op in recording.ops.values() if op.name == "backward"]
    last = list(recording.ops.values())[-1]
    behind = nx.ancestors(recording.graph, last.id)
    assert [each for each in passes if each in behind] == passes[:1]


def test_a_known_gradient_is_read_without_work():
    """Optimizers read each gradient many times in a step: only the first time says something."""
    model = _model()
    weight = model[0].weight
    with torchrecorder.Recorder(model) as recorder:
        _loss(model).backward()
        norm = weight.grad.norm()
        reads = lines_run(lambda: [weight.grad for _ in range(50)])
        ops = lines_run(lambda: [norm.abs() for _ in range(50)])
        weight.grad = None
        nothing = lines_run(lambda: [weight.grad for _ in range(50)])
    assert max(reads, nothing) < ops / 4
    first, *rest = [op for op in recorder.recording.ops.values() if op.name in ("norm", "abs")]
    backward = [op.id for op in recorder.recording.ops.values() if op.name == "backward"]
    assert nx.ancestors(recorder.recording.graph, first.id) >= {*backward}
    assert len(rest) == 50


class _Halving(torch.optim.Optimizer):
    """A step that changes modes between its operations, and calls a module."""

    def __init__(self, model):
        super().__init__(model.parameters(), {})
        self.model, self.x = model, torch.ones(1, 3)

    def step(self, closure=None):
        with torch.no_grad():
            for weight in (self.param_groups[0]["params"][0],) * 2:
                weight.mul_(0.5)
                weight.mul_(0.5)
                with torch.autocast("cpu"):
                    weight.add(1)
                    weight.add(1)
                self.model(self.x)
                weight.mul_(0.5)


def test_modes_and_modules_inside_a_step():
    """What runs in a step stays in the one scope of the step, and a mode's is the mode's own."""
    model = nn.Sequential(nn.Linear(3, 3))
    halving = _Halving(model)
    with torchrecorder.Recorder(model) as recorder:
        halving.step()
        model(halving.x)
    recording = recorder.recording
    (step,) = _steps(recording)
    inside = [
        recording.scopes[op.scope].kind.value if op.scope != step.id else op.name
        for op in recording.ops.values()
    ]
    turn = ["mul_", "mul_", "autocast", "autocast", "module", "mul_"]
    assert inside == [*turn, *turn, "module"]
    assert len(recording.scopes) == 1 + 2 * 3 + 2
    assert structure(recording) == []


def test_a_copy_inside_a_step_is_a_region_in_it():
    """As of a model that the optimizer goes back to."""
    model = _model()

    class Kept(torch.optim.SGD):
        def step(self, closure=None):
            self.before = copy.deepcopy(model)
            return super().step(closure)

    with torchrecorder.Recorder(model) as recorder:
        _train(model, Kept(model.parameters(), lr=0.1))
    recording = recorder.recording
    copies = [each for each in recording.scopes.values() if each.kind is ScopeKind.TRANSFER]
    assert [each.name for each in copies] == ["deepcopy"] * 2
    outer = [each for each in _steps(recording) if each.parent is None]
    assert [each.parent for each in copies] == [each.id for each in outer]
    assert all(recording.children[each.id] for each in copies)


# Two processes ------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes(tmp_path):
    """On each rank: the same results as without us, and a sound recording.

    Two processes do all tasks, one after the other: their starts would take most of the time.
    What they print names the task that failed.
    """
    tasks = ["collectives", "ddp", "dtensor"]
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 7):  # 2.6 shards on GPUs only
        tasks += ["fsdp", *TASKS]
    ranks = [_start(rank, tmp_path / "meeting", tasks) for rank in (0, 1)]
    try:
        told = [process.communicate(timeout=240)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0, 0], "\n".join(told)


def _start(rank, meeting, tasks):
    """One process; they find each other through a file, so no port can be taken."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.capture.ranks"]
    return subprocess.Popen(
        [*command, str(rank), str(meeting), *tasks],
        cwd=Path(__file__).parent.parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_step_of_an_optimizer_is_one_box_in_a_usual_figure():
    """What it does to each weight would be more than all of the model."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(8)))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    shown = torchrecorder.view(recorder.recording, fold=False)
    assert [box.id for box in shown.boxes.values()].count(
        next(each.id for each in recorder.recording.scopes.values() if each.cls == "Adam")
    ) == 1
    assert len(shown.boxes) < 40
    assert len(torchrecorder.view(recorder.recording, fold=False, depth=9).boxes) > 80
