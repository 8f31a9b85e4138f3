"""Internals of ``torch.compile``: what its graphs know, and its state set aside for a while.

The compiler keeps what it has compiled with the code objects of the functions it met, and
learns from the sizes it has seen. Both are state of the whole process: what we compile to look
at it is taken out again, and what others have compiled stays.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from torchrecorder.capture.internals.table import COMPILER_CACHE, COMPILER_GUARDS
from torchrecorder.capture.internals.trials import find


def break_reason(graph: Any) -> Any:
    """Why the compiler ended *graph* where it did: reason, stack, and whether it is a break."""
    return getattr(graph, "compile_subgraph_reason", None)


def modules_around(node: Any) -> list[int]:
    """The ids of the modules in whose calls the compiler met *node*, outermost first."""
    stack = node.meta.get("nn_module_stack") or {}
    found = (str(key).partition("@")[0] for key in stack)
    return [int(key) for key in found if key.isdecimal()]


def compiled_function() -> int | None:
    """The number of the function that is being compiled; None where PyTorch does not tell."""
    ask: Any = find("torch._guards.CompileContext.current_compile_id")
    current = ask() if ask is not None else None
    return getattr(current, "frame_id", None)


def compile_with(
    model: Callable[..., Any], backend: Any, guards: Callable[[Any], None]
) -> Callable[..., Any]:
    """*model* compiled by *backend*; *guards* is given the guards of each function compiled.

    Where PyTorch does not hand them out, *guards* is never called.
    """
    if COMPILER_GUARDS.present:
        optimize: Any = find(COMPILER_GUARDS.paths[0])
        return optimize(backend, nopython=False, guard_export_fn=guards)(model)  # type: ignore
    return torch.compile(model, backend=backend)  # type: ignore[no-any-return, call-overload]


@contextlib.contextmanager
def compiler_set_aside(backend: Any) -> Iterator[None]:
    """Inside the block the compiler works as in a new process; then all is as it was before.

    Args:
        backend: The only backend that is used inside.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(_quiet())
        if COMPILER_CACHE.present:
            stack.enter_context(_own_cache())
            stack.enter_context(_own_sizes())
            stack.enter_context(_own_counts())
            backends: Any = find("torch._dynamo.eval_frame.cached_backends")
            stack.callback(backends.pop, id(backend), None)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Warnings about breaks are not logged: they are what is recorded."""
    logger = logging.getLogger("torch._dynamo")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """Take out of the caches what is compiled inside."""
    made: dict[CodeType, list[CodeType]] = {}

    def compiled(code: CodeType, new: CodeType) -> None:
        made.setdefault(code, []).append(new)

    register: Any = find("torch._dynamo.convert_frame.register_bytecode_hook")
    handle = register(compiled)
    try:
        yield
    finally:
        handle.remove()
        for code, new in made.items():
            _forget(code, new)


def _forget(code: CodeType, new: list[CodeType]) -> None:
    """Remove those of the entries of *code* whose code is one of *new*."""
    entries_of: Any = find("torch._dynamo.eval_frame._debug_get_cache_entry_list")
    entries = entries_of(code)
    own = [entry for entry in entries if any(entry.code is item for item in new)]
    if len(own) == len(entries):
        reset: Any = find("torch._dynamo.eval_frame.reset_code")
        reset(code)
        return
    dead: Any = find("torch._dynamo.guards.DeletedGuardManagerWrapper")
    for entry in own:
        manager = entry.guard_manager
        manager.extra_state.invalidate(entry, dead("compiled to be looked at"))


@contextlib.contextmanager
def _own_sizes() -> Iterator[None]:
    """Inside the block no sizes have been seen; after it, only those from before."""
    profile: Any = find("torch._dynamo.pgo")
    before = profile._CODE_STATE
    profile._CODE_STATE = type(before)(before.default_factory) if before is not None else None
    try:
        yield
    finally:
        profile._CODE_STATE = before


@contextlib.contextmanager
def _own_counts() -> Iterator[None]:
    """What the compiler counts and lists for its reports is afterwards what it was."""
    counters: Any = find("torch._dynamo.utils.counters")
    reasons: Any = find("torch._dynamo.output_graph.graph_break_reasons")
    before = {name: counts.copy() for name, counts in counters.items()}
    length = len(reasons)
    try:
        yield
    finally:
        counters.clear()
        counters.update(before)
        del reasons[length:]
