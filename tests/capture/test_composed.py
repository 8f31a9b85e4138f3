"""Attention of PyTorch: its function consists of others, which are recorded."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import torchrecorder
from torchrecorder.style.draw import draw
from torchrecorder.testing.inert import assert_inert
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.quiet_ops import is_reshape

WHOLE = "multi_head_attention_forward"

FULL = ["linear", "mul", "bmm", "softmax", "bmm", "linear", "mean"]
"""What attention computes if its weights are wanted, too."""

FUSED = ["linear", "scaled_dot_product_attention", "linear"]


def computed(recording: torchrecorder.Recording) -> list[str]:
    """The names of ops that do not only select or reshape."""
    ops = (op for op in recording.ops.values() if not is_reshape(op))
    return [op.name for op in ops if op.name not in ("getitem", "contiguous")]


@pytest.mark.parametrize("weights, names", [(True, FULL), (False, FUSED)])
def test_the_inside_is_recorded(weights: bool, names: list[str]) -> None:
    """Projections, scores, softmax and output, in the module."""
    x, model = torch.ones(3, 2, 8), nn.MultiheadAttention(8, 2)
    recording = torchrecorder.record(model, (x, x, x), {"need_weights": weights})
    assert computed(recording) == names
    assert {op.scope for op in recording.ops.values()} == {*recording.scopes}


def test_it_is_one_box_until_the_last_level() -> None:
    """Also in a small figure, and it says its width and heads."""
    recording = torchrecorder.record(nn.TransformerEncoderLayer(8, 2, 16), torch.ones(3, 2, 8))
    view = make_view(recording, ViewOptions())
    (scope,) = (each.id for each in recording.scopes.values() if each.name == "self_attn")
    (shape,) = (shape for shape in draw(view).shapes if shape.id == scope)
    assert shape.label[1].text == "width 8, 2 heads"
    opened = make_view(recording, ViewOptions(depth=2))
    assert scope in opened.clusters and scope not in opened.boxes


MASK = torch.zeros(3, 3).masked_fill(torch.ones(3, 3).triu(1) > 0, -9.0)
PADDING = torch.tensor([[False] * 3, [False, False, True]])
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "fused": ({}, {"need_weights": False}),
    "masks": ({}, {"attn_mask": MASK, "key_padding_mask": PADDING}),
    "causal": ({}, {"attn_mask": MASK, "is_causal": True, "need_weights": False}),
    "bias": ({"add_bias_kv": True, "add_zero_attn": True}, {"average_attn_weights": False}),
    "dropout": ({"dropout": 0.5}, {}),
    "sizes": ({"kdim": 8, "vdim": 8, "bias": False}, {}),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("way", ["train", "eval", "no_grad"])
def test_it_runs_as_without(name: str, way: str) -> None:
    """Results, gradients and random numbers, bit for bit; on the fast path, too."""
    settings, given = CALLS[name]

    def make() -> Any:
        model = nn.MultiheadAttention(8, 2, **settings).train(way == "train")
        model.requires_grad_(way != "no_grad")
        x = torch.randn(3, 2, 8, requires_grad=way != "no_grad")
        return model, (x, x, x), given

    assert_inert(make, backward=way != "no_grad")


def test_of_one_sample() -> None:
    """Without a dimension for samples, each of query, key and value is projected on its own."""
    x, model = torch.ones(3, 8), nn.MultiheadAttention(8, 2)
    recording = torchrecorder.record(model, (x, x, x))
    assert computed(recording)[-len(FULL) :] == FULL
    assert computed(recording).count("linear") == 4
    assert [recording.values[slot.value].shape for slot in recording.outputs] == [(3, 8), (3, 3)]


class Listener(TorchFunctionMode):
    """Lists what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.heard.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("inside", [True, False])
def test_other_modes_hear_what_they_would_hear(inside: bool) -> None:
    """Under or over the recorder, attention stays one call for them, and so for the recorder."""
    x, model = torch.ones(3, 2, 8), nn.MultiheadAttention(8, 2)
    with Listener() as plain:
        model(x, x, x)
    listener, recorder = Listener(), torchrecorder.Recorder(model)
    with recorder if inside else listener, listener if inside else recorder:
        model(x, x, x)
    assert WHOLE in plain.heard and plain.heard.count("linear") == 0
    assert listener.heard.count(WHOLE) == 1 and "linear" not in listener.heard
    assert computed(recorder.recording) == [WHOLE]


class Counted(torch.Tensor):
    """A class with its own rule for torch functions."""

    heard: list[str] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.heard.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_other_classes_of_tensors_are_asked_once() -> None:
    """Their rule gets the whole function."""
    x, model = torch.ones(3, 2, 8).as_subclass(Counted), nn.MultiheadAttention(8, 2)
    Counted.heard.clear()
    recording = torchrecorder.record(model, (x, x, x))
    assert WHOLE in Counted.heard and "linear" not in Counted.heard
    assert WHOLE in computed(recording)


def test_with_the_graphs_of_the_compiler_it_is_one_op() -> None:
    """As in these graphs, so that each call of a graph has its operation."""
    x, model = torch.ones(3, 2, 8), nn.MultiheadAttention(8, 2)
    recording = torchrecorder.record(model, (x, x, x), compiled=True)
    assert [op.name for op in recording.ops.values()] == [WHOLE]
    assert [graph.unmatched for graph in recording.compiled_graphs] == [()]


def test_warnings_are_the_same() -> None:
    """Of the same line, and as often."""
    x, model = torch.ones(3, 2, 8), nn.MultiheadAttention(8, 2)
    masks = {"attn_mask": torch.zeros(3, 3), "key_padding_mask": PADDING}

    def warned(run: Any) -> list[tuple[str, str, int]]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            run()
        return [(str(each.message), each.filename, each.lineno) for each in found]

    plain = warned(lambda: model(x, x, x, **masks))
    assert plain and warned(lambda: torchrecorder.record(model, (x, x, x), masks)) == plain


def test_an_error_inside_is_the_users() -> None:
    """It comes from the function in which it came, and nothing is left behind."""
    model, x = nn.MultiheadAttention(8, 2), torch.ones(3, 2, 8)
    with torchrecorder.Recorder(model) as recorder, pytest.raises(RuntimeError) as recorded:
        model(x, x, x, attn_mask=torch.zeros(2, 2))
    with pytest.raises(RuntimeError) as plain:
        model(x, x, x, attn_mask=torch.zeros(2, 2))
    assert str(plain.value) == str(recorded.value)
    assert torch._C._len_torch_function_stack() == 0
    assert recorder.recording.run.lost == 0
