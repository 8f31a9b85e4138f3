"""Targets: the model or recording of a command, and how to record it.

A target is an import path, or a file with the name of a module, class or factory in it, or a saved
recording.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchrecorder.annotations import flags_for
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import FLAG, TEXT, Check, literal, one_of, setting, warn, whole_number
from torchrecorder.errors import ArgumentMismatch, InvalidArgument, TorchRecorderError
from torchrecorder.graph.saved_files import SUFFIXES
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.import_target import ModelFailed, find, users_code
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.shapes import InputShape, parse_shape, tensors
from torchrecorder.option_table import documented, no_effect, option, options_of
from torchrecorder.recording import Recording, load

TARGET = "package.module:name, file.py:name, model.pt2, or run.json"
"""The forms of a target."""

PROGRAM = ".pt2"
"""The suffix of a program that ``torch.export`` saved."""

FILES = (*SUFFIXES, PROGRAM)
"""The suffixes of files that are targets themselves."""


LITERALS = Check("a value", lambda value: True, read=lambda text: (literal(text),), several=True)
SETTINGS = Check("a mapping from names", lambda value: True, read=setting, several=True)
SHAPES = Check("shapes", lambda value: True, read=lambda text: (parse_shape(text),), several=True)
COUNT = whole_number(1).or_none()
SEED = Check(
    "a whole number from 0 to 2**64 - 1",
    lambda value: whole_number(0).holds(value) and value < 2**64,
    read=literal,
)


@documented
@dataclass(frozen=True)
class Target:
    """The target of a shell command or document, and how to record it."""

    path: str
    measured: tuple[str, ...] = ()  # flags of `record` that were not given, but are needed
    defaults: Mapping[str, Any] = field(default_factory=dict)  # other than those of the options
    arg: tuple[Any, ...] = option(
        "Argument of the function that creates the model.",
        LITERALS, default=(), placeholder="VALUE",
    )
    set: Mapping[str, Any] = option(
        "Keyword argument of that function, such as num_classes=10.",
        SETTINGS, factory=dict, placeholder="NAME=VALUE",
    )
    as_is: bool = option("Record the target itself, without calling it.", FLAG, default=False)
    device: str | None = option(
        "Device to create it on: cpu, cuda, or meta (shapes only, no memory).",
        replace(TEXT, known=("cpu", "cuda", "meta")).or_none(), default=None, placeholder="DEVICE",
    )
    seed: int | None = option(
        "Random seed, set before the model is created.",
        SEED.or_none(), default=None, placeholder="NUMBER",
    )
    train: bool | None = option(
        "Put the model in training mode. Off is evaluation mode; None keeps its mode.",
        FLAG.or_none(), default=None,
        off=("--eval", "put the model in evaluation mode; by default its mode is as created"),
    )
    shape: tuple[InputShape, ...] = option(
        "One random input: 1,3,224,224 or 1,16:int64 or ids=1,16:int64:0-1000.",
        SHAPES, default=(), placeholder="SHAPE",
    )
    inputs: str | None = option(
        "The inputs, or a function that creates them: package.module:name.",
        TEXT.or_none(), default=None, placeholder="PATH",
    )
    grad: bool = option(
        "Run it with gradients on.", FLAG, default=True,
        off=("--no-grad", "run it without gradients (no_grad)"),
    )
    backward: bool = option("Run the backward pass too.", FLAG, default=False)
    autograd: bool = option("Record the autograd graph of a frozen model too.", FLAG, default=False)
    fake: bool = option("Run on fake tensors: shapes only, no compute.", FLAG, default=False)
    flops: bool = option("Count floating-point operations.", FLAG, default=False)
    compiled: bool | str = option(
        "Compile it too, and record the graph of each operation and the graph breaks. "
        "\"inductor\": also which operations share a kernel.",
        one_of(True, False, "inductor"), default=False,
    )
    profile: bool = option(
        "Run it under the profiler, and record its times, kernels and memory.", FLAG, default=False
    )
    stats: bool = option("Compute statistics of tensors and gradients.", FLAG, default=False)
    saved: bool = option("Count the bytes saved for backward.", FLAG, default=False)
    memory: bool = option("Record when memory is allocated and released.", FLAG, default=False)
    repeat: int | None = option(
        "Measure times in this number of further runs, and take the medians.",
        COUNT, default=None, placeholder="RUNS",
    )
    name: str | None = option(
        "Name of the recording.", TEXT.or_none(), default=None, placeholder="TEXT"
    )

    def recording(self, progress: Progress) -> Recording:
        """Load the saved recording, or create the model and run it.

        Raises:
            InvalidArgument: The target cannot be found or used.
            ModelFailed: The model could not be created, or raised.
        """
        if self.is_file and not Path(self.path).exists():
            raise InvalidArgument(f"there is no file {self.path!r}")
        if self.is_saved:
            progress.now("reading the recording")
            self.warn_of_unused("a recording", TARGET_OPTIONS)
            return load(self.path)
        return self.record(lambda: self.path if self.is_file else find(self.path), progress)

    @property
    def is_file(self) -> bool:
        """Whether it is a file as a whole: a saved recording or exported program."""
        return self.path.lower().endswith(FILES)

    @property
    def is_saved(self) -> bool:
        """Whether it is a saved recording."""
        return self.path.lower().endswith(SUFFIXES)

    def warn_of_unused(self, what: str, names: Iterable[str]) -> None:
        """Warn about given options among *names*, because the target is *what* it is."""
        options = {name: TARGET_OPTIONS[name] for name in names}
        unused = [
            option.negated[0] if getattr(self, name) is False else f"--{option.spelled}"
            for name, option in options.items()
            if getattr(self, name) != self.defaults.get(name, option.default)
        ]
        if unused:
            warn(f"{self.path} is {what}: {no_effect(unused)} on it")

    def record(self, finding: Callable[[], Any], progress: Progress) -> Recording:
        """Record what *finding* returns: a model, or a function that returns one or a recording.

        Raises:
            InvalidArgument: It is neither, or cannot be called like this.
            ModelFailed: The model could not be created, or raised.
        """
        progress.now("importing torch")
        import torch

        with contextlib.ExitStack() as stack:
            if self.seed is not None:
                torch.manual_seed(self.seed)
            if self.device is not None:
                stack.enter_context(_device(self.device))
            progress.now(f"making {self.path}")
            model, inputs = _model_and_inputs(self, finding())
            if isinstance(model, Recording):
                others = [name for name in TARGET_OPTIONS if name not in MADE_BY_FACTORY]
                self.warn_of_unused("a recording", others)
                return model
            stack.enter_context(torch.set_grad_enabled(self.grad))
            progress.now("running the model")
            given = {name: getattr(self, name) for name in RECORDED if getattr(self, name)}
            return _recorded(model, inputs, {**dict.fromkeys(self.measured, True), **given})


TARGET_OPTIONS = options_of(Target)
"""Every option of a target, by name."""

MADE = ("arg", "set", "as_is", "device", "seed", "train")
MADE_BY_FACTORY = ("arg", "set", "device", "seed")
RECORDED = (
    "backward", "autograd", "fake", "flops", "compiled", "profile", "stats", "saved", "memory",
    "repeat", "name",
)
"""Names of the options for creating a model, of those with an effect on a function that returns a
recording, and of those of `record`."""


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that `target_of` reads."""
    parser.add_argument("target", help=TARGET)
    add_recording_arguments(parser)


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that determine how a model is created and run."""
    made = parser.add_argument_group("making the model")
    add_flags(made, (TARGET_OPTIONS[name] for name in MADE))
    run = parser.add_argument_group("running it")
    add_flags(run, (TARGET_OPTIONS[name] for name in TARGET_OPTIONS if name not in MADE))


def target_of(options: argparse.Namespace, path: str | None = None) -> Target:
    """The target in parsed arguments; *path* if they do not name exactly one."""
    path = options.target if path is None else path
    return Target(path, **given_options(options, TARGET_OPTIONS))


def measuring(target: Target, numbers: Iterable[Annotation]) -> Target:
    """*target*, set to measure these numbers; unchanged if it is a recording."""
    return replace(target, measured=tuple(sorted(flags_for(numbers))))


def _device(name: str) -> Any:
    """The device with this name, after a test of it."""
    import torch

    try:
        return torch.empty(0, device=name).device
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"device {name!r} cannot be used: {reason}") from error


def _model_and_inputs(
    target: Target, found: Any
) -> tuple[Any, tuple[tuple[Any, ...], Mapping[str, Any]]]:
    """The model, and positional and keyword arguments for it."""
    import torch

    from torchrecorder.capture.exported import is_exported

    model, inputs = found, None
    if is_exported(found):
        target.warn_of_unused("an exported program", ("arg", "set", "train"))
    elif isinstance(found, torch.nn.Module):
        target.warn_of_unused("a module", ("arg", "set"))
    elif not target.as_is:
        model, inputs = _made(found, target)
    if isinstance(model, torch.nn.Module):
        with users_code(f"{type(model).__name__}.to({target.device!r})"):
            if target.device is not None:
                model = model.to(target.device)
        with users_code(f"{type(model).__name__}.train({target.train})"):
            if target.train is not None:
                model.train(target.train)
    return model, _inputs(target, model, inputs)


def _made(factory: Any, target: Target) -> tuple[Any, Any]:
    """The model that *factory* returns, with inputs for it or None; or a recording."""
    if not callable(factory):
        raise InvalidArgument(
            f"{target.path} is {_a(factory)}: neither a module nor a function that returns one"
        )
    check_call(factory, target.path, target.arg, target.set)
    with users_code(f"calling {target.path}"):
        made = factory(*target.arg, **target.set)
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(model) and not isinstance(model, Recording):
        raise InvalidArgument(
            f"{target.path} returned {_a(model)}, which is neither a model nor a recording; "
            "--as-is records the function itself"
        )
    return model, inputs


def check_call(
    factory: Any,
    path: str,
    arguments: Sequence[Any],
    settings: Mapping[str, Any],
    more: str = "; --as-is records it without calling it",
) -> None:
    """Refuse arguments with which *factory* cannot be called; *more*: advice in the message."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        raise InvalidArgument(
            f"{path} takes {signature}: {error}. Give its arguments by --arg VALUE and "
            f"--set NAME=VALUE{more}"
        ) from None


