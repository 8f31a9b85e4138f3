"""Bundles: several arrows drawn as one line, none lost, none twice."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.optim.swa_utils import AveragedModel

import torchrecorder
from tests.test_properties import RUNS
from torchrecorder.events import OpId, ValueId
from torchrecorder.recording import Recording
from torchrecorder.style.draw import WIDE, draw
from torchrecorder.style.line_labels import line_tooltip
from torchrecorder.testing import Builder
from torchrecorder.views.bundles import FlowKind, bundles
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


def step(times: int = 1, foreach: bool = False) -> Recording:
    """Training steps of a model with five layers."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(times):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach)
            optimizer.step()
    return recorder.recording


def unbound(run: Builder, parallel: int) -> list[ValueId]:
    """So many results of one op."""
    first = run.op("unbind", run.input("x"), outputs=parallel)
    return [ValueId(f"v{int(first[1:]) + number}") for number in range(parallel)]


@settings(max_examples=30, deadline=None)
@given(recording=RUNS, depth=st.integers(0, 5), fold=st.booleans())
def test_each_arrow_is_in_one_bundle(recording: Recording, depth: int, fold: bool) -> None:
    """The counts of the drawn lines add up to the edges of the view."""
    view = make_view(recording, ViewOptions(depth=depth, fold=fold))
    drawn = bundles(view)
    inside = Counter(id(arrow) for bundle in drawn for arrow in bundle.arrows)
    assert inside == Counter(map(id, view.arrows))
    for bundle in drawn:
        assert len({(each.tail, each.head, each.some) for each in bundle.arrows}) == 1
    assert sum(line.count for line in draw(view).lines) == len(view.arrows)


def test_no_edge_of_a_training_step_is_lost() -> None:
    """At every depth, with everything open too."""
    recording = step(2)
    for depth in (None, 0, 1, 2, 9):
        view = make_view(recording, ViewOptions(depth=depth, fold=False))
        lines = draw(view).lines
        assert sum(line.count for line in lines) == len(view.arrows)
        between = Counter((arrow.tail, arrow.head) for arrow in view.arrows)
        told = Counter[tuple[str, str]]()
        for line in lines:
            told[line.tail, line.head] += line.count
        assert told == between


def test_more_than_three_are_one_wide_line() -> None:
    """Three stay three."""
    for parallel, lines in ((3, 3), (4, 1), (9, 1)):
        run = Builder("Net")
        with run.scope("Net"):
            run.op("stack", *unbound(run, parallel))
        view = make_view(run.recording(), ViewOptions())
        tail = next(box for box in view.boxes if box in view.recording.ops)
        found = [line for line in draw(view).lines if line.tail == tail]
        assert len(found) == lines
        assert {line.count for line in found} == {parallel // lines}
        usual = draw(view).lines[0].look.width
        wide = WIDE if parallel > 3 else 1
        assert {line.look.width for line in found} == {wide * usual}


def test_a_step_shows_how_many_gradients_and_weights() -> None:
    """Backward, clipping and the optimizer are joined by one line each, updates by a light one."""
    recording = step(2)
    view = make_view(recording, ViewOptions(fold=False))
    figure = draw(view)
    texts = [line.label for line in figure.lines]
    assert texts.count("10 gradients") == 4 and texts.count("10 weights") == 1
    assert texts.count("30 state tensors") == 1
    flows = Counter(bundle.flow for bundle in bundles(view))
    assert flows[FlowKind.GRADIENT] == 4 and flows[FlowKind.STATE] == 1
    strokes = {
        bundle.flow: line.look.stroke for bundle, line in zip(bundles(view), figure.lines)
    }
    assert strokes[FlowKind.WEIGHT] == strokes[FlowKind.STATE] != strokes[FlowKind.GRADIENT]
    assert {line.side for line, bundle in zip(figure.lines, bundles(view))
            if bundle.flow is FlowKind.WEIGHT} == {True}
    trunks = {line.value for line, bundle in zip(figure.lines, bundles(view))
              if bundle.flow is FlowKind.WEIGHT}
    assert len(trunks) == 1  # one line from the optimizer, which branches to the layers


def test_gradients_that_are_read_after_a_loop_are_not_counted_twice() -> None:
    """They are those of its last round; each round has as many."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchrecorder.Recorder(model) as recorder:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        torch.stack([weight.grad.norm() for weight in model.parameters()])
    view = make_view(recorder.recording)
    (backward,) = [box for box in view.boxes.values() if box.id in view.recording.ops
                   and view.recording.ops[OpId(box.id)].name == "backward"]
    assert view.copies(backward) == 4
    assert {line.label for line in draw(view).lines if "gradients" in line.label} == {
        "10 gradients"
    }


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns, so no names")
def test_one_buffer_beside_weights_is_one() -> None:
    """The count of an average, which each step adds to, beside its two weights."""
    model = torch.nn.Linear(3, 3)
    optimizer, averaged = torch.optim.SGD(model.parameters(), lr=0.1), AveragedModel(model)
    batches = [torch.ones(2, 3) for _ in range(4)]
    with torchrecorder.Recorder(model) as recorder:
        before = model(batches[0])
        for batch in batches:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            averaged.update_parameters(model)
        averaged(batches[0])  # so that it is known as a module
    view = make_view(recorder.recording)
    assert before.shape == (2, 3) and 3 in {each.count for each in view.clusters.values()}
    labels = [line.label for line in draw(view).lines]
    assert "scalar int64" in labels and not any("buffers" in label for label in labels)


def test_updated_weights_without_a_name_are_weights() -> None:
    """The recorder was told of no model: the memory that was written is that of parameters."""
    layer = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with torchrecorder.Recorder() as recorder:
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.ones(1, 3)).sum().backward()
            optimizer.step()
    view = make_view(recorder.recording, ViewOptions(fold=False))
    assert [b.flow for b in bundles(view)].count(FlowKind.WEIGHT) >= 1


def test_a_bundle_shows_what_is_in_it() -> None:
    """Its tooltip has the number, and the names of the first."""
    recording = step()
    view = make_view(recording, ViewOptions())
    wide = next(each for each in bundles(view) if each.flow is FlowKind.GRADIENT)
    said = line_tooltip(view, wide).splitlines()
    assert said[0] == "10 gradients"
    assert "0.weight.grad 4×4 float32" in said and len(said) == 11


def test_a_mask_is_beside_the_data() -> None:
    """It is no data itself."""
    run = Builder("Net")
    with run.scope("Net"):
        x, mask = run.input("x"), run.input("mask", dtype="bool")
        run.op("masked_fill", x, mask)
    figure = draw(make_view(run.recording(), ViewOptions()))
    sides = {line.tail: line.side for line in figure.lines}
    assert (sides[x], sides[mask]) == (False, True)


def test_query_key_and_value_are_one_line() -> None:
    """One tensor that is all three is drawn once, and counts three times."""
    attend = torch.nn.functional.scaled_dot_product_attention
    run = torchrecorder.record(lambda x: attend(x, x, x), torch.ones(2, 5, 8))
    view = make_view(run, ViewOptions())
    lines = draw(view).lines
    (line,) = (each for each in lines if each.mark)
    assert (line.mark, line.count, line.place) == ("query = key = value", 3, -1)
    assert {each.look.width for each in lines} == {line.look.width}


class Scaled(torch.nn.Module):
    """Weights made of tensors, such as a class token, and those of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Parameter(torch.randn(1, 4) * 0.02)
        self.layer, self.scale = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.token, self.layer(x)]) * self.scale


