"""Operations by the Python functions that ran them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.figures import name
from torchrecorder import drawing
from torchrecorder.graph.codec import decode, encode
from torchrecorder.graph.consistency import problems
from torchrecorder.recording import Recording
from torchrecorder.select.functions import MAX_DIRECT_OPS, WithFunctions
from torchrecorder.select.group import GroupSiblings
from torchrecorder.style.loops import feedback, next_round
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View

PASTED = 8


def paste(mask: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """Four operations."""
    return ((mask + box) * 2).relu() - 1


def paste_all(masks: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    return torch.stack([paste(mask, box) for mask, box in zip(masks, boxes)])


def scale(boxes: torch.Tensor) -> torch.Tensor:
    return boxes.sigmoid() * 4


class Pasting(nn.Module):
    """More loose operations than a scope shows."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, masks: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            boxes = scale(boxes) + 1
        return paste_all(self.head(masks), boxes)


def recorded() -> Recording:
    return torchrecorder.record(Pasting(), (torch.rand(PASTED, 4), torch.rand(PASTED, 4)))


def drawn(recording: Recording, **options: Any) -> View:
    view = drawing.view(recording, **options)
    view.check()
    return view


def paths(view: View) -> list[str]:
    """The paths of the scopes that are boxes and clusters."""
    scopes = view.recording.scopes
    return [scopes[item].path for item in (*view.clusters, *view.boxes) if item in scopes]


def test_a_large_scope_shows_its_functions():
    """Loose operations stand in frames of functions; equal calls fold."""
    recording = recorded()
    loose = [op for op in recording.ops.values() if op.outputs and op.scope == recording.roots[0]]
    assert len(loose) > MAX_DIRECT_OPS
    view = drawn(recording)
    assert "paste_all" in paths(view) and "paste_all.paste" in paths(view)
    folded = [part for part in (*view.boxes.values(), *view.clusters.values()) if part.count > 1]
    assert [part.count for part in folded] == [PASTED]
    dot = torchrecorder.make_dot(recording).source
    assert "paste_all()" in dot and f"paste()  ×{PASTED}" in dot
    line = paste.__code__.co_firstlineno
    tooltips = [group.tooltip for group in drawing.figure(recording).groups]
    assert any(f"paste, defined at test_functions.py:{line}" in text for text in tooltips)


def test_a_function_alone_in_its_scope_is_no_level():
    """What holds all of the scope around it, or one operation, is not drawn as a frame."""

    def whole(x: torch.Tensor) -> torch.Tensor:
        for _ in range(MAX_DIRECT_OPS + 1):
            x = alone(x)
        return x

    def alone(x: torch.Tensor) -> torch.Tensor:
        return x.relu()

    recording = torchrecorder.record(lambda x: whole(x), (torch.rand(2),), name="run")
    assert WithFunctions(True)(recording) is recording


def test_small_scopes_stay_as_they_are():
    """Below the limit nothing changes, unless it is asked for; none can be asked for too."""

    def small(x: torch.Tensor) -> torch.Tensor:
        return scale(x) + scale(x + 1)

    recording = torchrecorder.record(small, (torch.rand(2),))
    assert WithFunctions()(recording) is recording
    assert paths(drawn(recording, functions=True, fold=False, depth=1)).count("scale") == 2
    recording = recorded()
    assert WithFunctions(False)(recording) is recording


def test_calls_of_a_function_are_grouped_alike():
    """A short call, such as the last epoch of a training loop, shows the functions that a long
    call beside it shows."""

    def epoch(x: torch.Tensor, steps: int) -> torch.Tensor:
        for _ in range(steps):
            x = scale(x) + 1
        return x

    def run(x: torch.Tensor) -> torch.Tensor:
        return epoch(epoch(x, 1).relu(), MAX_DIRECT_OPS).relu()

    recording = torchrecorder.record(run, (torch.rand(2),))
    assert paths(drawn(recording, fold=False, depth=3)).count("epoch.scale") == MAX_DIRECT_OPS + 1


