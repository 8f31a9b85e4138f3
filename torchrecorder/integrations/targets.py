"""Targets of the command line: what to record, and the recording of it.

A target is an import path or a file with the name of a module, class or factory in it, or
a saved recording.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import warn
from torchrecorder.errors import ArgumentMismatch, InvalidArgument, TorchRecorderError
from torchrecorder.graph.storage import SUFFIXES
from torchrecorder.integrations.finding import ModelFailed, find
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.shapes import Shape, parse_shape, tensors
from torchrecorder.recording import Recording, load

if TYPE_CHECKING:
    from torchrecorder.annotations.annotation import Annotation

TARGET = "package.module:name, file.py:name, or run.json"
"""What a target looks like."""


@dataclass(frozen=True)
class Target:
    """What the command line asks to record, and how.

    Attributes:
        path: Import path, file with a name, or saved recording.
        arguments: Positional arguments of the factory.
        settings: Its keyword arguments.
        as_is: Record what the path names, not what calling it gives.
        shapes: Inputs to make.
        inputs: Import path of the inputs, or of a function that makes them.
        device: Where to make the model and its inputs.
        training: Switch the model to training (True) or evaluation (False).
        grad: Record with gradients on.
        seed: Set before the model is made.
        options: Keyword options of ``record``.
    """

    path: str
    arguments: tuple[Any, ...] = ()
    settings: Mapping[str, Any] | None = None
    as_is: bool = False
    shapes: tuple[Shape, ...] = ()
    inputs: str | None = None
    device: str | None = None
    training: bool | None = None
    grad: bool = True
    seed: int | None = None
    options: Mapping[str, Any] | None = None

    def recording(self, progress: Progress) -> Recording:
        """Load the saved recording, or make the model and run it.

        Raises:
            InvalidArgument: The target cannot be found or used.
            ModelFailed: The model could not be made, or raised.
        """
        if self.is_saved:
            progress.now("reading the recording")
            if any(self._said()):
                warn(f"{self.path} is a recording: what is said of inputs and of making a model "
                     "is not needed, and does nothing")
            return load(self.path)
        return self.record(lambda: find(self.path), progress)

    @property
    def is_saved(self) -> bool:
        """Whether it is a recording, which is not run again."""
        return self.path.lower().endswith(SUFFIXES)

    def _said(self) -> tuple[object, ...]:
        """What only a model has a use for."""
        return self.arguments, self.settings, self.shapes, self.inputs, self.device

    def record(self, finding: Callable[[], Any], progress: Progress) -> Recording:
        """Run what *finding* gives: a model, or what makes one.

        Raises:
            InvalidArgument: It is neither, or cannot be called like this.
            ModelFailed: The model could not be made, or raised.
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
            stack.enter_context(torch.set_grad_enabled(self.grad))
            progress.now("running the model")
            return _recorded(model, inputs, self.options or {})


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `target_of` reads."""
    parser.add_argument("target", help=TARGET)
    add_recording_arguments(parser)


def add_recording_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a target is made and run."""
    made = parser.add_argument_group("making the model")
    made.add_argument(
        "--arg", action="append", default=[], metavar="VALUE", help="argument of the factory"
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="keyword argument of the factory, as in --set num_classes=10",
    )
    made.add_argument("--as-is", action="store_true", help="record the target, do not call it")
    made.add_argument("--device", help="where: cpu, cuda, or meta (shapes only, no memory)")
    made.add_argument("--seed", type=int, help="set before the model is made")
    mode = made.add_mutually_exclusive_group()
    mode.add_argument(
        "--train", dest="training", action="store_true", help="switch it to training mode"
    )
    mode.add_argument(
        "--eval",
        dest="training",
        action="store_false",
        help="to evaluation mode; it is left as it was made if neither is given",
    )
    parser.set_defaults(training=None)
    run = parser.add_argument_group("running it")
    run.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="SHAPE",
        help="one input, again for more: 1,3,224,224 or 1,16:int64 or ids=1,16:int64:0-1000",
    )
    run.add_argument(
        "--inputs", metavar="PATH", help="package.module:name of inputs or of what makes them"
    )
    run.add_argument("--no-grad", dest="grad", action="store_false", help="run under no_grad")
    run.add_argument("--backward", action="store_true", help="run the backward pass too")
    run.add_argument("--autograd", action="store_true", help="autograd graph of a frozen model")
    run.add_argument("--fake", action="store_true", help="on fake tensors: no compute")
    run.add_argument("--name", help="name of the recording")


