"""What no line leaves: nothing reads it, and it is drawn small; or what is not drawn does."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import torchrecorder
from torchrecorder.events import FUNCTION, ScopeKind
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Shape
from torchrecorder.style.style import Style
from torchrecorder.style.themes import DARK, LIGHT
from torchrecorder.style.unread import unread
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view

NUMPY = pytest.mark.skipif(not importlib.util.find_spec("numpy"), reason="converts to NumPy")


class Net(torch.nn.Module):
    """Two operations whose results nothing uses, one of which writes."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Does not read the mask."""
        y = x.sin()
        y.softmax(dim=-1)
        kept = x * 2
        kept.relu_()
        return y.tanh()


def shapes(dark: bool) -> dict[str, Shape]:
    """A figure by title."""
    view = make_view(torchrecorder.record(Net(), (torch.ones(2), torch.ones(2))))
    figure = draw(view, Style(theme=DARK if dark else LIGHT))
    return {shape.label[0].text: shape for shape in figure.shapes}


@pytest.mark.parametrize("dark", [False, True])
def test_what_nothing_reads_has_a_title_alone(dark: bool) -> None:
    """And says so; the result of the model is read, and what is written in place is used."""
    found = shapes(dark)
    for title in ("mask", "softmax"):
        assert [text.text for text in found[title].label] == [title, "unused"]
        assert found[title].look.dash == "dotted"
    for title in ("x", "sin", "tanh", "relu_"):
        assert found[title].look.dash == "solid"
        assert "unused" not in [text.text for text in found[title].label]


def test_what_leads_to_what_nothing_reads_is_dotted_too() -> None:
    """Also inputs; not what writes, fails or is an output, nor what leads to these."""
    run = Builder("Net")
    with run.scope("Net"):
        x, mask = run.input("x"), run.input("mask")
        with run.scope("rows", "Rows"):
            rows = run.op("gt", run.op("arange", mask))
        columns = run.op("lt", mask)
        run.op("and", rows, columns)
        y = run.op("sin", x)
        run.op("sum", y)
        run.returns(run.op("tanh", y))
    recording = run.recording()
    for options, dotted in (
        ({"depth": 9}, {"mask", "arange", "gt", "lt", "and", "sum"}),
        ({"depth": 1}, {"mask", "rows: Rows", "lt", "and", "sum"}),
    ):
        found = draw(make_view(recording, ViewOptions(**options))).shapes
        assert {one.label[0].text for one in found if one.look.dash == "dotted"} == dotted
    mask = next(one for one in found if one.label[0].text == "mask")
    assert len(mask.label) > 1 and mask.label[-1].text != "unused"


def test_a_module_that_nothing_reads_says_so() -> None:
    """A closed one whose results only operations inside it read, unless it writes a buffer."""

    class Unused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
            self.norm = torch.nn.BatchNorm1d(2)

        def forward(self, x: Tensor) -> Tensor:
            self.left(x)
            self.norm(x)
            return x.sin()

    found = last_lines(torchrecorder.record(Unused(), torch.ones(2, 2)), depth=1)
    assert found["left: Sequential"] == "unused" != found["norm: BatchNorm1d"]


