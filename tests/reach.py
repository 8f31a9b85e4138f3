"""Reach: does the recorded graph lead from leaf to output exactly where gradients flow?

The truth comes from autograd itself, in a plain run: ``torch.autograd.grad`` says which leaf
has a gradient, and a walk of our own counts the nodes behind the outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

from tests.witness import tensors_of
from torchrecorder.events import ValueId
from torchrecorder.graph.nodes import GradFlow, GradNode
from torchrecorder.recording import Recording


def disagreements(recording: Recording, run: Any) -> list[str]:
    """Where the recording and a plain run of the equal model *run* differ."""
    leaves = _leaves(recording, run)
    output = run.model(*run.args, **(run.kwargs or {}))
    results = [each for each in tensors_of(output)]
    slots = recording.outputs
    if len(results) != len(slots):
        return [f"{len(slots)} outputs are recorded, {len(results)} came"]
    pairs = [
        (slot.value, result)
        for slot, result in zip(slots, results)
        if result.grad_fn is not None
    ]
    return [*_nodes(recording, pairs), *_paths(recording, pairs, leaves)]


def _leaves(recording: Recording, run: Any) -> list[tuple[ValueId, str, Tensor]]:
    """Every leaf that could get a gradient, with the value it is recorded as."""
    by_name: dict[str, ValueId] = {}
    for value in recording.values.values():
        for name in value.names if value.producer is None else ():
            by_name.setdefault(name, value.id)  # modules of no path come later
    leaves = []
    if isinstance(run.model, nn.Module):
        for name, parameter in run.model.named_parameters():
            if parameter.requires_grad and name in by_name:
                leaves.append((by_name[name], name, parameter))
    (root,) = recording.roots[:1]
    given = list(tensors_of((run.args, run.kwargs or {})))
    for slot, tensor in zip(recording.scopes[root].inputs, given):
        if tensor.requires_grad and tensor.is_leaf:
            leaves.append((slot.value, slot.name, tensor))
    return leaves


def _paths(
    recording: Recording,
    pairs: list[tuple[ValueId, Tensor]],
    leaves: list[tuple[ValueId, str, Tensor]],
) -> list[str]:
    outputs = [value for value, _ in pairs]
    flow, reached = _flow(recording), _reached(recording, outputs)
    written = [recording.values[each] for each in reached if each in recording.values]
    held = {each.storage for each in written if each.producer is not None}  # leaves, written since
    behind = set(outputs).union(*(nx.ancestors(flow, output) for output in outputs))
    nodes = plain_nodes(result for _, result in pairs)
    led_to = {id(getattr(node, "variable", None)) for node in nodes}  # some give no gradient
    if pairs:
        results = [result for _, result in pairs]
        torch.autograd.backward(results, [torch.ones_like(each) for each in results])
    wrong = []
    for value, name, leaf in leaves:
        has = leaf.grad is not None
        leads = value in reached or name in reached or recording.values[value].storage in held
        if has != leads and not (leads and id(leaf) in led_to):
            wrong.append(f"{name} has {'a' if has else 'no'} gradient; recorded otherwise")
        if has and value not in behind:
            wrong.append(f"{name} has a gradient, but no path leads from it to {outputs}")
    return wrong


def _flow(recording: Recording) -> nx.MultiDiGraph:
    edges = recording.graph.edges(data="edge")
    flow = nx.DiGraph((u, v) for u, v, edge in edges if not isinstance(edge, GradFlow))
    flow.add_nodes_from(recording.values)
    return flow


def _reached(recording: Recording, outputs: list[ValueId]) -> set[str]:
    """The leaves that the recorded grad nodes lead to, by value and by name; a parameter that the
    run made has the name of the one that it replaces."""
    variables = [each.variable for each in _behind(recording, outputs)]
    values = [recording.values[each] for each in variables if each is not None]
    given = (each.names for each in values if each.producer is None)
    return {each.id for each in values}.union(*given)


def _behind(recording: Recording, outputs: list[ValueId]) -> list[GradNode]:
    stack = [recording.values[each].grad for each in outputs]
    seen: dict[str, GradNode] = {}
    while stack:
        edge = stack.pop()
        if edge is None or edge.grad in seen:
            continue
        node = seen[edge.grad] = recording.grad_nodes[edge.grad]
        stack.extend(node.next)
    return list(seen.values())


def _nodes(recording: Recording, pairs: list[tuple[ValueId, Tensor]]) -> list[str]:
    """Names of the grad nodes behind the outputs, counted."""
    recorded = Counter(each.name for each in _behind(recording, [value for value, _ in pairs]))
    nodes = plain_nodes(result for _, result in pairs)
    plain = Counter(node.name().rpartition("::")[2] for node in nodes)
    if plain == recorded:
        return []
    return [f"grad nodes: plain {dict(plain - recorded)}, recorded {dict(recorded - plain)} more"]


def plain_nodes(results: Iterable[Tensor]) -> list[Any]:
    """The nodes behind tensors, as autograd has them."""
    stack: list[Any] = [result.grad_fn for result in results]
    seen: dict[int, Any] = {}
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in seen:
            seen[id(node)] = node
            stack.extend(parent for parent, _ in node.next_functions)
    return list(seen.values())
