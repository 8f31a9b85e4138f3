"""Programs of ``torch.export`` as modules with example inputs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import pytree
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import Slot
from torchrecorder.recording import Recording

_OPENED = {
    **dict.fromkeys(
        (".pt", ".pth", ".ckpt"),
        "torch.load() reads it, and a model with load_state_dict() takes its weights",
    ),
    ".safetensors": "it holds weights only: create the model and load them into it",
    ".onnx": "torchrecorder.integrations.onnx.load(path) gives its recording",
    ".json": "torchrecorder.load(path) gives the recording in it",
    ".gz": "torchrecorder.load(path) gives the recording in it",
}
"""What to do with other files, by suffix."""


def is_exported(model: Any) -> bool:
    """Whether *model* is an exported program, or the path of a saved one."""
    if isinstance(model, (str, os.PathLike)):
        return Path(os.fspath(model)).suffix.lower() == ".pt2"
    kind = type(model)
    return kind.__name__ == "ExportedProgram" and kind.__module__.startswith("torch.export")


def advice(model: Any) -> str:
    """A hint for the error message about an object that is not callable; may be empty."""
    if isinstance(model, (str, os.PathLike)):
        suffix = Path(os.fspath(model)).suffix.lower()
        return _OPENED.get(suffix, "files of torch.export (.pt2) can be recorded")
    if isinstance(model, Mapping):
        return "if these are weights, create the model and pass them to its load_state_dict()"
    if isinstance(model, Tensor):
        return "the model comes first, then its inputs: record(model, x)"
    if isinstance(model, Recording):
        return "a recording has methods of its own, such as render(path) and summary()"
    if type(model).__module__.partition(".")[0] == "onnx":
        return "torchrecorder.integrations.onnx.load() gives the recording of an ONNX model"
    return ""


class Exported(NamedTuple):
    """An exported program that can be called."""

    module: Any  # the program as a module with submodules
    args: tuple[Any, ...]  # uninitialized tensors with the shapes and dtypes of the example inputs
    kwargs: dict[str, Any]  # the same, for keyword arguments
    classes: Mapping[str, str]  # the original classes of its modules, by dotted path
    # the names of the arguments of the original ``forward``, if PyTorch keeps them
    arguments: tuple[str, ...]

    def named(self, recording: Recording) -> Recording:
        """*recording* with the original classes of modules and the original names of arguments."""

        def original(path: str, cls: str) -> str:
            return self.classes.get(_of_module(path), cls)

        def renamed(path: str, cls: str) -> str:
            return original(path, cls).rpartition(".")[2]

        scopes = {
            key: scope.replace(cls=renamed(scope.path, scope.cls)) if scope.module else scope
            for key, scope in recording.scopes.items()
        }
        modules = {
            key: module.replace(
                cls=renamed(module.names[0], module.cls),
                qualname=original(module.names[0], module.qualname),
            )
            if module.names else module
            for key, module in recording.modules.items()
        }
        inputs = tuple(Slot(self._argument(slot.name), slot.value) for slot in recording.inputs)
        names = {slot.value: self._argument(slot.name) for slot in recording.inputs}
        root = recording.roots[0] if recording.roots else None
        if root in scopes:
            given = [Slot(self._argument(name), value) for name, value in scopes[root].inputs]
            scopes[root] = scopes[root].replace(inputs=tuple(given))
        values = {
            key: value.replace(names=(names[key],)) if key in names and value.names else value
            for key, value in recording.values.items()
        }
        return replace(
            recording,
            inputs=inputs,
            scopes=MappingProxyType(scopes),
            modules=MappingProxyType(modules),
            values=MappingProxyType(values),
        )

    def _argument(self, name: str) -> str:
        """The original name of an argument, or of a part of it; *name* begins with its position."""
        first, dot, rest = name.partition(".")
        known = first.isdigit() and int(first) < len(self.arguments)
        return self.arguments[int(first)] + dot + rest if known else name


def opened(program: Any) -> Exported:
    """An exported program, or the path of a saved one, as a module with example inputs.

    Raises:
        FileNotFoundError: There is no such file.
        InvalidArgument: The file cannot be read.
    """
    if isinstance(program, (str, os.PathLike)):
        os.stat(program)  # PyTorch would log a traceback
        try:
            program = torch.export.load(program)  # type: ignore[arg-type]
        except Exception as error:  # other files raise all kinds of exceptions
            first = (str(error).splitlines() or [""])[0]
            raise InvalidArgument(f"cannot read {os.fspath(program)!r}: {first}") from error
    args, kwargs = _inputs(program)
    return Exported(_nested(program), args, kwargs, _classes(program), _arguments(program))


def _arguments(program: Any) -> tuple[str, ...]:
    signature = getattr(program.module_call_graph[0], "signature", None)
    return tuple(getattr(signature, "forward_arg_names", None) or ())


def _classes(program: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        for path, cls in (node.meta.get("nn_module_stack") or {}).values():
            name = cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}"
            found.setdefault(_of_module(path), name)
    return found


def _of_module(path: str) -> str:
    """``"body.fc"`` for ``"body@1.fc"``, as PyTorch calls what another call of ``body`` ran."""
    return re.sub(r"@\d+", "", path)


def _nested(program: Any) -> Any:
    """The program with its original submodules; a flat module if PyTorch cannot restore them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.unflatten(program).eval()  # as most were when they were exported
    except Exception:  # unflattening fails for many programs
        return program.module()


def _inputs(program: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    metas = {node.name: node.meta.get("val") for node in program.graph.nodes}
    flat = [
        _like(metas.get(given) if isinstance(given, str) else given)
        for given in program.graph_signature.user_inputs
    ]
    args, kwargs = pytree.tree_unflatten(flat, program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


def _like(meta: Any) -> Any:
    """An uninitialized tensor like *meta*; other objects are returned unchanged."""
    if not isinstance(meta, Tensor):
        return meta
    sizes = [size if isinstance(size, int) else _hint(size) for size in meta.shape]
    return torch.empty(sizes, dtype=meta.dtype, device=meta.device)


def _hint(size: Any) -> int:
    """The size of a symbolic dimension in the example inputs; 2 if it is unknown."""
    hint = getattr(size.node, "hint", None)
    return int(hint) if hint is not None else 2
