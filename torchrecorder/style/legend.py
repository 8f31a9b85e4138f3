"""The legend: one row for each outline and colour that a figure uses."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.style.figure import LegendEntry
from torchrecorder.style.style import Style, family_of, failed
from torchrecorder.views.view import View

WORDS = {
    "input": "input (slanted)",
    "output": "output (octagon)",
    "parameter": "parameter (cylinder)",
    "buffer": "buffer (folded corner)",
    "constant": "constant (dotted)",
    "tensor": "tensor (ellipse)",
    "module": "module",
    "region": "region",
    "op": "operation",
    "hidden": "seen by autograd only",
    "grad": "autograd node",
    "weights": "weights",
    "norm": "normalisation",
    "attention": "attention",
    "activation": "activation",
    "pooling": "pooling",
    "shape": "shape",
    "failed": "failed here",
}

SOME = "in some repeats only (dashed)"


def legend(view: View, style: Style) -> tuple[LegendEntry, ...]:
    """A row for each kind and family of box in *view*, always in the same order."""
    present = set()
    for box in view.boxes.values():
        present.add(family_of(box, view) or box.kind.value)
        if failed(box.id, view):
            present.add("failed")
    looks = style.theme.looks
    rows = [LegendEntry(text, looks[kind]) for kind, text in WORDS.items() if kind in present]
    if any(arrow.some for arrow in view.arrows):
        rows.append(LegendEntry(SOME, replace(looks["op"], outline="box", dash="dashed")))
    return tuple(rows)
