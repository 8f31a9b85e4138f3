"""Exceptions in hooks of gradients: they are named, or handled by the hook."""

import functools
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
    [
        (_fails_on_module, "BackwardHookFunctionBackward`, given gradients float32[2, 4]"),
        (_fails_on_weight, "AccumulateGrad` of `2.weight`"),
    ],
)
def test_hook_that_fails_is_named(add_hook, of):
    """The note says with which operation, at which line, and at which node."""
    model = mlp()
    add_hook(model, lambda gradient: gradient @ torch.ones(7, 7))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as caught:
        recorded(model, step)
    recording = tr.recording_of(caught.value)
    failure = recording.run.failure
    assert failure.backward
    assert recording.grad_nodes[failure.grad].name == of.partition("`")[0]
    assert recording.ops[failure.op].name == "matmul"
    (note, *_) = caught.value.__notes__
    assert note.startswith(f"torchrecorder: in backward, in a hook of `{of}, ")
    line = r"at \S*test_failing_hooks\.py:\d+, "
    assert re.search(f"raised {line}op `matmul`, {line}inputs", note)
    assert re.search(r"; the \w+ was \w+ by `2` \(Linear\), .*op `\w+`, at ", note)


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
    start = "torchrecorder: in backward, in a hook of `AccumulateGrad` of `2.weight`, "
    assert re.match(start + r"raised at \S+:\d+, `[Ff]ails` ", note)


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


# Without an operation that fails ------------------------------------------------------------


class Fails:
    """A hook that fails, as a method and as an object."""

    def hook(self, *_):
        raise ZeroDivisionError

    __call__ = hook


FAILS = Fails()


def _on_weight(model, hook):
    model[2].weight.register_hook(hook)


def _after_weight(model, hook):
    model[2].weight.register_post_accumulate_grad_hook(hook)


def _on_module(model, hook):
    model[2].register_full_backward_hook(hook)


def _before_module(model, hook):
    model[2].register_full_backward_pre_hook(hook)


WEIGHT, HOOKS_OF_MODULE = "`AccumulateGrad` of `2.weight`", "`BackwardHookFunctionBackward`"


@pytest.mark.parametrize("hook", [FAILS, FAILS.hook, functools.partial(FAILS.hook, 1)])
@pytest.mark.parametrize(
    "add_hook, node",
    [
        (_on_weight, WEIGHT + ","),
        (_after_weight, WEIGHT + ", given gradients float32[2, 4],"),
        (_on_module, HOOKS_OF_MODULE + ", given gradients float32[2, 4],"),
        (_before_module, HOOKS_OF_MODULE + ", given gradients float32[2, 2],"),
    ],
)
def test_hook_of_a_weight_or_module(add_hook, node, hook):
    """The note has its node, module and line, and the module is the place of the failure."""
    model = mlp()
    model[0].bias.register_hook(lambda gradient: None)
    add_hook(model, hook)
    note, recording = _failed(lambda: step(model), model)
    failure = recording.run.failure
    around = [recording.scopes[scope].path for scope in recording.within(failure.scope)]
    assert "2" in around
    start = re.escape(f"torchrecorder: in backward, in a hook of {node} raised at ")
    place = r"\S*:\d+, (read|made) by `2` \(Linear\), .*op `\w+`, at \S*hooked\.py:\d+, "
    assert re.match(start + place, note)


def _failed(run, model=None):
    """The note, and the recording, of a run that fails in a hook."""
    with pytest.raises(ZeroDivisionError) as caught, tr.Recorder(model):
        run()
    recording = tr.recording_of(caught.value)
    assert not recording.run.lost and recording.run.failure.backward
    return caught.value.__notes__[0], recording


def _failed_node(run):
    """The name of the node at which the hook ran, and the operation that made it."""
    _, recording = _failed(run)
    failure = recording.run.failure
    failed = [run.grad for run in recording.grad_runs if run.failed]
    assert failed in ([], [failure.grad])
    return recording.grad_nodes[failure.grad].name, recording.ops[failure.op].name


def test_hook_of_a_result():
    """Of several nodes that could run next, the one with the gradient that the hook was given."""

    def run():
        x = torch.ones(2, requires_grad=True)
        y, z = x * 2, x.exp().view(2, 1)
        y.register_hook(FAILS)
        (y.sum() + z.sum()).backward()

    assert _failed_node(run) == ("MulBackward0", "mul")


def test_hook_before_a_node():
    """It is given a tuple."""

    def run():
        x = torch.ones(2, requires_grad=True).sin()
        x.grad_fn.register_prehook(FAILS)
        x.cos().sum().backward()

    assert _failed_node(run) == ("SinBackward0", "sin")


def test_hook_of_an_input_after_the_gradient_of_a_weight():
    """The accumulation of the weight has ended."""
    model = nn.Linear(3, 2)

    def run():
        x = torch.ones(2, 3, requires_grad=True)
        x.register_hook(FAILS)
        model(x).sum().backward()

    note, recording = _failed(run)
    node = recording.grad_nodes[recording.run.failure.grad]
    assert recording.values[node.variable].shape == (2, 3)
    assert not any(run.failed for run in recording.grad_runs)


def test_hook_of_a_gradient_that_was_asked_for():
    """Nodes that do not lead to it will not run."""

    def run():
        x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        found, other = x.sin(), y.cos()
        found.register_hook(FAILS)
        torch.autograd.grad((found * other).sum(), x)

    assert _failed_node(run) == ("SinBackward0", "sin")
