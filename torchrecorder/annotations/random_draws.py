"""Random draws: the operations that draw from a random generator."""

from __future__ import annotations

from collections import Counter

from torchrecorder.annotations.amounts import exact
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.events import OpId
from torchrecorder.graph.recording import RecordedRun


def _draws(recording: RecordedRun) -> dict[str, float]:
    """1 for each op that draws; what a checkpoint recomputes draws the same numbers again."""
    ops = recording.ops.values()
    return {op.id: 1 for op in ops if op.random and not op.recompute}


RANDOM_DRAWS = Annotation("random_draws", "Random draws", "", _draws, sum, exact)
"""The number of operations that draw random numbers."""


def drawing_functions(recording: RecordedRun) -> list[str]:
    """The functions that draw, with the number of their calls: ``dropout ×3``."""
    names = Counter(recording.ops[OpId(op)].name for op in _draws(recording))
    return [f"{name} ×{count}" if count > 1 else name for name, count in names.items()]