def test_functions_in_a_region_stay_in_it():
    """A function that ran in ``no_grad`` as a whole stands in that region."""
    view = drawn(recorded(), functions=True, depth=99, fold=False)
    (scaled,) = (item for item in view.clusters if name(view, item) == "scale")
    around = view.recording.scopes[view.clusters[scaled].parent]
    assert around.kind.value == "no_grad"


@pytest.mark.parametrize("wanted", [None, True])
def test_every_edge_stays(wanted):
    """Ops, values and what flows between them are those of the recording; it can be saved."""
    recording = recorded()
    grouped = WithFunctions(wanted)(recording)
    assert list(problems(grouped)) == []
    assert set(grouped.graph.edges) == set(recording.graph.edges)
    assert set(grouped.graph.nodes) == set(recording.graph.nodes)
    assert decode(encode(grouped), Recording).scopes == grouped.scopes
    inside = {op.id: op for op in grouped.ops.values()}
    for scope in grouped.scopes.values():
        if scope.id not in recording.scopes:
            members = [op for op in inside.values() if scope.id in grouped.within(op.scope)]
            made = {value for op in members for value in op.outputs}
            read = {slot.value for op in members for slot in op.inputs} - made
            outside = [op for op in inside.values() if op not in members]
            used = {slot.value for op in outside for slot in op.inputs}
            used |= {slot.value for slot in recording.outputs}
            assert {slot.value for slot in scope.inputs} == read
            assert {slot.value for slot in scope.outputs} == made & used


def test_with_a_made_up_group():
    """Functions are found inside a group, too."""
    recording = recorded()
    ops = [op.id for op in recording.ops.values() if op.scope == recording.roots[0]]
    grouped = WithFunctions()(GroupSiblings({"All": ops})(recording))
    assert list(problems(grouped)) == []
    (paste_scope, *_) = (scope for scope in grouped.scopes.values() if scope.name == "paste")
    assert "All" in [grouped.scopes[outer].name for outer in grouped.within(paste_scope.parent)]


def test_functions_have_names_in_options():
    """They are closed, hidden and focused on by path, as modules are."""
    recording = recorded()
    assert "paste_all" in paths(drawn(recording, closed="paste_all", depth=9))
    assert not any(box.count > 1 for box in drawn(recording, closed="paste_all").boxes.values())
    focused = drawn(recording, focus="paste_all")
    assert [scope.name for scope in focused.recording.scopes.values()][0] == "paste_all"


def test_functions_are_found_and_listed():
    """`find` gives the calls, `paths` starts at them, and the table has a line for them."""
    recording = recorded()
    assert len(recording.find("paste")) == PASTED
    assert recording.find("paste_all") == [
        call for call in recording.function_calls.values() if call.name == "paste_all"
    ]
    assert recording.paths("scale", "paste_all").total
    assert f"paste()  ×{PASTED}" in recording.summary()


class Collater:
    """An object that is called, and a class whose constructor computes."""

    def __init__(self, start: torch.Tensor) -> None:
        self.start = start.exp().log()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return (x + self.start).relu() - 1


def test_what_is_called_is_titled_by_its_class():
    """No program writes ``__call__``; the function can still be found by its name."""

    def collated(x: torch.Tensor) -> torch.Tensor:
        return Collater(x)(x) * 2

    recording = torchrecorder.record(collated, (torch.ones(3),))
    if sys.version_info < (3, 11):  # whose code objects do not know their class
        return
    assert paths(drawn(recording, functions=True)).count("Collater") == 2
    (called,) = recording.find("__call__")
    assert called in recording.find("Collater")


