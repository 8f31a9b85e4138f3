"""Training memory: the memory of a training step, estimated from a recording of the model."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple, Union

from torchrecorder.annotations import unmeasured
from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.annotations.annotation import is_unmeasured
from torchrecorder.annotations.memory import SAVED_BYTES
from torchrecorder.annotations.parameters import BUFFER_BYTES, PARAMETER_BYTES, stored
from torchrecorder.annotations.places import calls_of_passes
from torchrecorder.checks import Check, check_one, whole_number
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.events import BYTES_SAVED, GradId, Role
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of

_STEP = 4
"""Bytes of a scalar in the state of an optimizer, such as the step count in float32."""

STATES: Mapping[str, tuple[int, int]] = {
    "sgd": (0, 0),
    "sgd with momentum": (1, 0),
    "adadelta": (2, 1),
    "adagrad": (1, 1),
    "adam": (2, 1),
    "adam with amsgrad": (3, 1),
    "adamax": (2, 1),
    "adamw": (2, 1),
    "adamw with amsgrad": (3, 1),
    "nadam": (2, 2),
    "radam": (2, 1),
    "rmsprop": (1, 1),
    "rprop": (2, 1),
}
"""The state of PyTorch's optimizers per parameter: number of tensors of its size, and of
scalars."""

_COUNT = whole_number(0)
OPTIMIZER = Check(
    f"one of {', '.join(map(repr, STATES))}, or its number of tensors of the size of a weight",
    lambda value: value in STATES if isinstance(value, str) else _COUNT.holds(value),
    tuple(STATES),
)


class TrainingMemory(NamedTuple):
    """Bytes that a training step needs; ``str()`` of it is a table.

    Attributes:
        weights: Parameters.
        buffers: Such as running averages.
        gradients: Of all parameters that require grad.
        optimizer: The state of the optimizer.
        saved: Tensors saved for backward, including inputs.
    """

    weights: int
    buffers: int
    gradients: int
    optimizer: int
    saved: int

    @property
    def total(self) -> int:
        """The sum: about the memory in use at the end of forward."""
        return sum(self)

    def __str__(self) -> str:
        rows = [*self._asdict().items(), ("total", self.total)]
        wide = max(len(of_bytes(amount)) for _, amount in rows)
        return "\n".join(f"{name:<10}{of_bytes(amount):>{wide}}" for name, amount in rows)


def training_memory(recording: RecordedRun, optimizer: Union[str, int] = "adamw") -> TrainingMemory:
    """See `torchrecorder.Recording.training_memory`."""
    check_one("optimizer", optimizer, OPTIMIZER)
    saved = SAVED_BYTES.on(recording)
    if is_unmeasured(saved):
        raise UnknownAnnotation(unmeasured(recording, SAVED_BYTES))
    weights = PARAMETER_BYTES.on(recording)
    parameters = stored(recording, Role.PARAMETER)
    trained = [int(weights.by_node[item.id]) for item in parameters if item.trainable]
    copies, numbers = STATES[optimizer] if isinstance(optimizer, str) else (optimizer, 0)
    return TrainingMemory(
        weights=int(weights.total()),
        buffers=int(BUFFER_BYTES.on(recording).total()),
        gradients=sum(trained),
        optimizer=copies * sum(trained) + numbers * _STEP * len(trained),
        saved=_most_at_once(recording, recording.measured.get(BYTES_SAVED, {})),
    )


def _most_at_once(recording: RecordedRun, saved: Mapping[str, float]) -> int:
    """The most bytes saved at one time: the last run of a grad node releases what it saved."""
    begins = {node: _made_at(recording, node) for node in saved}
    ends = {number: call.index for number, call in calls_of_passes(recording).items()}
    last = {run.grad: run.run for run in recording.grad_runs if run.run in ends}
    released = {node: last[GradId(node)] for node in saved if GradId(node) in last}
    for node, run in released.items():  # what the pass itself computes again is made after its call
        ends[run] = max(ends[run], begins[node])
    changes = [(begins[node], 1, amount) for node, amount in saved.items()]
    changes += [(ends[run], 2, -saved[node]) for node, run in released.items()]
    return int(max(accumulate(amount for _, _, amount in sorted(changes)), default=0))


def _made_at(recording: RecordedRun, node: str) -> int:
    """The index in run order of an op or scope, or of the op that created a grad node."""
    grad = recording.grad_nodes.get(GradId(node))
    made = step_of(recording, (grad.owner or "") if grad is not None else node)
    return made.index if made is not None else 0
