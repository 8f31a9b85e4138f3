"""Internals of Inductor: which kernels it makes of a graph, and of which nodes each is made.

Inductor keeps this itself where it is told to track provenance, which PyTorch calls a prototype.
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
"""What is found in a cache of graphs does not know its provenance."""


class MadeKernel(NamedTuple):
    """A kernel, or a call of a library, in the order in which they run.

    Attributes:
        name: As it is called in the generated code, ``"cpp_fused_add_relu_0"``.
        nodes: The names of the nodes of the graph that it computes.
        code: The file of generated code that calls it, below the folder of Inductor's cache.
    """

    name: str
    nodes: tuple[str, ...]
    code: str


def tracks_kernels() -> bool:
    """Whether this PyTorch tells of which nodes a kernel is made."""
    return KERNEL_PROVENANCE.present


def lowered(graph: Any, inputs: Any) -> tuple[Callable[..., Any], list[MadeKernel]]:
    """What Inductor makes of *graph*: something to call, and its kernels of the forward pass."""
    whole, inner, patched, told = map(find, KERNEL_PROVENANCE.paths)
    kernels: list[MadeKernel] = []

    def compile_inner(*args: Any, **kwargs: Any) -> Any:
        made = inner(*args, **kwargs)
        if not kwargs.get("is_backward") and not kernels:
            key = str(getattr(made, "cache_key", None) or "")
            code = f"{key[1:3]}/{key}.py" if key else ""
            kernels.extend(_kernel(name, about, code) for name, about in told().items())
        return made

    with patched(SETTINGS):
        return whole(graph, inputs, inner_compile=compile_inner), kernels


def _kernel(name: str, about: Any, code: str) -> MadeKernel:
    nodes = about.get("pre_grad_nodes", ())
    return MadeKernel(name.partition(":")[0], tuple(nodes), code)
