"""Alternative text: a sentence that describes a figure."""

from __future__ import annotations

from collections.abc import Sequence

from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.events import Slot
from torchrecorder.recording import Recording
from torchrecorder.style import labels

_MOST = 3
"""The maximum number of inputs and outputs that are named."""


def described(recording: Recording) -> str:
    """The inputs, outputs and size of the model, in a sentence.

    Example:
        >>> import torch, torchrecorder
        >>> described(torchrecorder.record(torch.nn.Linear(4, 2), torch.ones(1, 4)))
        'Linear: from input 1×4 to 1×2, 10 params'
    """
    ends = [_ends(recording, slots) for slots in (recording.inputs, recording.outputs)]
    flow = [f"{word} {text}" for word, text in zip(("from", "to"), ends) if text]
    count = labels.parameters(int(PARAMETERS.on(recording).total()))
    facts = ", ".join(part for part in (" ".join(flow), count) if part)
    return f"{recording.name}: {facts}" if facts else recording.name


def _ends(recording: Recording, slots: Sequence[Slot]) -> str:
    text = [
        f"{slot.name} {labels.value(recording.values[slot.value])}".strip()
        for slot in slots[:_MOST]
        if slot.value in recording.values
    ]
    return ", ".join([*text, "…"] if len(slots) > _MOST else text)
