"""Internals of ``torch.compile``: metadata of graphs, isolated state, and Inductor's kernels.

The compiler caches compiled code by code object, and stores the sizes that it has seen. Both are
global state: entries of the recorder's compilation are removed, and others stay.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import torch

from torchrecorder.capture.internals.table import (
    COMPILER_CACHE, COMPILER_GUARDS, KERNEL_PROVENANCE, SKIPPED_CODE,
)
from torchrecorder.capture.internals.trials import find

_UTILS = "torch._dynamo.utils"
_OF_NUMPY = tuple(f"{_UTILS}.numpy_{kind}_wrapper" for kind in ("to_tensor", "method", "operator"))


def break_reason(graph: Any) -> Any:
    """Why *graph* ends: text, stack, and whether it is a graph break; None if unknown."""
    return getattr(graph, "compile_subgraph_reason", None)


def modules_around(node: Any) -> list[int]:
    """The ids of the modules in whose calls *node* was traced, outermost first."""
    stack = node.meta.get("nn_module_stack") or {}
    found = (str(key).partition("@")[0] for key in stack)
    return [int(key) for key in found if key.isdecimal()]


def replaces_numpy(target: Any) -> bool:
    """Whether *target* of an FX node is Dynamo's replacement for a NumPy function."""
    kinds = tuple(kind for name in _OF_NUMPY if isinstance(kind := find(name), type))
    return isinstance(target, kinds) or target is find(f"{_UTILS}.numpy_attr_wrapper")


def compiled_function() -> int | None:
    """The number of the function that is being compiled; None if PyTorch does not expose it."""
    ask: Any = find("torch._guards.CompileContext.current_compile_id")
    current = ask() if ask is not None else None
    return getattr(current, "frame_id", None)


def compile_with(
    model: Callable[..., Any], backend: Any, guards: Callable[[Any], None]
) -> Callable[..., Any]:
    """*model* compiled by *backend*; *guards* is called with the guards of each compiled function.

    If PyTorch does not expose guards, *guards* is never called.
    """
    if COMPILER_GUARDS.present:
        optimize: Any = find(COMPILER_GUARDS.paths[0])
        return optimize(backend, nopython=False, guard_export_fn=guards)(model)  # type: ignore
    return torch.compile(model, backend=backend)  # type: ignore[no-any-return, call-overload]


@contextlib.contextmanager
def compiler_set_aside(backend: Any) -> Iterator[None]:
    """A context in which the compiler works as in a new process, with *backend*; its state is
    restored afterwards.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.compiler.set_stance("default"))
        logger = logging.getLogger("torch._dynamo")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)  # its warnings about graph breaks are recorded
        if COMPILER_CACHE.present:
            _own_cache(stack)
            _own_sizes(stack)
            _own_counts(stack)
            backends: Any = find("torch._dynamo.eval_frame.cached_backends")
            stack.callback(backends.pop, id(backend), None)
        yield


def _own_cache(stack: contextlib.ExitStack) -> None:
    """When *stack* is closed, remove what the compiler keeps of the code that it met until then:
    compiled code, and the mark that there is nothing to compile.
    """
    made: dict[CodeType, list[CodeType]] = {}

    def compiled(code: CodeType, new: CodeType) -> None:
        made.setdefault(code, []).append(new)

    frames: Any = find("torch._dynamo.convert_frame")
    handle = frames.register_bytecode_hook(compiled)
    before, own = frames.input_codes, frames.Tracker()
    frames.input_codes = own

    def remove() -> None:
        handle.remove()
        frames.input_codes = before
        met = [code for weak in own.seen if (code := weak()) is not None]
        for code in {*met, *made}:
            _forget(code, made.get(code, []))

    stack.callback(remove)


def _forget(code: CodeType, new: list[CodeType]) -> None:
    """Remove the cache entries of *code* whose compiled code is in *new*, and let the compiler
    compile it again, also if it had nothing to compile then.
    """
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
        manager.extra_state.invalidate(entry, dead("compiled by torchrecorder"))
    found: list[Any] = [*map(find, SKIPPED_CODE.paths)]
    if None not in found:
        mark, strategy, action = found
        mark(code, strategy(action.DEFAULT, action.DEFAULT))


def _own_sizes(stack: contextlib.ExitStack) -> None:
    """Hide the sizes seen before until *stack* is closed, and then remove those seen since."""
    profile: Any = find("torch._dynamo.pgo")
    before = profile._CODE_STATE
    stack.callback(setattr, profile, "_CODE_STATE", before)
    profile._CODE_STATE = type(before)(before.default_factory) if before is not None else None


def _own_counts(stack: contextlib.ExitStack) -> None:
    """When *stack* is closed, restore the counters and lists of the compiler."""
    counters: Any = find("torch._dynamo.utils.counters")
    reasons: Any = find("torch._dynamo.output_graph.graph_break_reasons")
    before = {name: counts.copy() for name, counts in counters.items()}
    length = len(reasons)

    def restore() -> None:
        counters.clear()
        counters.update(before)
        del reasons[length:]

    stack.callback(restore)


SETTINGS = {
    "trace.provenance_tracking_level": 1,
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
}
"""Inductor's settings: track provenance, and bypass caches, whose graphs have none."""


class MadeKernel(NamedTuple):
    """A kernel, or a call of a library, in generated code."""

    name: str  # in the generated code, "cpp_fused_add_relu_0"
    nodes: tuple[str, ...]  # the names of the FX nodes that it computes
    code: str  # the file of generated code that calls it, relative to Inductor's cache


def tracks_kernels() -> bool:
    """Whether this PyTorch reports the graph nodes of a kernel."""
    return KERNEL_PROVENANCE.present


def lowered(graph: Any, inputs: Any) -> tuple[Callable[..., Any], list[MadeKernel]]:
    """*graph* compiled by Inductor: a callable, and its kernels of the forward pass."""
    whole, inner, patched, kernel_nodes = map(find, KERNEL_PROVENANCE.paths)
    kernels: list[MadeKernel] = []

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        made = inner(*args, **kwargs)
        if not kwargs.get("is_backward") and not kernels:
            key = str(getattr(made, "cache_key", None) or "")
            code = f"{key[1:3]}/{key}.py" if key else ""
            kernels.extend(_kernel(name, about, code) for name, about in kernel_nodes().items())
        return made

    with patched(SETTINGS):
        return whole(graph, inputs, inner_compile=compile_inner), kernels


def _kernel(name: str, about: Any, code: str) -> MadeKernel:
    nodes = about.get("pre_grad_nodes", ())
    return MadeKernel(name.partition(":")[0], tuple(nodes), code)
