"""What a program computes outside of modules, and still has after the block, is an output."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import torchrecorder
from torchrecorder.recording import Recording
from torchrecorder.select.functions import WithFunctions
from torchrecorder.views.view import BoxKind

BATCHES = [(torch.ones(2, 3), torch.zeros(2, 3)), (torch.zeros(2, 3), torch.ones(2, 3))]


def makers(recording: Recording) -> list[str]:
    """The names of the ops that made the outputs."""
    values = recording.values
    return [recording.ops[values[slot.value].producer].name for slot in recording.outputs]


def idle(recording: Recording) -> bool:
    """Whether a figure calls something unused."""
    return ">unused<" in torchrecorder.make_dot(recording, depth=9).source


@torch.no_grad()
def sample(model: nn.Module) -> Tensor:
    """Improves noise step by step."""
    x = torch.rand(2, 3)
    for _ in range(3):
        x = x - model(x)
    return x.clamp(0, 1)


def test_the_result_of_a_function_is_an_output() -> None:
    """It is drawn as one, and the loop that leads to it is not dotted; dropped, it is unused."""
    model = nn.Linear(3, 3)
    with torchrecorder.Recorder(model) as kept:
        image = sample(model)
    with torchrecorder.Recorder(model) as dropped:
        sample(model)
    assert makers(kept.recording)[3:] == ["clamp"] and not idle(kept.recording)
    assert makers(dropped.recording)[3:] == [] and idle(dropped.recording)
    boxes = torchrecorder.view(kept.recording).boxes.values()
    assert [box.kind for box in boxes].count(BoxKind.OUTPUT) == 1
    assert image.shape == (2, 3)


def test_a_function_returns_what_the_program_has() -> None:
    """And not what a module returned to it, unless nothing in it reads that."""
    model, other = nn.Linear(3, 4), nn.Linear(3, 5)

    def explain(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(model(x.requires_grad_()).sum(), x)
        other(x)
        return (gradient * x).abs().mean(0)

    with torchrecorder.Recorder() as recorder:
        x = torch.rand(2, 3) * 1
        found = explain(x.detach())
    grouped = WithFunctions(True)(recorder.recording)
    scope = next(scope for scope in grouped.scopes.values() if scope.name == "explain")
    assert [grouped.values[slot.value].shape for slot in scope.outputs] == [(2, 5), found.shape]


def test_a_result_that_is_only_checked_is_an_output() -> None:
    """As in a loop that generates tokens until all sequences have ended."""
    model = nn.Linear(3, 3)

    def generate(ids: Tensor) -> Tensor:
        ended = torch.zeros(2, dtype=torch.bool)
        while not ended.all():
            ids = torch.cat([ids, model(ids[:, -3:]).abs()[:, :1]], 1)
            ended = ended | (ids[:, -1] > 0) | torch.full((2,), ids.shape[1] > 5)
        return ids

    with torchrecorder.Recorder(model) as recorder:
        ids = generate(torch.zeros(2, 4) - 1)
    assert makers(recorder.recording)[-1] == "cat" and not idle(recorder.recording)
    assert ids.shape[0] == 2 and "linear" in makers(recorder.recording)


def test_what_an_iteration_drops_is_unused_in_all() -> None:
    """The variable has the last one still, but nothing is going to read it; a list has all."""
    model = nn.Linear(3, 3)
    outputs = {}
    for keeps in (False, True):
        collected = []
        with torchrecorder.Recorder(model) as recorder:
            for x, y in BATCHES:
                loss = F.mse_loss(found := model(x), y)
                loss.backward()
                guess = found.argmax(1)
                if keeps:
                    collected.append(guess)
        outputs[keeps] = makers(recorder.recording)
        assert idle(recorder.recording) != keeps and guess.shape == (2,)
    assert outputs == {False: ["linear"] * 2, True: [*["linear"] * 2, *["argmax"] * 2]}


def test_what_is_read_or_copied_is_no_output() -> None:
    """Nor are losses without their graph, gradients, states of optimizers, and new tensors."""
    model = nn.Linear(3, 3)
    optimizer = torch.optim.Adam(model.parameters())
    with torchrecorder.Recorder(model) as recorder:
        seed = torch.ones(3)
        loss = model(torch.rand(2, 3)).sum()
        shown = loss.detach()
        loss.backward()
        optimizer.step()
        total = torch.zeros(3).add_(1)
        twice = torch.ones_like(total) * 2
        half, rest = twice.split([1, 2])
        end = half.item()
    assert makers(recorder.recording) == ["linear"]
    assert (seed.sum(), shown, rest.sum(), end) == (3, loss, 4, 2)


@torch.no_grad()
def filled(model: nn.Module) -> Tensor:
    found = torch.empty(3, 2, 3)
    for place in range(3):
        found[place] = model(torch.rand(2, 3))
    return found


@torch.no_grad()
def added(model: nn.Module) -> Tensor:
    found = 0
    for _ in range(3):
        found += model(torch.rand(2, 3)).sum()
    assert isinstance(found, Tensor)
    return found


@torch.no_grad()
def stored(model: nn.Module) -> Tensor:
    return torch.exp(model(torch.rand(2, 3)), out=torch.empty(2, 3))


@pytest.mark.parametrize(
    "run, last", [(filled, "setitem"), (added, "add_"), (stored, "exp")]
)
def test_what_is_written_to_memory_of_the_run_is_an_output(
    run: Callable[[nn.Module], Tensor], last: str
) -> None:
    """But not what is written to memory from before the run, or to weights, such as averages."""
    model, average = nn.Linear(3, 3), torch.zeros(3)
    with torchrecorder.Recorder(model) as recorder:
        kept = run(model)
        copied = copy.deepcopy(model)
        with torch.no_grad():
            part = average[:2].lerp_(model.bias[:2], 0.1)
            for each, new in zip(copied.parameters(), model.parameters()):
                each.lerp_(new, 0.1)
    found = [name for name in makers(recorder.recording) if name != "linear"]
    assert found == [last] and kept.isfinite().all() and part.any()


def test_a_move_that_changes_nothing_returns_what_it_reads() -> None:
    """As it would return a copy on another device."""
    model = nn.Linear(3, 3)
    with torchrecorder.Recorder(model) as recorder:
        found = model(torch.rand(2, 3)).argmax(1).cpu()
    assert makers(recorder.recording) == ["linear", "argmax"] and not idle(recorder.recording)
    assert found.shape == (2,)


def test_what_a_module_keeps_is_no_output() -> None:
    """It is not outside of calls."""

    class Caches(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.last = x.cos()
            return x.sin()

    model = Caches()
    with torchrecorder.Recorder(model) as recorder:
        model(torch.ones(2))
    assert makers(recorder.recording) == ["sin"]


def test_after_an_error_nothing_is_a_result() -> None:
    """Its traceback has the variables of all functions."""

    def fails(x: Tensor) -> Tensor:
        found = x.sin()
        if len(x) < 3:
            raise ValueError("too few")
        return found

    with pytest.raises(ValueError, match="too few"), torchrecorder.Recorder() as recorder:
        fails(torch.ones(2) * 2)
    assert recorder.recording.outputs == ()


def test_a_gradient_is_followed_to_what_is_held() -> None:
    """If no backward pass ran, it is only this that a weight that leads to it lacks."""
    model, reasons = nn.Linear(3, 1), []
    for keeps in (False, True):
        with torchrecorder.Recorder(model) as recorder:
            with torch.no_grad():
                model(torch.ones(1, 3))
            loss = F.linear(torch.ones(1, 3), model.weight).relu()
            if not keeps:
                del loss
        reasons.append(recorder.recording.why_no_gradient("weight").reason)
    assert reasons == ["left autograd", "no backward"] and loss.requires_grad


SCRIPT = """
with torchrecorder.Recorder() as recorder:
    scores = model(x)
    best = scores.topk(2)
    for _ in range(3):
        means.append((model(x) * 2).mean())
    _hidden = scores.exp()
"""


def test_outputs_are_called_as_the_variables_of_the_script() -> None:
    """Those of a loop are one box, with the first and last name."""
    held = {"torchrecorder": torchrecorder, "model": nn.Linear(3, 3), "x": torch.ones(2, 3),
            "means": []}
    exec(compile(SCRIPT, "script.py", "exec"), held)
    recording = held["recorder"].recording
    assert [slot.name for slot in recording.outputs if slot.name] == [
        "best.0", "best.1", "means.0", "means.1", "means.2"
    ]
    dot = torchrecorder.make_dot(recording).source
    assert "means.0 … means.2" in dot and "best.1" in dot


@pytest.mark.parametrize("use_reentrant", [True, False, None])
@pytest.mark.parametrize("backward", [True, False])
def test_the_result_of_a_checkpoint_is_an_output(
    use_reentrant: bool | None, backward: bool
) -> None:
    """Not what the backward pass computes again; as without a checkpoint (None)."""
    x = torch.ones(3, requires_grad=True)
    with torchrecorder.Recorder() as recorder:
        if use_reentrant is None:
            y = x.exp().sin()
        else:
            y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=use_reentrant)
        if backward:
            y.sum().backward()
    assert makers(recorder.recording) == ["sin"] and y.shape == (3,)
