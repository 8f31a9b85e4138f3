"""Flat: a recording as a plain networkx graph, with attributes that every format can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Union

from torchrecorder.checks import FLAG, takes
from torchrecorder.graph.nodes import GradNode, Op, Value
from torchrecorder.graph.recording import RecordedRun

if TYPE_CHECKING:
    import networkx as nx

Attributes = dict[str, Union[str, int, float, bool]]
"""The attributes of a node or edge: no None, no list, no mapping."""

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@takes(values=FLAG, grads=FLAG)
def flat(recording: RecordedRun, *, values: bool = True, grads: bool = False) -> nx.MultiDiGraph:
    """*recording* as a ``networkx.MultiDiGraph``, to analyze or to write.

    Nodes have the recorded ids. Their attributes depend on their ``type``:

    - ``"op"``: ``name``, ``qualname``, ``how`` (called, hidden or pass), ``scope`` (id),
      ``path`` (of the module around it), ``order`` (position in the run), ``in_place``,
      ``failed``, ``recompute``, ``random`` (it drew random numbers), ``arguments``, ``source``,
      and ``seconds`` if measured.
    - ``"value"``: ``name``, ``role``, ``shape`` (``"2,3"``), ``dtype``, ``device``,
      ``elements``, ``bytes``, ``storage`` (equal for tensors that share memory; -1 without one),
      ``requires_grad``, ``trainable``, ``output`` (it leaves the run).
    - ``"grad"``: ``name``, ``owner`` (op id), ``scope``, ``failed``.

    Edges carry ``type``. A ``"flow"`` has ``slot`` (the argument it goes in as, or the
    number of the result), ``value``, ``shape``, ``dtype``, ``bytes``, ``in_place``; a
    ``"gradient"`` goes from one grad node to the next, with ``input`` (which input of the
    forward it belongs to) and ``output`` (which output of the next one's forward).

    Args:
        recording: The recording.
        values: Add tensors as nodes. Without them, edges lead from op to op, and only tensors
            that no op computed are nodes.
        grads: Add the autograd graph; its nodes refer to ops by ``owner``.
    """
    import networkx as nx

    graph = nx.MultiDiGraph(name=printable(recording.name))
    leaving = {slot.value for slot in recording.outputs}
    for value in recording.values.values():
        if values or value.producer is None:
            graph.add_node(value.id, **_value(value, value.id in leaving))
    for op in recording.ops.values():
        graph.add_node(op.id, **_op(op, recording))
    for tail, head, attributes in _through(recording) if values else _straight(recording):
        graph.add_edge(tail, head, **attributes)
    if grads:
        _add_grads(graph, recording)
    return graph


def _add_grads(graph: nx.MultiDiGraph, recording: RecordedRun) -> None:
    for grad in recording.grad_nodes.values():
        graph.add_node(grad.id, **_grad(grad))
    for grad in recording.grad_nodes.values():
        for number, edge in enumerate(grad.next):
            if edge is not None:
                graph.add_edge(grad.id, edge.grad, type="gradient", input=number, output=edge.index)


def _through(recording: RecordedRun) -> Iterator[tuple[str, str, Attributes]]:
    """Edges from values to ops, and from ops to values."""
    for op in recording.ops.values():
        for slot in op.inputs:
            yield slot.value, op.id, _read(recording.values[slot.value], slot.name)
        for number, value in enumerate(op.outputs):
            made = flow(recording.values[value], str(number))
            yield op.id, value, {**made, "in_place": value in op.writes}


def _straight(recording: RecordedRun) -> Iterator[tuple[str, str, Attributes]]:
    """Edges from ops to the ops that read their results."""
    for op in recording.ops.values():
        for slot in op.inputs:
            value = recording.values[slot.value]
            yield value.producer or value.id, op.id, _read(value, slot.name)


def _read(value: Value, slot: str) -> Attributes:
    return {**flow(value, slot), "in_place": False}


def flow(value: Value, slot: str) -> Attributes:
    """The attributes of an edge, for the tensor that it carries."""
    return {
        "type": "flow",
        "slot": printable(slot),
        "value": value.id,
        "shape": ",".join(map(str, value.shape)),
        "dtype": printable(value.dtype),
        "bytes": value.bytes,
    }


def _value(value: Value, leaves: bool) -> Attributes:
    return {
        "type": "value",
        "name": printable(", ".join(value.names)),
        "role": value.role.value,
        "shape": ",".join(map(str, value.shape)),
        "dtype": printable(value.dtype),
        "device": printable(value.device),
        "elements": prod(value.shape),
        "bytes": value.bytes,
        "storage": value.storage,
        "requires_grad": value.requires_grad,
        "trainable": value.trainable,
        "output": leaves,
    }


def _op(op: Op, recording: RecordedRun) -> Attributes:
    scope = recording.scopes[op.scope] if op.scope is not None else None
    attributes: Attributes = {
        "type": "op",
        "name": printable(op.name),
        "qualname": printable(op.qualname),
        "how": op.kind.value,
        "scope": op.scope or "",
        "path": printable(scope.path) if scope is not None else "",
        "order": op.index,
        "in_place": bool(op.writes),
        "failed": op.failed,
        "recompute": op.recompute,
        "random": op.random,
        "arguments": printable(", ".join(f"{name}={text}" for name, text in op.arguments)),
        "source": printable(op.source.place) if op.source is not None else "",
    }
    return attributes if op.seconds is None else {**attributes, "seconds": op.seconds}


def _grad(grad: GradNode) -> Attributes:
    return {
        "type": "grad",
        "name": printable(grad.name),
        "owner": grad.owner or "",
        "scope": grad.scope or "",
        "failed": grad.failed,
    }


def printable(text: str) -> str:
    """*text* with replacements for characters that XML does not allow and that fonts lack."""
    return text if text.isprintable() else _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
