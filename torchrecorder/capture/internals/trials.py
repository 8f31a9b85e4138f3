"""Trials: whether an internal of PyTorch or CPython exists and works as the recorder needs."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@functools.cache
def find(path: str) -> Any:
    """The object at a dotted *path* from ``torch`` or ``sys``; None if there is none."""
    try:
        return pkgutil.resolve_name(path)
    except (ImportError, AttributeError):
        return None


OLDEST = "2.6"
"""The oldest version of PyTorch that has everything needed."""


@dataclass(frozen=True)
class Internal:
    """A private or changing part of PyTorch or CPython."""

    name: str
    gives: str  # the feature of the recorder that uses it
    without: str  # the effect if PyTorch does not have it
    paths: tuple[str, ...] = ()  # dotted paths of the names that must exist
    # private attributes of objects that capture reads directly, for speed
    attributes: tuple[str, ...] = ()
    since: str = OLDEST  # the first supported version that has it
    until: str = ""  # the first version without it; empty if there is none
    needed: bool = False  # whether nothing can be recorded without it
    # returns the result of further checks, besides the names
    works: Callable[[], bool] = lambda: True

    @property
    def missing(self) -> tuple[str, ...]:
        """The paths that do not exist in this PyTorch."""
        return tuple(path for path in self.paths if find(path) is None)

    def functions(self) -> tuple[Any, ...]:
        """The existing functions at its paths, without decorators."""
        return tuple(map(inspect.unwrap, filter(callable, map(find, self.paths))))

    @property
    def present(self) -> bool:
        """Whether this PyTorch has it."""
        return not self.missing and self.works()


def needed(name: str, gives: str, *paths: str, attributes: tuple[str, ...] = ()) -> Internal:
    """An `Internal` without which nothing can be recorded."""
    return Internal(name, gives, "nothing can be recorded", paths, attributes, needed=True)


def reaches_modes(function: Callable[..., Any] | None) -> bool:
    """Whether *function*, written in Python, passes its calls to function modes."""
    code = getattr(function, "__code__", None)
    return code is not None and "handle_torch_function" in code.co_names


def asks_for_modes(path: str) -> bool:
    """Whether the function at *path* calls ``has_torch_function`` and ``handle_torch_function``."""
    code = getattr(find(path), "__code__", None)
    return code is not None and {"has_torch_function", "handle_torch_function"} <= {*code.co_names}


def parameters(path: str) -> tuple[str, ...]:
    """The names of the parameters of the function at *path*; empty if there is none."""
    code = getattr(find(path), "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()


def creates_contexts() -> bool:
    """Whether a running custom function can be detected, by its frame or its context."""
    if hasattr(torch.autograd.Function.apply, "__code__"):
        return True
    created = []

    class Context(torch.autograd.function.BackwardCFunction):
        def __init__(self) -> None:
            created.append(self)

    class Trial(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any) -> None:
            """Nothing."""

    Trial._backward_cls = Context
    Trial.apply()  # type: ignore[no-untyped-call]
    return bool(created)


def sees_end_of_storages() -> bool:
    """Whether a Python weak reference to a storage expires while C++ has a weak reference to it."""
    ended: list[Any] = []
    tensor = torch.empty(1, device="cpu")
    storage = tensor.untyped_storage()
    reference, weak = weakref.ref(storage, ended.append), storage._weak_ref()
    del storage, tensor
    seen = ended == [reference]
    find("torch.UntypedStorage._free_weak_ref")(weak)
    return seen


def exposes_reductions() -> bool:
    """Whether the kind of a reduction can be read from the arguments of an operator."""
    try:
        return hasattr(torch.classes.c10d.ReduceOp(), "op")
    except RuntimeError:  # a PyTorch without torch.distributed
        return False


def fakes_communication() -> bool:
    """Whether collectives and messages run on fake tensors.

    Before PyTorch 2.11, the first import of one of its internal modules registers their kernels.
    """
    operators = ("send", "recv_", "allreduce_", "scatter_", "_allgather_base_")
    registered = find("torch._C._dispatch_has_kernel_for_dispatch_key")

    def complete() -> bool:
        return all(registered(f"c10d::{name}", "Meta") for name in operators)

    try:
        return complete() or bool(find("torch.distributed._tools.fake_collectives")) and complete()
    except RuntimeError:  # a PyTorch without torch.distributed
        return False
