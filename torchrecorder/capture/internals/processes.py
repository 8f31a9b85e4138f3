"""``torch.distributed``: its operators, groups and distributed tensors under public names.

It is not imported here: a program that has not imported it does not use it.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES
from torchrecorder.capture.internals.table import COLLECTIVES, REDUCTIONS
from torchrecorder.capture.internals.trials import find
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.events import Mesh, RankGroup

_DTENSOR, _ASYNC_TENSOR = "DTensor", "AsyncCollectiveTensor"


def in_use() -> bool:
    """Whether ``torch.distributed`` is initialized in this process."""
    found = sys.modules.get("torch.distributed")
    return found is not None and found.is_available() and found.is_initialized()


# Tensors --------------------------------------------------------------------------------


def _is(tensor: Tensor, name: str) -> bool:
    cls = type(tensor)
    return cls not in PLAIN_TENSOR_TYPES and any(
        base.__name__ == name and _is_distributed(base) for base in cls.__mro__
    )


def _is_distributed(cls: type) -> bool:
    return cls.__module__.startswith("torch.distributed")


def is_dtensor(tensor: Tensor) -> bool:
    """Whether *tensor* is a DTensor."""
    return _is(tensor, _DTENSOR)


def local_part(tensor: Any) -> Tensor:
    """The local tensor of a DTensor or of an async collective's result; otherwise *tensor* itself.

    Reading it neither communicates nor waits.
    """
    if _is(tensor, _DTENSOR):
        tensor = tensor._local_tensor
    return tensor.elem if _is(tensor, _ASYNC_TENSOR) else tensor  # type: ignore[no-any-return]


def is_pending(tensor: Any) -> bool:
    """Whether any use of *tensor* would wait for a collective."""
    if type(tensor) in PLAIN_TENSOR_TYPES:
        return False
    if _is(tensor, _DTENSOR):
        tensor = tensor._local_tensor
    return _is(tensor, _ASYNC_TENSOR) and not tensor.completed


def dtensor_layout(tensor: Any) -> tuple[tuple[str, ...], Any]:
    """The placements of a DTensor (``"Shard(0)"``), one per mesh dimension, and its mesh."""
    return tuple(map(_placement, tensor.placements)), tensor.device_mesh


def _placement(placement: Any) -> str:
    name = type(placement).__name__.lstrip("_")
    argument = getattr(placement, "dim", None)
    if argument is None:
        argument = getattr(placement, "reduce_op", "")
    return f"{name}({argument})"


# Modules --------------------------------------------------------------------------------


def gathers_weights(module: Any) -> bool:
    """Whether FSDP shards the weights of *module* and gathers them when it is called."""
    names = {base.__name__ for base in type(module).__mro__ if _is_distributed(base)}
    return not names.isdisjoint(("FSDPModule", "FullyShardedDataParallel"))


# Communication ---------------------------------------------------------------------------

SEES_COLLECTIVES = COLLECTIVES.present
"""Whether communication operators can be recorded."""

SEES_REDUCTIONS = REDUCTIONS.present
"""Whether the reduction of a collective can be read."""


def _common_names(operators_of: dict[str, str]) -> dict[str, str]:
    """The common name of each operator; *operators_of* lists the operators of a name."""
    return {
        operator: name for name, operators in operators_of.items() for operator in operators.split()
    }


_NAMES = _common_names({
    "all_reduce": "allreduce_ allreduce_coalesced_",
    "broadcast": "broadcast_",
    "all_gather": "allgather_ _allgather_base_ allgather_coalesced_ "
                  "allgather_into_tensor_coalesced_",
    "reduce_scatter": "reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor_coalesced_",
    "reduce": "reduce_",
    "gather": "gather_",
    "scatter": "scatter_",
    "all_to_all": "alltoall_ alltoall_base_",
    "barrier": "barrier monitored_barrier_",
    "send": "send",
    "recv": "recv_ recv_any_source_",
})
"""Operators of PyTorch's ``c10d`` library, with their common names."""

