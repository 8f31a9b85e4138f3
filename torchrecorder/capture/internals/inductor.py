"""Internals of Inductor: the kernels of a graph, and the graph nodes in each of them.

Inductor tracks this itself, by its option for provenance tracking, which is a prototype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torchrecorder.capture.internals.table import KERNEL_PROVENANCE
from torchrecorder.capture.internals.trials import find

SETTINGS = {
    "trace.provenance_tracking_level": 1,
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
}
"""Settings: track provenance, and skip caches, whose graphs have none."""


class MadeKernel(NamedTuple):
    """A kernel or a call of a library, in run order."""

    name: str  # in the generated code, "cpp_fused_add_relu_0"
    nodes: tuple[str, ...]  # the names of those in the graph that it computes
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