def test_weights_that_are_made_of_tensors_are_weights() -> None:
    """``Parameter(tensor)`` shares its memory with that tensor, and is no copy of it."""
    with torchrecorder.Recorder() as recorder:
        Scaled()(torch.ones(2, 4))
    view = make_view(recorder.recording, ViewOptions(depth=1))
    made = next(iter(view.recording.scopes))
    flows = [bundle.flow for bundle in bundles(view) if bundle.arrows[0].tail == made]
    assert flows == [FlowKind.WEIGHT] * len(flows)
    kept = {arrow.value for arrow in view.arrows if arrow.tail == made}
    names = sorted(view.recording.values[value].names[0] for value in kept if value is not None)
    assert names == ["Scaled.layer.bias", "Scaled.layer.weight", "Scaled.scale", "Scaled.token"]


def test_a_copy_of_a_weight_from_before_is_no_result_of_what_reads_it_first() -> None:
    """``weight.detach()`` has its memory: what reads it later reads the weight."""
    layer = torch.nn.Linear(4, 4)
    held = {name: weight.detach() for name, weight in layer.named_parameters()}
    with torchrecorder.Recorder(layer) as recorder:
        y = torch.func.functional_call(layer, held, (torch.ones(2, 4),))
        torch.stack([held["weight"], held["weight"]]) * y.sum()
        held["weight"] - 1
    recording = recorder.recording
    view = make_view(recording, ViewOptions(depth=0, parameters=True))
    (called,) = recording.scopes
    (result,) = {arrow.value for arrow in view.arrows if arrow.tail == called}
    assert result is not None and recording.values[result].shape == (2, 4)
    readers = {arrow.head for arrow in view.arrows
               if view.boxes[arrow.tail].kind is BoxKind.PARAMETER}
    assert {recording.ops[OpId(item)].name for item in readers - {called}} == {"stack", "sub"}


def test_a_weight_that_is_called_grad_is_no_gradient() -> None:
    """The run makes it: what leads from there to the module carries a weight."""
    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grad = torch.nn.Parameter(torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.grad).exp()

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.Sequential(Scaled())(x)

    recording = torchrecorder.record(program, torch.ones(3))
    kinds = {bundle.flow for bundle in bundles(make_view(recording, ViewOptions(depth=1)))}
    assert kinds == {FlowKind.TENSOR, FlowKind.WEIGHT}