_FUNCTIONAL = _common_names({
    "all_reduce": "all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_",
    "broadcast": "broadcast broadcast_",
    "all_gather": "all_gather_into_tensor all_gather_into_tensor_out "
                  "all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter_tensor reduce_scatter_tensor_out "
                      "reduce_scatter_tensor_coalesced",
    "all_to_all": "all_to_all_single shard_dim_alltoall",
})
"""Functional operators, which DTensor calls; with fake tensors they do not call ``c10d``."""

_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum")
"""The names of reductions, by PyTorch's numbers."""


class RawCommunication(NamedTuple):
    """The arguments of a collective, send or receive."""

    name: str
    reduction: str
    group: Any
    peer: int  # rank in the group of the destination, source or root; -1 without one
    tag: int
    given: list[Tensor]
    received: list[Tensor]


def listen(listener: Any) -> Callable[[], None]:
    """Call *listener* for all communication of the process; the returned function ends this.

    Its methods are those of `Communications`. The result of ``begins`` is passed to ``ends``, when
    the communication may still be running, and the result of ``waits`` to ``waited``. ``broadcast``
    gets the tensors that a broadcast in C++ has written.
    """
    _listening.add(listener)
    return functools.partial(_listening.remove, listener)


def _registered() -> AbstractContextManager[Any]:
    """Register kernels that run before those of the devices, and patch ``Work.wait``.

    Every call runs them: from Python and C++, in forward and backward, with or without modes.
    Functional operators are intercepted above dispatch modes, because fake tensor mode caches
    results instead of calling an operator again.
    """
    with ExitStack() as stack:
        for space, names, key, kernel in (
            ("c10d", _NAMES, "BackendSelect", _send_kernel),
            ("_c10d_functional", ("wait_tensor",), "BackendSelect", _wait_kernel),
            ("_c10d_functional", _FUNCTIONAL, "ADInplaceOrView", _functional_kernel),
            ("_dtensor", _FUNCTIONAL, "ADInplaceOrView", _functional_kernel),
        ):
            after = find("torch._C._dispatch_keyset_full_after")(find(f"{_KEYS}.{key}"))
            library = torch.library.Library(space, "IMPL")
            stack.callback(library._destroy)
            for name in names:
                packet = getattr(getattr(torch.ops, space), name, None)
                if packet is not None:
                    library.impl(name, kernel(packet.default, after), key, with_keyset=True)
        work: Any = find(_WORK)
        stack.enter_context(replaced(work, "wait", _wrapped_wait(work.wait)))
        plain = find("torch.distributed._broadcast_coalesced")
        if plain is not None:
            stack.enter_context(
                replaced(torch.distributed, "_broadcast_coalesced", _wrapped_broadcast(plain))
            )
        return stack.pop_all()


_listening: SharedPatch[Any] = SharedPatch(_registered)

_KEYS = "torch._C.DispatchKey"
_WORK = "torch._C._distributed_c10d.Work"


