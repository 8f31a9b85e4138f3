"""Circles: sums and products without other captions, drawn as ⊕ and ⊗."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from torchrecorder.events import OpId
from torchrecorder.style.figure import Look, Text
from torchrecorder.views.view import BoxKind, View

SYMBOLS = {"add": "+", "add_": "+", "iadd": "+", "mul": "×", "mul_": "×", "imul": "×"}
"""The symbol of each operation."""


def is_symbol(view: View, box: str) -> bool:
    """Whether a box is an operation that can be drawn as a circle."""
    op = view.recording.ops.get(OpId(box))
    return op is not None and op.name in SYMBOLS


def circles(view: View, captioned: Collection[str]) -> dict[str, str]:
    """The names of the operations that can be circles, by box; captions of *captioned* boxes show
    their outputs."""
    reads = Counter(arrow.head for arrow in view.arrows)
    return {
        box.id: view.recording.ops[OpId(box.id)].name
        for box in view.boxes.values()
        if box.kind is BoxKind.OP and box.count == 1 and is_symbol(view, box.id)
        if box.id not in captioned and reads[box.id] == 2
    }


def encircled(
    label: tuple[Text, ...], look: Look, name: str
) -> tuple[tuple[Text, ...], Look]:
    """The label and look of a box: those of a circle if its label is only its *name*."""
    if [text.text for text in label] != [name]:
        return label, look
    return (Text(SYMBOLS[name], "title"),), replace(look, outline="circle")