def test_casts_that_change_nothing_are_no_effect() -> None:
    """Neither are other calls that return their input, as dropout in evaluation mode does."""

    class Casts(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.dropout(x.sin().to(x.dtype), training=False)

    class Unused(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.casts, self.last = Casts(), Casts()

        def forward(self, x: Tensor) -> Tensor:
            self.casts(x)
            return self.last(x)

    found = last_lines(torchrecorder.record(Unused(), torch.ones(2)), depth=1)
    assert found["casts: Casts"] == "unused" != found["last: Casts"]


def last_lines(recording: torchrecorder.Recording, **options: Any) -> dict[str, str]:
    """What is said last on each box, by its title."""
    figure = draw(make_view(recording, ViewOptions(**options)))
    return {shape.label[0].text: shape.label[-1].text for shape in figure.shapes}


class Counts(torch.nn.Module):
    """Replaces a buffer in each call."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        """Does not read what it keeps."""
        self.seen = self.seen + x
        return x.sin()


def test_what_a_module_keeps_as_its_buffer_is_used() -> None:
    """As if it had written to the buffer."""
    assert "unused" not in last_lines(torchrecorder.record(Counts(), torch.ones(2))).values()


def metrics(x: Tensor, y: Tensor) -> float:
    """Results that only Python reads."""
    right = (x.argmax(1) == y).sum().item()
    loss = float(x.exp().mean())
    x.softmax(1).tolist()
    values = x.std(0)
    values.numpy(), values.tolist(), bool(values.isnan().any()), float(values[0])
    x.cos()
    return right + loss


@NUMPY
def test_what_only_python_reads() -> None:
    """Boxes say what reads them, an input too; nothing is said where that is drawn."""
    recording = torchrecorder.record(metrics, (torch.rand(4, 3), torch.zeros(4, dtype=torch.int64)))
    found = last_lines(recording)
    assert found["sum"] == "read by item" and found["mean"] == "read by float()"
    assert found["softmax"] == "read by tolist" and found["cos"] == "unused"
    drawn = last_lines(recording, queries=True)
    assert not [text for text in drawn.values() if text.startswith("read by")]
    assert drawn["cos"] == "unused"
    lengths = torchrecorder.record(lambda x, n: x[: n.item()], (torch.ones(4), torch.tensor(2)))
    assert last_lines(lengths)["n"] == "read by item"


@pytest.mark.parametrize("kept", ["to", "contiguous", "float"])
def test_a_call_that_returns_its_argument_does_not_read_it(kept: str) -> None:
    """As ``x.to(device)`` of a tensor that is there already."""

    def run(x: Tensor) -> None:
        y = x.exp()
        y.to("cpu") if kept == "to" else getattr(y, kept)()

    assert last_lines(torchrecorder.record(run, torch.ones(2)))["exp"] == "unused"


class Masked(torch.nn.Module):
    """Masks its input, less where earlier steps did."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, prior: Tensor, x: Tensor) -> Tensor:
        return torch.mul(self.fc(x), prior).sigmoid()


class Steps(torch.nn.Module):
    """Each step leaves a tensor for the next."""

    def __init__(self) -> None:
        super().__init__()
        self.masks = torch.nn.ModuleList(Masked() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        prior = torch.ones(2, 4)
        found = x.cos()
        for layer in self.masks:
            mask = layer(prior, x)
            prior = torch.mul(1.3 - mask, prior)
            found = found + (mask * x).relu()
        return found


def test_what_the_next_iteration_reads_is_not_read_by_something_hidden() -> None:
    """The operation that reads it is drawn, in the box that stands for all iterations."""
    view = make_view(torchrecorder.record(Steps(), torch.ones(2, 4)), ViewOptions(depth=9))
    assert any(cluster.count == 3 for cluster in view.clusters.values())
    assert not [caption for caption in unread(view).values() if caption.startswith("read by")]


@NUMPY
def test_many_readers() -> None:
    """The first three kinds, in the order in which they ran."""

    def read(x: Tensor) -> None:
        y = x.sin()
        y.tolist(), y.tolist(), y.numpy(), y.sum().item(), y.mean().item(), torch.equal(y, x)

    recording = torchrecorder.record(read, torch.ones(1))
    hidden = last_lines(recording, hide=("sum", "mean"))
    assert hidden["sin"] == "read by tolist, numpy, sum, ..."


def test_what_runs_again_is_the_backward_pass() -> None:
    """Its operations are not drawn, and have no names of their own in the caption."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        y = run.op("sin", x)
        run.op("cos", y, outputs=0)
    recording = replace(run.recording(), outputs=())
    assert last_lines(recording)["sin"] == "read by cos"
    ops = {op.id: op.replace(recompute=op.name == "cos") for op in recording.ops.values()}
    assert last_lines(replace(recording, ops=ops))["sin"] == "read by backward"


class KeepsResult(torch.autograd.Function):
    """Runs a backward pass of its own from its result, as reversible layers do."""

    @staticmethod
    def forward(ctx, x):  # type: ignore
        y = x.exp()
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, gradient):  # type: ignore
        with torch.enable_grad():
            y = ctx.y.requires_grad_()
            y.square().backward(gradient)
            return y.grad


def test_what_the_backward_of_a_custom_function_reads_is_used() -> None:
    """Also if it is kept as an attribute of the context."""
    with torchrecorder.Recorder() as recorder:
        KeepsResult.apply(torch.ones(3, requires_grad=True)).sum().backward()
    assert last_lines(recorder.recording)["detach"] == "read by backward"


class Clipped(torch.autograd.Function):
    """Saves a mask that its backward multiplies with."""

    @staticmethod
    def forward(ctx, x):  # type: ignore
        ctx.save_for_backward(x.abs() < 1)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore
        return gradient * ctx.saved_tensors[0]


def test_what_a_custom_function_may_save_is_not_called_unused() -> None:
    """But it is without a backward pass that could read it."""
    for requires_grad, caption in ((True, "< 1"), (False, "unused")):
        x = torch.ones(3, requires_grad=requires_grad)
        recording = torchrecorder.record(Clipped.apply, x)
        assert last_lines(recording)["lt"] == caption


def test_the_result_of_a_hook_is_kept_as_the_gradient() -> None:
    """A hidden alias has the name of the tensor that it is of."""
    layer = torch.nn.Linear(3, 3)
    layer.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    with torchrecorder.Recorder(layer) as recorder:
        layer(torch.ones(2, 3)).sum().backward()
        assert layer.weight.grad is not None  # asked for: no operation reads it
    assert last_lines(recorder.recording)["clamp"] == "kept as weight.grad"


class Reversed(torch.nn.Module):
    """Turns the gradient around behind one of two layers, with a hook of its kind."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook = hook
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        if hook == "module":
            self.last.register_full_backward_hook(lambda module, gave, given: (gave[0] * -0.3,))
        if hook == "module before":
            self.last.register_full_backward_pre_hook(lambda module, given: (given[0] * -0.3,))
        if hook == "leaf":
            self.first.weight.register_hook(lambda gradient: gradient * -0.3)

    def forward(self, x: Tensor) -> Tensor:
        """A scalar."""
        y = self.first(x).tanh()
        if self.hook == "tensor":
            y.register_hook(lambda gradient: gradient * -0.3)
        if self.hook == "node":
            y.grad_fn.register_hook(lambda gave, given: (gave[0] * -0.3,))  # type: ignore
        if self.hook == "node before":
            y.grad_fn.register_prehook(lambda given: (given[0] * -0.3,))  # type: ignore
        if self.hook == "reads":
            y.register_hook(lambda gradient: (gradient * -0.3, None)[1])
        total: Tensor = self.last(y).sum()
        return total


HOOKS = ["tensor", "node", "node before", "module", "module before", "leaf"]


@pytest.mark.parametrize("hook", HOOKS)
def test_what_replaces_a_gradient_is_used(hook: str, tmp_path: Path) -> None:
    """The pass goes on with the result of the hook; its number is shown, also from a file."""
    with torchrecorder.Recorder() as recorder:
        Reversed(hook)(torch.ones(3, 4)).backward()
    recording = recorder.recording
    for each in (recording, torchrecorder.load(recording.save(tmp_path / "run.json"))):
        figure = draw(make_view(each))
        box = next(shape for shape in figure.shapes if shape.label[0].text == "mul")
        assert [text.text for text in box.label] == ["mul", "× -0.3", "becomes a gradient"]
        assert box.look.dash == "solid"


@pytest.mark.parametrize("kind", [ScopeKind.NO_GRAD, ScopeKind.FUNCTION])
@pytest.mark.parametrize("is_read, caption", [(False, "unused"), (True, "read by item")])
def test_a_closed_region_that_nothing_reads_is_unused(
    kind: ScopeKind, is_read: bool, caption: str
) -> None:
    """As a closed call of a function is; what its own operations read does not count."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("closed", FUNCTION, kind=kind) as scope:
            found = run.op("exp", run.op("cos", x))
        if is_read:
            run.op("item", found, outputs=0)
        run.returns(run.op("sin", x))
    view = make_view(run.recording(), ViewOptions(closed="closed"))
    assert unread(view)[scope] == caption


def test_what_a_hook_only_reads_is_unused() -> None:
    """The pass goes on with the gradient that it computed itself."""
    with torchrecorder.Recorder() as recorder:
        Reversed("reads")(torch.ones(3, 4)).backward()
    assert last_lines(recorder.recording)["mul"] == "unused"


def clipped(gradient: Tensor) -> Tensor:
    """Changed in place."""
    return gradient.mul_(2).clamp_(-0.1, 0.1)


def placed(gradient: Tensor) -> Tensor:
    """A part of a tensor that the hook fills."""
    rows = gradient.new_zeros(2, *gradient.shape)
    rows[0] = gradient
    return rows[0]


@pytest.mark.parametrize("hook, name", [(clipped, "clamp_"), (placed, "getitem")])
def test_a_gradient_that_is_written_in_place_or_is_a_part(
    hook: Callable[[Tensor], Tensor], name: str
) -> None:
    """The operation that returns it says so, and so does the closed call of the hook."""
    x = torch.ones(3, requires_grad=True)
    with torchrecorder.Recorder() as recorder:
        y = x.sin()
        y.register_hook(hook)
        y.square().sum().backward()
    assert last_lines(recorder.recording)[name] == "becomes a gradient"
    closed = last_lines(recorder.recording, depth=0, functions=True)
    assert closed[f"{hook.__name__}()"] == "becomes a gradient"
