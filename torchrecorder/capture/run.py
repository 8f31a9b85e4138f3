"""record: run a model once, only to look at it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.guest import restored, uncollected
from torchrecorder.capture.inputs import as_leaf_dummies, call_arguments
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.values import tensors_in
from torchrecorder.graph.recording import Recording


def record(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shapes: Any = None,
    name: str | None = None,
    autograd: bool = False,
    backward: bool = False,
    fake: bool = False,
    restore: bool = True,
    input_data: Any = None,
) -> Recording:
    """Run *model* once and record what happens.

    The model runs where it is and as it is: it is not moved, cast, or switched between
    training and evaluation, and runs in the grad mode of the caller.

    Args:
        model: An ``nn.Module``, or any function or method that works on tensors.
        args: A tuple of positional arguments; a mapping of keyword arguments; or the one
            positional argument.
        kwargs: Keyword arguments of the model.
        input_shapes: Instead of *args*: a shape, a list of shapes, or a mapping from
            argument name to shape. The inputs are random, on the model's device, in its
            precision.
        name: Name of the recording; the class name if not given.
        autograd: Give a frozen model an autograd graph: floating-point inputs enter as
            leaves that require grad.
        backward: Run the backward pass too, from every output that requires grad, with
            gradients of ones (an output named ``loss`` alone, if there is one).
        fake: Run on fake tensors: shapes only, no compute, no memory.
        restore: Put buffers, gradients and random state back as they were before.
        input_data: The 1.x spelling of *args*.

    Returns:
        The recording.

    Raises:
        InvalidArgument: *model* cannot be called, or arguments contradict each other.
        ArgumentMismatch: The model does not take these arguments.
        Exception: Whatever the model raises, with a note of where it happened;
            `recording_of` gives what was recorded until then.

    Example:
        >>> import torch, torchrecorder
        >>> recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))
        >>> [op.name for op in recording.ops.values()]
        ['linear']
    """
    positional, named = call_arguments(
        model, input_data if args is None else args, kwargs, input_shapes
    )
    recorder = Recorder(model, name=name)
    with contextlib.ExitStack() as stack:
        stack.enter_context(uncollected())
        if restore:
            stack.enter_context(restored(model))
        if fake:
            positional, named = _faked(stack, positional, named)
        if autograd:
            positional, named = as_leaf_dummies(positional, named)
        if backward:
            _set_gradients_aside(model)
        with recorder:
            output = recorder.call(model, positional, named)
            if backward:
                _run_backward(output)
        del output
        return recorder.recording


def _faked(
    stack: contextlib.ExitStack, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Enter fake mode, and the arguments as fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree as pytree

    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(found: Any) -> Any:
        return mode.from_tensor(found, static_shapes=True) if isinstance(found, Tensor) else found

    positional, named = pytree.tree_map(fake, (args, kwargs))
    stack.enter_context(mode)
    return positional, named


def _set_gradients_aside(model: Any) -> None:
    """Start from no gradients, so that none of the user's is added to."""
    if isinstance(model, Module):
        for parameter in model.parameters():
            parameter.grad = None


def _run_backward(output: Any) -> None:
    found = [(name, each) for name, each in tensors_in(output) if each.requires_grad]
    losses = [each for name, each in found if name == "loss"] or [each for _, each in found]
    if losses:
        torch.autograd.backward(losses, [torch.ones_like(each) for each in losses])