def target_of(options: argparse.Namespace, path: str | None = None) -> Target:
    """The target that parsed arguments describe; *path* if they do not name just one.

    Raises:
        InvalidArgument: A shape or a setting cannot be read.
    """
    names = ("autograd", "backward", "fake", "name")
    return Target(
        path=options.target if path is None else path,
        arguments=tuple(value_of(text) for text in options.arg),
        settings=settings_of(options.set),
        as_is=options.as_is,
        shapes=tuple(parse_shape(text) for text in options.shape),
        inputs=options.inputs,
        device=options.device,
        training=options.training,
        grad=options.grad,
        seed=options.seed,
        options={name: getattr(options, name) for name in names if getattr(options, name)},
    )


def measuring(
    target: Target, numbers: Iterable[Annotation], repeat: int | None = None
) -> Target:
    """*target*, told to measure what these numbers need; a saved one has what it has."""
    from torchrecorder.annotations.annotation import DEVICE, TIMES

    needed = {flag: True for each in numbers for flag in each.needs if flag not in (TIMES, DEVICE)}
    again = {} if repeat is None else {"repeat": repeat}
    return replace(target, options={**(target.options or {}), **needed, **again})


def settings_of(texts: Sequence[str]) -> dict[str, Any]:
    """``["a=1", "b=x"]`` as ``{"a": 1, "b": "x"}``.

    Raises:
        InvalidArgument: One has no name.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InvalidArgument(f"cannot read {text!r}: write NAME=VALUE")
        settings[name] = value_of(value)
    return settings


def value_of(text: str) -> Any:
    """A Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def _device(name: str) -> Any:
    """The device of this name, after a try."""
    import torch

    try:
        return torch.empty(0, device=name).device
    except Exception as error:
        said = str(error).splitlines()[0]
        raise InvalidArgument(f"device {name!r} cannot be used: {said}") from error


def _model_and_inputs(
    target: Target, found: Any
) -> tuple[Any, tuple[tuple[Any, ...], Mapping[str, Any]]]:
    """The model, and positional and keyword arguments for it."""
    import torch

    given = None
    if not isinstance(found, torch.nn.Module) and not target.as_is:
        found, given = _made(found, target)
    if isinstance(found, torch.nn.Module):
        if target.device is not None:
            found = found.to(target.device)
        if target.training is not None:
            found.train(target.training)
    return found, _inputs(target, found, given)


def _made(factory: Any, target: Target) -> tuple[Any, Any]:
    """What *factory* gives: a model, or a model and inputs for it."""
    if not callable(factory):
        raise InvalidArgument(
            f"{target.path} is {_a(factory)}: neither a module nor something that makes one"
        )
    settings = target.settings or {}
    _check_call(factory, target.path, target.arguments, settings)
    try:
        made = factory(*target.arguments, **settings)
    except Exception as error:
        raise ModelFailed(f"calling {target.path}", error) from error
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not callable(model):
        raise InvalidArgument(
            f"{target.path} gave {_a(model)}, which is no model; --as-is records the "
            "function itself"
        )
    return model, inputs


def _check_call(
    factory: Any, path: str, arguments: Sequence[Any], settings: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*arguments, **settings)
    except TypeError as error:
        raise InvalidArgument(
            f"{path} takes {signature}: {error}. Give its arguments by --arg VALUE and "
            "--set NAME=VALUE; --as-is records it without calling it"
        ) from None


def _inputs(target: Target, model: Any, given: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if target.inputs is not None:
        given = find(target.inputs)
        given = given() if inspect.isroutine(given) else given
    if target.shapes:
        return tensors(target.shapes, model, target.device)
    if isinstance(given, Mapping):
        return (), {str(name): given[name] for name in given}
    if given is None:
        return (), {}
    return (given if isinstance(given, tuple) else (given,)), {}


def _recorded(
    model: Any, inputs: tuple[tuple[Any, ...], Mapping[str, Any]], options: Mapping[str, Any]
) -> Recording:
    import torchrecorder

    positional, named = inputs
    try:
        return torchrecorder.record(model, positional, named, **options)
    except ArgumentMismatch as error:
        if not positional and not named:
            raise InvalidArgument(f"{error} On the command line: --shape 1,3,224,224") from None
        raise
    except TorchRecorderError:
        raise
    except Exception as error:
        recording = torchrecorder.recording_of(error)
        raise ModelFailed("the model", error, recording) from error


def _a(thing: Any) -> str:
    return f"an object of type {type(thing).__name__}"