def _wrapped_broadcast(plain: Any) -> Callable[..., Any]:
    """A patch of the function with which ``DistributedDataParallel`` broadcasts buffers in C++."""

    @functools.wraps(plain)
    def broadcast(group: Any, tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        result = plain(group, tensors, *args, **kwargs)
        for listener in _listening.users:
            listener.broadcast(tensors)
        return result

    return broadcast


def _send_kernel(operator: Any, after: Any) -> Callable[..., Any]:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        _in_thread.calls = _calls_in_thread() + 1
        calls = [(listener, listener.begins(operator, args)) for listener in _listening.users]
        result = operator.redispatch(keys & after, *args, **kwargs)
        for item, begun in calls:
            if begun is not None:
                item.ends(begun, result)
        return result

    return kernel


_in_thread = threading.local()


def _calls_in_thread() -> int:
    """The number of ``c10d`` calls of this thread."""
    return getattr(_in_thread, "calls", 0)


def _functional_kernel(operator: Any, after: Any) -> Callable[..., Any]:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        before = _calls_in_thread()
        result = operator.redispatch(keys & after, *args, **kwargs)
        if _calls_in_thread() == before:
            for listener in _listening.users:
                listener.begins(operator, args, result)
        return result

    return kernel


def _wait_kernel(operator: Any, after: Any) -> Callable[..., Any]:
    def kernel(keys: Any, tensor: Any) -> Any:
        waits = [(listener, listener.waits(tensor)) for listener in _listening.users]
        result = operator.redispatch(keys & after, tensor)
        _end_waits(waits)
        return result

    return kernel


def _wrapped_wait(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        waits = [(listener, listener.waits(work)) for listener in _listening.users]
        result = plain(work, *args, **kwargs)
        _end_waits(waits)
        return result

    return wait


def _end_waits(waits: list[tuple[Any, Any]]) -> None:
    for item, begun in waits:
        if begun is not None:
            item.waited(begun)


def work_in(result: Any) -> Any:
    """The ``Work`` among the results of an operator, or None."""
    last = result[-1] if isinstance(result, tuple) else result
    return find(_WORK).unbox(last) if isinstance(last, find("torch._C.ScriptObject")) else None


def communication_of(operator: Any, args: tuple[Any, ...], made: Any = None) -> RawCommunication:
    """The communication of a call of *operator* with *args*; *made* is the result, if known."""
    schema = operator._schema
    space, _, called = schema.name.partition("::")
    named = dict(zip((argument.name for argument in schema.arguments), args))
    if space != "c10d":
        return _functional_communication(_FUNCTIONAL[called], named, made)
    name = _NAMES[called]
    peer = next((named[item] for item in ("dst", "src", "root_rank") if item in named), -1)
    given, received = [], []
    for argument, found in named.items():
        if name != "barrier" and isinstance(found, (Tensor, list)):
            tensors = _flat(found)
            if not argument.startswith("output") and name != "recv":
                given += tensors
            if not argument.startswith("input") and name != "send":
                received += tensors
    group = find("torch._C._distributed_c10d.ProcessGroup").unbox(named["process_group"])
    reduction = _reduction(named["reduce_op"]) if "reduce_op" in named else ""
    return RawCommunication(name, reduction, group, peer, named.get("tag", -1), given, received)


def _functional_communication(name: str, named: dict[str, Any], made: Any) -> RawCommunication:
    group = named["group_name"]
    if isinstance(group, str):
        group = find("torch.distributed.distributed_c10d._resolve_process_group")(group)
    given = _flat(named.get("input", named.get("inputs")))
    reduction = str(named.get("reduce_op", ""))
    peer = named.get("src", -1)
    return RawCommunication(name, reduction, group, peer, -1, given, _flat(made))


def _reduction(reduce_op: Any) -> str:
    if not SEES_REDUCTIONS:
        return ""
    number = int(reduce_op.op())
    return _REDUCTIONS[number] if number < len(_REDUCTIONS) else "?"


def _flat(value: Any) -> list[Tensor]:
    return [tensor for _, tensor in tensors_in(value)]


def group_facts(group: Any = None) -> RankGroup:
    """The name, members, description and backend of *group*, by default that of all processes."""
    distributed = sys.modules["torch.distributed"]
    group = group or distributed.group.WORLD
    ranks: Sequence[int] = distributed.get_process_group_ranks(group)
    purpose = str(group.group_desc)
    return RankGroup(
        str(group.group_name),
        tuple(ranks),
        "" if purpose == "undefined" else purpose,
        str(distributed.get_backend(group)),
    )


def rank_and_world() -> tuple[int, int]:
    """The rank of this process and the world size."""
    distributed = sys.modules["torch.distributed"]
    return distributed.get_rank(), distributed.get_world_size()


def mesh_facts(mesh: Any) -> Mesh:
    """The dimensions of a mesh, and the coordinate of this process."""
    names = mesh.mesh_dim_names or [f"dim{number}" for number in range(mesh.ndim)]
    place = mesh.get_coordinate()
    return Mesh(tuple(names), tuple(mesh.shape), tuple(place) if place is not None else ())


def has_failed(future: Any) -> bool:
    """Whether the work of *future*, which is done, ended with an error."""
    try:
        future.value()
    except RuntimeError:
        return True
    return False


def when_done(work: Any, callback: Callable[[Any], None]) -> Any:
    """Call *callback* with the future of *work*, in any thread, when it is done.

    Returns:
        The future of the work, which keeps its tensors alive; None for a backend without futures,
        which does not call *callback*.
    """
    try:
        future = work.get_future()
        future.add_done_callback(callback)
    except (RuntimeError, NotImplementedError):
        return None
    return future