def test_what_a_function_is_given_stands_outside_of_it():
    """A tensor that was there before, such as the targets of a loss: its arrow enters the frame."""

    def loss(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (x - targets).square().mean()

    targets = torch.ones(4)
    with torchrecorder.Recorder() as recorder:
        x = torch.rand(4).exp()
        loss(x, targets).sqrt()
    view = drawn(recorder.recording, functions=True, depth=0)
    kinds = BoxKind.INPUT, BoxKind.CONSTANT  # one without a name is a constant
    (given,) = (box for box in view.boxes.values() if box.kind in kinds)
    (arrow,) = (arrow for arrow in view.arrows if arrow.tail == given.id)
    assert given.cluster is None and name(view, arrow.head) == "loss"


def check(x: torch.Tensor) -> None:
    """Only asks."""
    assert not torch.isnan(x).any() and (x[1:] >= x[:-1]).all()


def solve(x: torch.Tensor) -> torch.Tensor:
    """A loop with a check in each round."""
    for place in range(1, 5):
        x = torch.sin(x * place) + x
        check(x)
    return x


@pytest.mark.parametrize("depth", [1, 2, None])
def test_a_function_that_only_asks_has_no_box(depth):
    """It returns nothing, and what it compares has no box either."""
    recording = torchrecorder.record(solve, torch.arange(3.0))
    view = drawn(recording, functions=True, depth=depth)
    assert not [path for path in paths(view) if "check" in path]
    shown = drawn(recording, functions=True, depth=depth, queries=True)
    assert [path for path in paths(shown) if "check" in path]
    assert "check" in str(recording.function_calls)


def test_a_function_that_only_asks_is_drawn_alone():
    """A figure of nothing else would be empty."""
    recording = torchrecorder.record(check, torch.arange(3.0))
    assert drawn(recording, functions=True, depth=1).boxes


def test_training_steps_in_a_function():
    """Each is given the batch, and no weights, though the step before has updated these; what is
    carried over is that of a loop without a function."""
    model, batch = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.ones(2, 4)
    optimizer = torch.optim.Adam(model.parameters())

    def train_step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    with torchrecorder.Recorder() as recorder:
        for _ in range(4):
            train_step(batch)
    recording = recorder.recording
    view = make_view(recording, ViewOptions(functions=True))
    steps = [scope for scope in view.recording.scopes.values() if scope.name == "train_step"]
    assert all(step.inputs[0].value == recording.inputs[0].value for step in steps)
    assert not any(slot.value in recording.stored for step in steps for slot in step.inputs)
    (loop,) = [cluster for cluster in view.clusters.values() if cluster.count > 1]
    assert (loop.id, loop.count) == (steps[0].id, 4)
    caption = next_round(view, feedback(view, loop))
    assert caption == "carried over: weights, state tensors"


def test_layers_in_a_function_are_no_loop():
    """Each call of the function runs another module."""
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)]

    def run(layer, x):
        return layer(x) + 1

    with torchrecorder.Recorder() as recorder:
        x = torch.ones(2, 4)
        for layer in layers:
            x = run(layer, x)
    view = make_view(recorder.recording, ViewOptions(functions=True))
    (chain,) = [cluster for cluster in view.clusters.values() if cluster.count > 1]
    assert view.recording.scopes[chain.id].name == "run"
    assert chain.count == 4 and chain.carried and not feedback(view, chain)


def test_a_function_that_is_called_with_its_result_is_a_loop():
    """The same code runs in each iteration, without a module."""

    def refine(x):
        return (x.sin() * 2).relu()

    with torchrecorder.Recorder() as recorder:
        x = torch.ones(2, 4)
        for _ in range(4):
            x = refine(x)
    view = make_view(recorder.recording, ViewOptions(functions=True))
    (loop,) = [cluster for cluster in view.clusters.values() if cluster.count > 1]
    assert view.recording.scopes[loop.id].name == "refine"
    assert next_round(view, feedback(view, loop)) == "carried over: 2×4"


def test_results_come_before_what_a_function_writes():
    """A step returns its loss; the buffers and the state of the optimizer are outputs after it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach() * 2

    with torchrecorder.Recorder() as recorder:
        sum(step(torch.rand(3, 4)) for _ in range(2)).sqrt()
    recording = WithFunctions(True)(recorder.recording)
    first, _ = (scope for scope in recording.scopes.values() if scope.name == "step")
    result, *states = first.outputs
    assert recording.ops[recording.values[result.value].producer].name == "mul"
    names = " ".join(name for slot in states for name in recording.values[slot.value].names)
    assert all(state in names for state in ("0.weight ", "1.running_mean ", "0.weight.exp_avg "))
    assert [slot.name for slot in first.outputs] == [*map(str, range(len(first.outputs)))]
