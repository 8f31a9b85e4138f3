"""Gradients that a post-accumulate-grad hook clears: they arrived, and are no longer there."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder import Recorder, Recording
from torchrecorder.graph.codec import decode, encode

X = torch.ones(2, 3)


def update(parameter, rate=0.1):
    with torch.no_grad():
        parameter -= rate * parameter.grad
    parameter.grad = None


class Update:
    def __call__(self, parameter):
        update(parameter)

    def method(self, parameter):
        update(parameter)


def look(parameter):
    parameter.grad.abs()


def line(function):
    return f"test_cleared_gradients.py:{function.__code__.co_firstlineno}"


HOOKS = {
    "function": (update, f"update() at {line(update)}"),
    "partial": (functools.partial(update, rate=1.0), f"update() at {line(update)}"),
    "object": (Update(), f"Update() at {line(Update.__call__)}"),
    "method": (Update().method, f"method() at {line(Update.method)}"),
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))


def trained(model, steps=1):
    with Recorder(model) as recorder:
        for _ in range(steps):
            model(X).sum().backward()
    return recorder.recording


def missing(recording, model):
    return {key for key, _ in model.named_parameters() if recording.why_no_gradient(key)}


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("steps", [1, 2])
def test_the_hook_is_named(name, steps):
    """By its name and line; only at the parameters whose ``grad`` is None."""
    hook, words = HOOKS[name]
    model = net()
    for parameter in model[0].parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    recording = trained(model, steps)
    without = {key for key, each in model.named_parameters() if each.grad is None}
    assert missing(recording, model) == without == {"0.weight", "0.bias"}
    why = recording.why_no_gradient("0.weight")
    place = words.replace("test_cleared", "tests/capture/test_cleared")
    assert why.reason == "cleared" and why.text in (
        f"it received one, which {words} set to None",
        f"it received one, which {place} set to None",
    )
    assert decode(encode(recording), Recording).backward_runs == recording.backward_runs


def test_summary_and_figure_say_it():
    """The weights of one layer; not that they have no gradient."""
    model = net()
    model[0].weight.register_post_accumulate_grad_hook(update)
    recording = trained(model)
    assert "gradient of weight cleared by update() at " in str(recording.summary())
    assert "no gradient" not in str(recording.summary())
    shapes = torchrecorder.figure(recording, view="backward").shapes
    texts = [[text.text for text in shape.label] for shape in shapes]
    (found,) = [label for label in texts if any("cleared" in text for text in label)]
    assert found[0] == "weight" and found[-1].startswith("cleared by update() at ")


def test_a_gradient_that_is_there_again_counts():
    """Of several passes, the last one with a gradient decides; and hooks that only look do not."""
    model = net()
    handle = model[0].weight.register_post_accumulate_grad_hook(update)
    model[0].bias.register_post_accumulate_grad_hook(look)
    with Recorder(model) as recorder:
        model(X).sum().backward()
        handle.remove()
        model(X).sum().backward()
    assert all(each.grad is not None for each in model.parameters())
    assert missing(recorder.recording, model) == set()


def test_a_leaf_that_the_pass_does_not_reach_was_not_cleared():
    """Its hook has not run: there was no gradient."""
    model = net()
    model[2].weight.register_post_accumulate_grad_hook(update)
    with Recorder(model) as recorder:
        model(X).sum().backward(inputs=[model[0].weight])
    assert recorder.recording.why_no_gradient("2.weight").reason == "not propagated"
    assert recorder.recording.backward_runs[0].cleared == ()
