"""Parameters: numbers of elements, trainable elements, and bytes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from torchrecorder.annotations.amounts import exact, of_bytes
from torchrecorder.annotations.annotation import PROCESSES, Annotation, Numbers
from torchrecorder.annotations.parameter_owners import flat_parameters
from torchrecorder.events import STORED, Role
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Value
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun


def stored(recording: RecordedRun, role: Role) -> list[Value]:
    """The first values of parameters or buffers, without values of later writes.

    Flat parameters are left out: their numbers are those of their parts.
    """
    return _by_role(recording).get(role, [])


@once
def _by_role(recording: RecordedRun) -> dict[Role, list[Value]]:
    flat = frozenset(flat_parameters(recording).values())
    return grouped(
        (value.role, value) for value in recording.values.values()
        if value.role in STORED
        and value.id not in flat and not value.kind.startswith("Uninitialized")
    )


def _of_each(
    role: Role, number: Callable[[Value], float]
) -> Callable[[RecordedRun], dict[str, float]]:
    """The `compute` function of a number of each parameter or buffer."""
    return lambda recording: {value.id: number(value) for value in stored(recording, role)}


def _bytes(recording: RecordedRun) -> dict[str, float]:
    here = {shard.value: shard.bytes for shard in recording.shards}
    found = stored(recording, Role.PARAMETER)
    return {value.id: here.get(value.id, value.bytes) for value in found}


def _global_bytes(recording: RecordedRun) -> dict[str, float]:
    if not recording.shards:
        return {}
    found = _of_each(Role.PARAMETER, lambda value: value.bytes)(recording)
    return found if any(shard.value in found for shard in recording.shards) else {}


_count = _of_each(Role.PARAMETER, lambda value: prod(value.shape))
PARAMETERS = Annotation("parameters", "Params", "", _count, sum, exact)
"""Number of weights."""

_trainable = _of_each(Role.PARAMETER, lambda value: prod(value.shape) if value.trainable else 0)
TRAINABLE = Annotation("trainable", "Trainable", "", _trainable, sum, exact)
"""Number of weights that require grad."""

PARAMETER_BYTES = Annotation("parameter_bytes", "Params size", "B", _bytes, sum, of_bytes)
"""Bytes of weights; for a sharded weight, bytes of the shard in this process."""

_buffer_bytes = _of_each(Role.BUFFER, lambda value: value.bytes)
BUFFER_BYTES = Annotation("buffer_bytes", "Buffers size", "B", _buffer_bytes, sum, of_bytes)
"""Bytes of buffers."""

OWNED = (PARAMETERS, TRAINABLE, PARAMETER_BYTES, BUFFER_BYTES)
"""Annotations that depend only on the modules, not on the run."""

STORED_NUMBERS = (
    PARAMETERS,
    TRAINABLE,
    PARAMETER_BYTES,
    # including the shards in other processes; only if some are sharded
    Annotation(
        "global_parameter_bytes", "Params size, all ranks", "B", _global_bytes, sum, of_bytes,
        needs=(PROCESSES,),
    ),
    BUFFER_BYTES,
)
"""Number and bytes of parameters and buffers."""


def in_no_module(parameters: Numbers) -> float:
    """The number of *parameters* that a recorded model uses and none of its modules has registered,
    such as those in a list: an optimizer of ``model.parameters()`` does not update them."""
    owned = parameters.owned
    if all(module.apart for module in owned.recording.modules.values()):
        return 0
    parts = {value for part in owned.recording.parameter_parts for value in part}
    return sum(parameters.by_node.get(value, 0) for value in owned.loose - parts)
