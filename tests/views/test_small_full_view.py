"""Where the whole run has the boxes of what is read, in small recordings made by hand."""

from __future__ import annotations

from dataclasses import replace

from torchrecorder.events import ScopeKind
from torchrecorder.testing import Builder
from torchrecorder.views.full_view import full_view


def test_operations_that_run_again_have_no_boxes() -> None:
    """Neither those in a module that does, nor others, whatever they read."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        made = run.op("zeros")
        with run.scope("part", "Part"):
            run.op("add", x, made)
        with run.scope("part", "Part", recompute=True):
            run.op("add", x, made)
        run.op("exp", x)
        run.op("exp", x)
    found = run.recording()
    *_, last = found.ops
    ops = {**found.ops, last: found.ops[last].replace(recompute=True)}
    view = full_view(replace(found, ops=ops))
    assert [found.ops[box].name for box in view.boxes if box in found.ops] == [
        "zeros", "add", "exp"
    ]


def test_a_constant_is_in_the_mode_that_reads_it() -> None:
    """Also if an operation elsewhere writes another tensor in place."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("exp", run.input("x"))
        run.op("mul_", x, writes=x)
        with run.scope("no_grad", kind=ScopeKind.NO_GRAD) as mode:
            constant = run.constant()
            run.op("abs", constant)
    assert full_view(run.recording()).boxes[constant].cluster == mode


def test_a_reader_of_the_first_run_does_not_count() -> None:
    """In a figure of two runs, what both read is where the second one reads it; what only the
    first reads is where that does."""
    run = Builder("Net")
    with run.scope("Net"):
        constant, other = run.constant(), run.constant()
        with run.scope("one", "Part") as one:
            run.op("abs", constant)
            run.op("cos", other)
        with run.scope("two", "Part") as two:
            run.op("abs", constant)
    found = run.recording()
    boxes = full_view(found).boxes
    assert (boxes[constant].cluster, boxes[other].cluster) == (found.roots[0], one)
    former = frozenset(op.id for op in found.ops.values() if op.scope == one)
    boxes = full_view(replace(found, former=former)).boxes
    assert (boxes[constant].cluster, boxes[other].cluster) == (two, one)
