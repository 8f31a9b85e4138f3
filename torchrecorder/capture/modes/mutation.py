"""Arguments that a function writes without increasing their version.

PyTorch increases the version of a tensor when an operator writes it. The running statistics of
norms, the output tensors of collectives and the lists of fused optimizers are written without that
(torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

STATISTICS = dict.fromkeys(
    ("batch_norm", "instance_norm", "native_batch_norm", "cudnn_batch_norm"),
    ("running_mean", "running_var"),
)
"""Written only in training mode."""

RECEIVED = {
    function: (argument,)
    for argument, functions in {
        "tensor": "all_reduce broadcast reduce recv irecv scatter",
        "tensors": "all_reduce_coalesced",
        "gather_list": "gather",
        "tensor_list": "all_gather",
        "output_tensor_lists": "all_gather_coalesced",
        "output_tensor": "all_gather_into_tensor all_gather_single",
        "output": "reduce_scatter reduce_scatter_tensor reduce_scatter_single all_to_all_single",
        "output_tensor_list": "all_to_all",
    }.items()
    for function in functions.split()
}
"""Arguments that the functions of ``torch.distributed`` receive into, on any rank."""


def silent_writes(func: Callable[..., Any], name: str, schemas: Iterable[Any]) -> tuple[str, ...]:
    """Arguments that *func* writes without increasing their version."""
    if is_collective(func):
        return RECEIVED.get(name, ())
    return STATISTICS.get(name, ()) or _in_lists(schemas)


def is_collective(func: Callable[..., Any]) -> bool:
    """Whether *func* communicates with other processes."""
    return getattr(func, "__module__", "") == "torch.distributed.distributed_c10d"


def _in_lists(schemas: Iterable[Any]) -> tuple[str, ...]:
    """The arguments that an operator writes, if lists are among them.

    A single ``out=`` increases its version; fake tensors in a list do not.
    """
    written = [item for schema in schemas for item in schema.arguments if item.is_write]
    lists = any(str(item.type) == "List[Tensor]" for item in written)
    return tuple(dict.fromkeys(item.name for item in written)) if lists else ()
