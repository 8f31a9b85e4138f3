"""Numbered siblings, as those in `Sequential` and `ModuleList`, are matched by what they are."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _run(*names: str, container: str = "ModuleList", width: int = 4) -> Recording:
    """A chain of blocks of these classes, in a container that runs or in one that does not."""
    builder = Builder("Net")
    with builder.scope("Net"):
        x = builder.input("x", (2, width))
        with builder.scope("body", container) if container == "Sequential" else nullcontext():
            before = "" if container == "Sequential" else "body."
            for place, cls in enumerate(names):
                with builder.scope(f"{before}{place}", cls):
                    with builder.scope("norm", "LayerNorm"):
                        x = builder.op("layer_norm", x, shape=(2, width))
                    x = builder.op(cls.lower(), x, shape=(2, width))
    return builder.recording()


@pytest.mark.parametrize("container", ["Sequential", "ModuleList"])
def test_a_module_inserted_among_numbered_siblings(container: str) -> None:
    """It is added, and equal modules after it are renamed; it does not replace the module that had
    its number."""
    found = compare(
        _run("Block", "Block", "Block", container=container),
        _run("Block", "Adapter", "Block", "Block", container=container),
    )
    kinds = [(change.kind, change.where) for change in found.changes]
    assert (ChangeKind.ADDED, "body.1 (Adapter)") in kinds
    assert [where for kind, where in kinds if kind is ChangeKind.RENAMED] == ["body.2", "body.3"]
    assert {kind for kind, _ in kinds} == {
        ChangeKind.ADDED, ChangeKind.RENAMED, ChangeKind.REWIRED
    }


@pytest.mark.parametrize("width", [4, 8])
def test_another_class_in_the_same_place_is_replaced(width: int) -> None:
    """Where as many siblings match by number as in any other way, those with one number do, also if
    all shapes differ."""
    found = compare(_run("Block", "Block", "Block"), _run("Adapter", "Block", "Block", width=width))
    kinds = [(change.kind, change.where) for change in found.changes]
    assert (ChangeKind.REPLACED, "body.0") in kinds
    assert not {ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.RENAMED} & {k for k, _ in kinds}
