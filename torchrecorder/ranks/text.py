"""Text: ranks, groups and places in messages."""

from __future__ import annotations

from collections.abc import Iterable

from torchrecorder.annotations.amounts import ranges
from torchrecorder.events import RankGroup
from torchrecorder.ranks.sent import Sent


def ranks_text(ranks: Iterable[int]) -> str:
    """``"ranks 0–3, 8"``."""
    text = ranges(ranks, "–")
    return f"{'rank' if text.isdecimal() else 'ranks'} {text}"


def group_text(group: RankGroup) -> str:
    """A group as text: its description or its name, and its ranks."""
    name = group.purpose.removeprefix("mesh_") if group.purpose else group.name
    return f"group {name} ({ranks_text(group.ranks)})"


def place_text(kind: Sent) -> str:
    """``" in layers.1 at train.py:12"``: where a communication ran."""
    where = f" in {kind.path}" if kind.path else ""
    if kind.communication.backward:
        return f"{where} in backward"
    return f"{where} at {kind.line}" if kind.line else where
