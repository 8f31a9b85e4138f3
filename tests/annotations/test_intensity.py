"""Arithmetic intensity of recordings made by hand: how the numbers of several ops are combined."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.figures import linear, network, regions
from tests.graph.test_consistency import changed
from tests.stepped import stepped
from torchrecorder.annotations.intensity import moved_bytes
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.events import OpKind
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view


def counted(recording: Recording, **flops: float) -> Recording:
    """*recording* with so many FLOPs of its ops."""
    return replace(recording, measured=MappingProxyType({"flops": MappingProxyType(flops)}))


def test_a_module_has_all_flops_per_all_bytes() -> None:
    """Not its own inputs and outputs alone, nor a mean of what is inside."""
    recording = counted(network(), o0=320, o2=640)  # linears that move 128 bytes, relu and add
    rows = {row["name"]: row for row in recording.table(["intensity"])}
    assert rows["body.0"]["intensity"] == 320 / 128 and rows["body.2"]["intensity"] == 640 / 128
    assert rows["body"]["intensity"] == 960 / (128 + 64 + 128)
    assert rows["Net"]["intensity"] == 960 / (128 + 64 + 128 + 96)
    assert rows["Net"]["self_intensity"] == 0 and rows["body"]["self_intensity"] is None
    assert type(rows["Net"]["intensity"]) is type(rows["body.0"]["intensity"]) is float
    assert recording.annotations["intensity"].total() == rows["Net"]["intensity"]
    assert [(row.name, row.number) for row in recording.top("intensity", 2, by="type")] == [
        ("linear", 960 / 256), ("relu", 0),
    ]


def test_an_op_without_counted_flops_has_0_and_one_that_moves_nothing_no_number() -> None:
    """The first is bound by memory, the second by nothing."""
    recording = counted(network(), o0=320)
    assert recording.annotations["intensity"].by_node == {"o0": 2.5, "o1": 0, "o2": 0, "o4": 0}


def test_intensity_is_measured_with_flops() -> None:
    """Bytes alone are no intensity."""
    with pytest.raises(UnknownAnnotation, match=r"record\(\.\.\., flops=True\) measures it"):
        network().top("intensity")


def test_flops_without_an_op_count_with_the_ops_around() -> None:
    """They have no bytes of their own."""
    numbers = counted(network(), s1=320).annotations["intensity"]
    assert math.isinf(numbers.by_node["s1"])
    assert numbers.of(["s1", "o0"]) == 2.5


def test_equal_siblings_have_the_intensity_of_each() -> None:
    """Bytes and FLOPs of a fold are those of all."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in "012":
            x = linear(run, name, x)
    recording = counted(run.recording(), o0=320, o1=320, o2=320)
    figure = draw(make_view(recording, ViewOptions(depth=1)), Style(numbers=("intensity",)))
    labels = [[text.text for text in shape.label] for shape in figure.shapes]
    assert [label[-1] for label in labels if "×3" in label[0]] == ["Intensity 2.5"]


def test_what_is_read_twice_counts_once() -> None:
    """In two arguments of one op."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("mul", x, x)
        run.op("cat", x, run.input("y"), shape=(4, 4))
    assert moved_bytes(run.recording()) == {"o0": 64, "o1": 128}


def test_reads_without_results_count() -> None:
    """As those of a number that Python reads."""
    assert moved_bytes(regions())["o3"] == 768


def test_passes_count_nothing_and_neither_does_what_runs_backward() -> None:
    """A call of backward is no op of the forward pass, and what runs again belongs to it."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("identity", run.input("x"), kind=OpKind.PASS)
        run.op("relu", run.input("y"))
    recording = run.recording()
    assert moved_bytes(recording) == {"o1": 64}
    assert moved_bytes(changed(recording, "ops", "o1", recompute=True)) == {}
    assert set(moved_bytes(stepped())) == {
        op for op in stepped().ops if op not in {run.op for run in stepped().backward_runs}
    }
