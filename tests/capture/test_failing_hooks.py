"""Exceptions in hooks of gradients: they are named, or handled by the hook."""

import re

import pytest
import torch
from torch import nn

import torchrecorder as tr

from tests.capture.hooked import called, maker, mlp, recorded, step


def _fails_on_module(model, hook):
    model[2].register_full_backward_hook(lambda module, given, of: hook(of[0]))


def _fails_on_weight(model, hook):
    model[2].weight.register_hook(hook)


@pytest.mark.parametrize(
    "add_hook, of",
    [(_fails_on_module, " of `BackwardHookFunctionBackward`"), (_fails_on_weight, "")],
)
def test_hook_that_fails_is_named(add_hook, of):
    """The note says with which operation, at which line, and at which node if one runs."""
    model = mlp()
    add_hook(model, lambda gradient: gradient @ torch.ones(7, 7))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        recorded(model, step)
    recording = tr.recording_of(caught.value)
    failure = recording.run.failure
    assert failure.backward
    assert (failure.grad is not None) == bool(of)
    assert recording.ops[failure.op].name == "matmul"
    (note, *_) = caught.value.__notes__
    assert note.startswith(f"torchrecorder: in backward, in a hook{of}, ")
    line = r"at \S*test_failing_hooks\.py:\d+, "
    assert re.search(f"raised {line}op `matmul`, {line}inputs", note)


def test_module_that_fails_in_a_hook_is_named():
    """Also without an operation that fails."""

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("not today")

    model, fails = mlp(), Fails()
    model[2].weight.register_hook(lambda gradient: fails(gradient))
    with pytest.raises(ValueError, match="not today") as caught:
        recorded(model, step)
    (note, *_) = caught.value.__notes__
    assert re.match(r"torchrecorder: in backward, in a hook, raised at \S+:\d+, `[Ff]ails` ", note)


def test_node_of_a_hidden_operation_that_fails():
    """The hidden operation that made the node has no time either, but it has not failed."""

    def run(_):
        x = torch.ones(2, requires_grad=True)
        with torch._C.DisableTorchFunction():
            y = x.tanh()
        y.grad_fn.register_hook(lambda given, of: 1 / 0)
        y.backward(torch.ones(2))

    with pytest.raises(ZeroDivisionError) as caught:
        recorded(None, run)
    assert "made by op `tanh`" in caught.value.__notes__[0]


def test_exception_that_a_hook_handles_leaves_the_pass_whole():
    """After it, operations of hooks and of the program are recorded as before."""
    model, made = mlp(), []

    def hook(gradient):
        with pytest.raises(RuntimeError):
            gradient @ torch.ones(7, 7)
        made.append(gradient.norm())

    model[2].weight.register_hook(hook)

    def run(model):
        step(model)
        made[0].exp()

    recording = recorded(model, run)
    assert maker(recording, called(recording, "exp")[0]) == called(recording, "norm")[0]
    assert maker(recording, called(recording, "norm")[0]).name == "backward"
