"""Targets: what a command line or a directive names, and the inputs it describes."""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.recording import Recording

_SHAPE = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<sizes>\d+(?:,\d+)*|)(?::(?P<dtype>\w+))?")


def is_saved(target: str) -> bool:
    """Whether *target* is a saved recording rather than something to import."""
    return target.endswith((".json", ".json.gz"))


def find(target: str) -> Any:
    """What ``package.module:name`` or ``path/to/file.py:name`` names.

    Raises:
        InvalidArgument: It is not of that form, or there is no such thing.
    """
    home, colon, name = target.rpartition(":")
    if not colon or not home or not name:
        raise InvalidArgument(
            f"a target is package.module:name or path/to/file.py:name, got {target!r}"
        )
    found: Any = _load_file(Path(home)) if home.endswith(".py") else _import(home)
    for part in name.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, dir(found), 1)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidArgument(f"there is no {part!r} in {home}{guess}")
        found = getattr(found, part)
    return found


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        raise InvalidArgument(
            f"there is no module {name!r}: it must be importable from the current folder"
        ) from None


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise InvalidArgument(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def make(found: Any, settings: Iterable[str]) -> Any:
    """The model that *found* is, or makes when it is called with *settings*.

    Raises:
        InvalidArgument: A setting is not ``name=value``, or what was made is no callable.
    """
    from torch.nn import Module

    arguments = dict(parse_setting(each) for each in settings)
    if isinstance(found, Module):
        if arguments:
            raise InvalidArgument("the target is a model already: it takes no settings")
        return found
    if not callable(found):
        raise InvalidArgument(f"the target is no model and no factory but {type(found).__name__}")
    model = found(**arguments)
    if not callable(model):
        raise InvalidArgument(f"the factory gave no model but {type(model).__name__}")
    return model


def parse_setting(text: str) -> tuple[str, Any]:
    """``"num_classes=10"`` -> ``("num_classes", 10)``; what is no literal stays text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidArgument(f"a setting is name=value, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def inputs(shapes: Iterable[str], model: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword inputs for descriptions such as ``mask=1,16:bool``.

    Without a data type an input has that of the model's parameters, and its device. Whole
    numbers are drawn from 0 and 1, which every vocabulary has.

    Raises:
        InvalidArgument: A description is not ``[name=]size,size...[:dtype]``.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in shapes:
        match = _SHAPE.fullmatch(text.replace(" ", "").replace("x", ","))
        if match is None:
            raise InvalidArgument(
                f"a shape is size,size...[:dtype], or name=size,...; got {text!r}"
            )
        sizes = tuple(int(size) for size in match["sizes"].split(",") if size)
        tensor = _tensor(model, sizes, match["dtype"])
        if match["name"]:
            named[match["name"]] = tensor
        else:
            positional.append(tensor)
    return tuple(positional), named


def _tensor(model: Any, sizes: tuple[int, ...], dtype: str | None) -> Any:
    import torch

    from torchrecorder.capture.inputs import random_input

    made = random_input(model, sizes)
    if dtype is None:
        return made
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InvalidArgument(f"PyTorch has no data type {dtype!r}; try float32, int64 or bool")
    if kind.is_floating_point or kind.is_complex or made.is_meta:
        return made.to(kind)
    return (made * 2).to(torch.int64).to(kind)


def load_recording(path: str) -> Recording:
    """A saved recording."""
    from torchrecorder.graph.codec import load

    return load(path)
