"""record: run a model once and record the run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Union, overload

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.exported import is_exported, opened
from torchrecorder.capture.inputs import as_leaf_dummies, call_arguments, detached
from torchrecorder.capture.internals.access import (
    SEES_SAVED_TENSORS, DisableTorchFunction, FakeTensor, FakeTensorMode, pytree, run_backward,
)
from torchrecorder.capture.internals.processes import gathers_weights, local_part
from torchrecorder.capture.module_tree import named_modules, parameters_in
from torchrecorder.capture.probes.probes import Compiled, Probes
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.scope import Choice
from torchrecorder.capture.state.restore import restored
from torchrecorder.capture.tensors.argument_objects import tensors_in_objects
from torchrecorder.capture.tensors.describe import is_tensor, tensors_in
from torchrecorder.checks import (
    FLAG, Check, check_one, inputs_together, suggests_names, warn, whole_number,
)
from torchrecorder.errors import InvalidArgument, Notice
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.recording import Recording

if TYPE_CHECKING:
    from typing_extensions import Unpack


class RecordOptions(TypedDict, total=False):
    """The keyword options of `record`, apart from the inputs."""

    name: str | None
    autograd: bool
    backward: bool
    fake: bool
    restore: bool
    repeat: int
    warmup: int | None
    stats: Choice
    keep: Choice
    flops: bool
    replay: bool
    saved: bool | None
    compiled: Compiled
    profile: bool
    memory: bool
    threads: bool


class InputOptions(RecordOptions, total=False):
    """The keyword options of `record`, with those that create inputs from shapes."""

    input_shapes: Union[Sequence[Any], Mapping[str, Any]]
    dtypes: Any
    input_data: Any


@overload
def record(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[RecordOptions],
) -> Recording: ...


@overload
def record(
    model: Any,
    *,
    input_shapes: Sequence[Any] | Mapping[str, Any],
    dtypes: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[RecordOptions],
) -> Recording: ...


@overload
def record(
    model: Any,
    *,
    input_data: Any,
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[RecordOptions],
) -> Recording: ...


@inputs_together
@suggests_names
def record(
    model: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_shapes: Any = None,
    dtypes: Any = None,
    name: str | None = None,
    autograd: bool = False,
    backward: bool = False,
    fake: bool = False,
    restore: bool = True,
    repeat: int = 1,
    warmup: int | None = None,
    stats: Choice = False,
    keep: Choice = (),
    flops: bool = False,
    replay: bool = False,
    saved: bool | None = None,
    compiled: Compiled = False,
    profile: bool = False,
    memory: bool = False,
    threads: bool = False,
    input_data: Any = None,
) -> Recording:
    """Run *model* once, and return a recording of the run.

    The model runs on its device, in its dtype and training mode, and in the grad mode of the
    caller: `record` changes none of them.

    Args:
        model: An ``nn.Module``; a function or method that takes tensors; an
            ``ExportedProgram`` of ``torch.export``, or the path of a saved one (``.pt2``). An
            exported program that gets no inputs runs on fake tensors with the shapes of its
            example inputs.
        args: A tuple of positional arguments; a mapping of keyword arguments; or the one
            positional argument.
        kwargs: Keyword arguments of the model.
        input_shapes: Instead of *args*: a shape, a list of shapes, or a mapping from
            argument name to shape. The inputs are random, with the device and dtype of the
            model. A pair is a shape and a dtype: ``{"ids": ((1, 16), torch.int64)}``.
        dtypes: Dtypes of *input_shapes*: one for all, or a list or mapping that matches them.
            Random integers are 0 or 1.
        name: Name of the recording; the class name if not given.
        autograd: Record the autograd graph of a frozen model too: floating-point inputs are
            replaced by leaves that require grad.
        backward: Run the backward pass too, from every output that requires grad, with
            gradients of ones; if an output is named ``loss``, only from that.
        fake: Run on fake tensors (``FakeTensorMode``): shapes only; nothing is computed, allocated
            or timed.
        restore: Restore buffers, gradients and random state after the run; if *model* is a
            function, only random state.
        repeat: If more than 1, the number of further runs that are timed; the recording has the
            median times.
        warmup: Number of untimed runs before those; 1 if *repeat* is more than 1, else 0.
        stats: Compute statistics of tensors and gradients: of all, or of those in a list of
            scopes (dotted paths, which may contain ``*``).
        keep: Scopes whose outputs and gradients are kept, for `Recording.activations` and
            `Recording.gradients`; also operations by scope and name, ``"encoder.*: softmax"``.
        flops: Count floating-point operations.
        replay: Keep the autograd graph with the recording, for `Recording.replay`.
        saved: Count the bytes saved for backward; None: only if *backward* is true.
        compiled: Run the model again with ``torch.compile``, to record the graph of each op and
            the graph breaks with their reasons. ``"inductor"``: also which ops share a kernel;
            that needs a C++ compiler, and time.
        profile: Run it under ``torch.profiler``, and record what it measures for each op: time on
            the CPU and on the GPU, kernels, memory.
        memory: Record when the memory of tensors is allocated and released, in forward and
            backward, for `Recording.memory`.
        threads: Also record the threads that the model starts.
        input_data: The 1.x spelling of *args*.

    Returns:
        The recording.

    Raises:
        InvalidArgument: *model* is not callable, arguments contradict each other, or *fake* is
            true and the model uses FSDP with real weights, which would be replaced by fake ones.
        ArgumentMismatch: The signature of the model does not accept these arguments.
        Exception: Any exception of the model, with a note that names the module and operation;
            `recording_of` returns the recording up to there.

    Example:
        >>> import torch, torchrecorder
        >>> recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))
        >>> [op.name for op in recording.ops.values()]
        ['linear']
    """
    __tracebackhide__ = True  # tracebacks of pytest and IPython begin at the program's frames
    flags = {"autograd": autograd, "backward": backward, "fake": fake, "restore": restore}
    for flag, value in {**flags, "profile": profile, "threads": threads}.items():
        check_one(flag, value, FLAG)
    check_one("saved", saved, FLAG.or_none())
    if args is not None and input_data is not None:
        raise InvalidArgument("give either args or input_data, its old name, not both")
    if saved and not SEES_SAVED_TENSORS:
        warn(
            "saved=True has no effect: this version of PyTorch does not expose the tensors that "
            "autograd nodes save"
        )
    exported = opened(model) if is_exported(model) else None
    if exported is not None:
        model, name = exported.module, name or exported.classes.get("", "").rpartition(".")[2]
        if args is kwargs is input_data is input_shapes is None:
            args, kwargs, fake = exported.args, exported.kwargs, True
    positional, named = call_arguments(
        model, input_data if args is None else args, kwargs, input_shapes, dtypes
    )
    before = _warmup(repeat, warmup)
    if fake and before + repeat > 1:
        raise InvalidArgument("fake=True measures no times: repeat and warmup need real tensors")
    if fake:
        _refuse_real_shards(model)
    for option, setting in (("compiled", compiled), ("profile", profile)):
        if fake and setting:
            raise InvalidArgument(
                f"{option}={setting!r} needs real tensors and cannot be combined with fake=True"
            )
    run = functools.partial(
        _recorded, model, positional, named, name=name, autograd=autograd, backward=backward,
        fake=fake, threads=threads,
    )
    with without_gc():
        timed = [run(Probes(), restore=True) for _ in range(before + repeat * (repeat > 1))]
        kept = backward if saved is None else saved
        probes = Probes(stats, keep, flops, replay, kept, compiled, memory=memory)
        probes = replace(probes, profiler=_profiler()) if profile else probes
        recording = run(probes, restore=restore)
    if exported is not None:
        recording = exported.named(recording)
    if not fake and repeat == 1:
        return recording
    from torchrecorder.graph.median_runs import medians, without_times

    return without_times(recording) if fake else medians(recording, timed[before:])


def _refuse_real_shards(model: Any) -> None:
    """Raise for FSDP models with real weights: they cache gathered weights, which would be fake.

    Raises:
        InvalidArgument: *model* is such a model.
    """
    modules = named_modules(model) if isinstance(model, Module) else ()
    if any(gathers_weights(module) for _, module in modules):
        if not all(isinstance(local_part(item), FakeTensor) for item in parameters_in(model)):
            raise InvalidArgument(
                "fake=True would leave fake weights in this FSDP model and break its next step: "
                "record it without fake=True, or create it under FakeTensorMode"
            )


def _warmup(repeat: int, warmup: int | None) -> int:
    """The number of untimed runs, after a check of both arguments."""
    for name, number, least in (("repeat", repeat, 1), ("warmup", warmup, 0)):
        runs = Check(f"a number of runs of at least {least}", whole_number(least).holds)
        check_one(name, number, runs.or_none() if name == "warmup" else runs)
    return int(repeat > 1) if warmup is None else warmup


def _recorded(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], probes: Probes, *,
    name: str | None, autograd: bool, backward: bool, fake: bool, threads: bool, restore: bool,
) -> Recording:
    """Run the model in a `Recorder`, and return the recording."""
    __tracebackhide__ = True
    recorder = Recorder(model, name=name, threads=threads, **vars(probes))
    with contextlib.ExitStack() as stack:
        if restore:
            stack.enter_context(restored(model))
        if fake:
            args, kwargs = _with_fake_inputs(stack, args, kwargs)
        if autograd:
            args, kwargs = as_leaf_dummies(args, kwargs)
        if backward:
            args, kwargs = _reset_gradients(stack, model, args, kwargs, restore)
        with probes.profiler or contextlib.nullcontext(), recorder:
            output = recorder.call(model, args, kwargs)
            _warn_of_later(output)
            if backward:
                _run_backward(output, retain=probes.replay)
        del output, args, kwargs
        return recorder.recording


def _warn_of_later(output: Any) -> None:
    """Warn if *output* is a generator or coroutine, whose body runs after the recording."""
    if isinstance(output, (Generator, Coroutine, AsyncGenerator)):
        warn(
            f"the result is a {type(output).__name__}, which runs when it is iterated or awaited, "
            "after the recording: record a function that does this, or do it in a Recorder block",
            Notice,
        )


def _profiler() -> Any:
    """A ``torch.profiler.profile`` of the CPU, and of CUDA if it is initialized."""
    from torch.profiler import ProfilerActivity

    on_device = [ProfilerActivity.CUDA] if torch.cuda.is_initialized() else []
    activities = [ProfilerActivity.CPU, *on_device]
    return torch.profiler.profile(activities=activities, profile_memory=True, with_flops=True)


def _with_fake_inputs(
    stack: contextlib.ExitStack, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Enter a fake tensor mode until *stack* is closed; returns the arguments as fake tensors."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(value: Any) -> Any:
        return mode.from_tensor(value, static_shapes=True) if is_tensor(value) else value

    positional, named = pytree.tree_map(fake, (args, kwargs))
    stack.enter_context(mode)
    return positional, named


def _reset_gradients(
    stack: contextlib.ExitStack,
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    restore: bool,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Set ``grad`` of parameters and inputs to None; with *restore*, until *stack* is closed, and
    with the inputs detached from the user's autograd graph. Returns the arguments."""
    parameters = parameters_in(model) if isinstance(model, Module) else ()
    given = [item for _, item in tensors_in((args, kwargs)) if item.requires_grad and item.is_leaf]
    for leaf in given if restore else ():
        stack.callback(setattr, leaf, "grad", leaf.grad)
    for leaf in (*parameters, *given):
        leaf.grad = None
    return detached(args, kwargs) if restore else (args, kwargs)


def _run_backward(output: Any, *, retain: bool) -> None:
    """Run backward from the outputs that require grad, or from the one named ``loss``."""
    __tracebackhide__ = True
    given = tensors_in(output) or tensors_in_objects([("", output)], [])
    found = [(name, tensor) for name, tensor in given if tensor.requires_grad]
    losses = [item for name, item in found if name == "loss"] or [item for _, item in found]
    if losses:
        with DisableTorchFunction():  # not an op of the model
            ones = [None if _is_scalar(loss) else torch.ones_like(loss) for loss in losses]
        run_backward(losses, ones, retain_graph=retain)
    else:
        warn(
            "backward=True ran no backward pass: no output requires grad, because gradients are "
            "off or the model is frozen. For a frozen model, autograd=True makes its inputs "
            "require grad"
        )


def _is_scalar(loss: Tensor) -> bool:
    """Whether ``backward()`` needs no gradient argument: PyTorch creates one for scalars."""
    return loss.dim() == 0 and loss.is_floating_point()
