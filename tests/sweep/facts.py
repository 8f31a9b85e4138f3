"""What a recording of a model says, against other accounts of the same run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

import torchrecorder
from tests.agreement import Agreement
from tests.reach import disagreements, plain_nodes
from tests.replay import Replay, kept_run
from tests.structure import structure
from tests.witness import tensors_of
from tests.zoo.case import Run
from torchrecorder.recording import Recording
from torchrecorder.views.pipeline import ViewOptions, make_view

VIEWS = (ViewOptions(), ViewOptions(depth="ops"))
BACKWARD = (*VIEWS, ViewOptions(view="backward"))

STEPS = 2


def seeded(make: Callable[[], Run]) -> Run:
    """A model, the same each time; then the random numbers of its run."""
    _seed(0)
    made = make()
    _seed(1)
    return made


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)


def in_mode(make: Callable[[], Run], training: bool) -> Callable[[], Run]:
    """Makes the same models in training or evaluation mode."""

    def made() -> Run:
        run = make()
        run.model.train(training)
        return run

    return made


def call(run: Run) -> Any:
    """Run the model."""
    return run.model(*run.args, **(run.kwargs or {}))


def forward_problems(make: Callable[[], Run]) -> list[str]:
    """What is wrong with the recording of a forward pass in evaluation mode; empty is right.

    A witness hears every call of PyTorch and of a module; a replay runs the recorded operations
    again; autograd says which weights a gradient reaches.
    """
    evaluated = in_mode(make, False)
    run = seeded(evaluated)
    recording = torchrecorder.record(run.model, run.args, run.kwargs)
    kept = kept_run(seeded(evaluated))
    agreement = Agreement(recording, kept.witness)
    found = dict.fromkeys([*agreement.flow(kept.read), *agreement.modules()])
    replay = Replay(recording, agreement, kept.keeper)
    return [
        *_of_itself(recording, VIEWS),
        *found,
        *replay.run(kept.outputs),
        *disagreements(recording, seeded(evaluated)),
    ]


def training_problems(make: Callable[[], Run]) -> list[str]:
    """What is wrong with the recording of training steps.

    Without the recorder, the gradients must be the same, bit for bit, and the same nodes of the
    autograd graph must run, as hooks on them count.
    """
    trained = in_mode(make, True)
    run = seeded(trained)
    loss = _loss(call(run))
    if loss.grad_fn is None:
        return []
    ran: Counter[str] = Counter()
    for node in plain_nodes([loss]):
        node.register_prehook(_counter(ran, node.name().rpartition("::")[2]))
    loss.backward()
    plain = _gradients(run.model)
    run = seeded(trained)
    optimizer = torch.optim.AdamW(run.model.parameters())
    recorded: dict[str, Tensor] = {}
    with torchrecorder.Recorder(run.model) as recorder:
        for _ in range(STEPS):
            optimizer.zero_grad()
            _loss(call(run)).backward()
            recorded = recorded or _gradients(run.model)
            optimizer.step()
    recording = recorder.recording
    nodes = recording.grad_nodes
    counted = Counter(nodes[each.grad].name for each in recording.grad_runs if not each.run)
    wrong = [name for name in plain if not torch.equal(plain[name], recorded[name])]
    return [
        *_of_itself(recording, BACKWARD),
        *(["other gradients: " + ", ".join(wrong[:3])] if wrong else []),
        *([f"nodes: {ran - counted} more plainly, {counted - ran} recorded"]
          if ran != counted else []),
    ]


def _of_itself(recording: Recording, views: Iterable[ViewOptions]) -> Iterator[str]:
    """What no recording may say, and what its views may not lose."""
    yield from structure(recording)
    if recording.run.lost:
        yield f"{recording.run.lost} facts are lost"
    for options in views:
        make_view(recording, options).check()


def _loss(result: Any) -> Tensor:
    """The sum of the means of everything that has a gradient."""
    tensors = [each for each in tensors_of(result) if each.requires_grad]
    return sum((each.float().mean() for each in tensors), torch.zeros(()))


def _counter(ran: Counter[str], name: str) -> Callable[[Any], None]:
    def hook(_: Any) -> None:
        ran[name] += 1

    return hook


def _gradients(model: nn.Module) -> dict[str, Tensor]:
    named = model.named_parameters()
    return {name: each.grad.clone() for name, each in named if each.grad is not None}
