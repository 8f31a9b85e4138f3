"""Trials: check that a name of PyTorch exists, and that it works as the recorder needs."""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch


@functools.cache
def find(path: str) -> Any:
    """The object at a dotted *path* from ``torch`` or ``sys``; None if there is none."""
    root, *parts = path.split(".")
    found: Any = {"torch": torch, "sys": sys}[root]
    for number, part in enumerate(parts, 2):
        if not hasattr(found, part):
            try:
                importlib.import_module(".".join(path.split(".")[:number]))
            except ImportError:
                return None
        found = getattr(found, part, None)
    return found


def reaches_modes(function: Callable[..., Any] | None) -> bool:
    """Whether *function*, if there is one in Python, passes its calls to function modes."""
    code = getattr(function, "__code__", None)
    return code is not None and "handle_torch_function" in code.co_names


def asks_for_modes(path: str) -> bool:
    """Whether the function that *path* names passes itself to modes, after asking for them."""
    code = getattr(find(path), "__code__", None)
    return code is not None and {"has_torch_function", "handle_torch_function"} <= {*code.co_names}


def parameters(path: str) -> tuple[str, ...]:
    """The names of the parameters of the function that *path* names."""
    code = getattr(find(path), "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()


def creates_contexts() -> bool:
    """Whether a call of a custom function can be detected, by its frame or its context."""
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
    """Whether a weak reference of Python to a storage expires while C++ has one."""
    ended: list[Any] = []
    tensor = torch.empty(1, device="cpu")
    storage = tensor.untyped_storage()
    reference, weak = weakref.ref(storage, ended.append), storage._weak_ref()
    del storage, tensor
    seen = ended == [reference]
    find("torch.UntypedStorage._free_weak_ref")(weak)
    return seen


def exposes_reductions() -> bool:
    """Whether the reduction can be read from the arguments of an operator."""
    try:
        return hasattr(torch.classes.c10d.ReduceOp(), "op")
    except RuntimeError:  # a PyTorch without torch.distributed
        return False


def fakes_communication() -> bool:
    """Whether collectives and messages run on tensors without data.

    Before PyTorch 2.11, the first import of a module of its own tools registers their kernels.
    """
    operators = ("send", "recv_", "allreduce_", "scatter_", "_allgather_base_")
    registered = find("torch._C._dispatch_has_kernel_for_dispatch_key")

    def complete() -> bool:
        return all(registered(f"c10d::{name}", "Meta") for name in operators)

    try:
        return complete() or bool(find("torch.distributed._tools.fake_collectives")) and complete()
    except RuntimeError:  # a PyTorch without torch.distributed
        return False
