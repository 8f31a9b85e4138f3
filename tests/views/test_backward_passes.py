"""The backward view of programs with several passes: which box a node is in, and whether it ran."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from torchrecorder.views.backward import backward_view
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def test_a_double_backward_is_in_the_pass_that_made_it() -> None:
    """Closed unless the whole graph is small, or the depth is given."""
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(3)), nn.Tanh())
    with torchrecorder.Recorder(model) as recorder:
        x = torch.ones(2, 2, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
    recording = recorder.recording
    call = recording["grad"].id
    made = {grad.id for grad in recording.grad_nodes.values() if grad.owner == call}
    small = backward_view(recording, max_boxes=12)
    assert len(made) > 5 and call in small.boxes and len(small.boxes) <= 12
    assert made <= set(small.boxes[call].members)
    deep = backward_view(recording, depth=9), backward_view(recording, depth=9, max_boxes=1)
    for whole in (backward_view(recording), *deep):
        assert {whole.boxes[grad].cluster for grad in made} == {call}


def test_the_deepest_view_with_so_many_boxes_is_chosen() -> None:
    """Or the shallowest, if all have more."""
    inner = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    model = nn.Sequential(inner, nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.Linear(4, 1))
    recording = torchrecorder.record(model, torch.ones(2, 4), backward=True)
    counts = [len(backward_view(recording, depth).boxes) for depth in range(1, 8)]
    assert len({*counts}) > 3
    for most in range(1, 2 + max(counts)):
        fitting = [count for count in counts if count <= most]
        chosen = backward_view(recording, max_boxes=most)
        assert len(chosen.boxes) == max(fitting, default=counts[0])


def test_a_call_without_a_gradient_did_not_run() -> None:
    """As of a generator whose result is detached: only another call adds to its gradients. No
    gradient flows to it from this call, also after its weights were updated."""
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    optimizer = torch.optim.SGD(model.parameters())
    with torchrecorder.Recorder() as recorder:
        for _ in range(2):
            model(torch.ones(2, 3)).detach()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    recording = recorder.recording
    for depth in (0, 1):
        view = make_view(recording, ViewOptions(view="backward", depth=depth, fold=False))
        boxes = {box.id: box for box in view.boxes.values() if box.kind is BoxKind.MODULE}
        calls = sorted(boxes, key=list(recording.scopes).index)
        assert [view.is_idle(boxes[call]) for call in calls] == [True, False] * 2
        assert {(arrow.tail, arrow.head) for arrow in view.arrows if arrow.tail in boxes} == set()
    opened = make_view(recording, ViewOptions(view="backward", depth=9))
    kinds = {box.kind for box in opened.boxes.values() if box.id in recording.values}
    assert kinds == {BoxKind.PARAMETER}


def test_boxes_are_counted_at_the_depth_at_which_they_are_drawn() -> None:
    """A checkpoint, as other regions, is as deep as the scope around it."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(
                nn.Sequential(*(nn.Linear(3, 3) for _ in range(9))) for _ in range(6)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x

    recording = torchrecorder.record(Checkpointed(), torch.ones(2, 3), backward=True)
    assert len(backward_view(recording).boxes) == 6