def _inputs(target: Target, model: Any, inputs: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Positional and keyword arguments of *model*; *inputs* are those that the factory returned."""
    if target.shape and target.inputs is not None:
        raise InvalidArgument("give either --shape or --inputs")
    if target.shape:
        with users_code("making random inputs"):
            return tensors(target.shape, model, target.device)
    if target.inputs is not None:
        inputs = find(target.inputs)
        with users_code(f"calling {target.inputs}"):
            inputs = inputs() if inspect.isroutine(inputs) else inputs
    if isinstance(inputs, Mapping):
        return (), {str(name): inputs[name] for name in inputs}
    if inputs is None:
        return (), {}
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def _recorded(
    model: Any, inputs: tuple[tuple[Any, ...], Mapping[str, Any]], options: Mapping[str, Any]
) -> Recording:
    import torchrecorder

    positional, named = inputs
    try:
        return torchrecorder.record(model, positional or None, named or None, **options)
    except ArgumentMismatch as error:
        mismatch = str(error).partition(". Give inputs as")[0]
        raise InvalidArgument(
            f"{mismatch}. Give inputs by --shape 1,3,224,224 or --inputs"
        ) from None
    except TorchRecorderError:
        raise
    except Exception as error:
        recording = torchrecorder.recording_of(error)
        raise ModelFailed("the model", error, recording) from error


def _a(value: Any) -> str:
    return f"an object of type {type(value).__name__}"
