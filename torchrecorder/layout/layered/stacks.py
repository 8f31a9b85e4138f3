"""Stacks that are joined only across, such as encoder and decoder, stand side by side."""

from __future__ import annotations

from collections.abc import Collection

from torchrecorder.layout.layered.positions import Composed
from torchrecorder.layout.layered.ports import OUTSIDE
from torchrecorder.layout.layered.template import Template

LONG = 250.0
"""Points that an open module is long, at least, to count as a stack."""

ALIKE = 0.4
"""How long one of two stacks is, at least, as a share of the other."""


def beginnings(template: Template, scope: Composed, inputs: Collection[int]) -> list[float]:
    """Where stacks begin that are to stand beside the one before, along the flow.

    Such a stack reads the output of the one before, but also its own input, on which the other does
    not depend.

    Args:
        template: The template of a scope.
        scope: It with what is open in it.
        inputs: The children that are inputs of the run.
    """
    long = [child for child in scope.inner if scope.frames[child].height >= LONG]
    long.sort(key=lambda child: scope.frames[child].along)
    depends = _sources(template, inputs) if len(long) > 1 else {}
    found = []
    for one, other in zip(long, long[1:]):
        before, after = scope.frames[one], scope.frames[other]
        follows = after.along >= before.along + before.height
        alike = min(before.height, after.height) >= ALIKE * max(before.height, after.height)
        own = depends[other] - depends[one]
        if follows and alike and own and depends[one] & depends[other]:
            found.append(after.along)
    return found


def _sources(template: Template, inputs: Collection[int]) -> dict[int, set[tuple[str, int]]]:
    """For each child the entries of the scope and the inputs that it depends on."""
    reads: dict[int, list[tuple[int, int]]] = {}
    for trunk in template.trunks:
        for branch in trunk.branches:
            reads.setdefault(branch.sink.child, []).append(trunk.source)
    found: dict[int, set[tuple[str, int]]] = {}
    for child in sorted(range(len(template.spots)), key=lambda index: template.spots[index].row):
        found[child] = {("input", child)} if child in inputs else set()
        for source, port in reads.get(child, ()):
            found[child] |= {("entry", port)} if source == OUTSIDE else found.get(source, set())
    return found
