"""The graph behind a call of ``backward()`` or ``grad()``: the nodes that its arguments name, and
all behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge


def creates_graph(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The argument ``create_graph``; both functions are recorded with keyword arguments."""
    return kwargs.get("create_graph", args[3] if len(args) > 3 else False)


def roots(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The nodes from which the pass starts."""
    return nodes_of(args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ())))


def wanted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The nodes of ``inputs``, whose gradients were asked for; empty for all."""
    return nodes_of(kwargs.get("inputs", args[1] if len(args) > 1 else ()))


def nodes_of(found: Any) -> list[Any]:
    """The nodes of one or several tensors or edges."""
    edges = [found] if isinstance(found, (Tensor, GradientEdge)) else found
    nodes = []
    for edge in edges if isinstance(edges, (tuple, list)) else ():
        if isinstance(edge, Tensor) and edge.requires_grad:
            nodes.append(edge.grad_fn or get_gradient_edge(edge).node)
        elif isinstance(edge, GradientEdge):
            nodes.append(edge.node)
    return nodes


def behind(starts: Sequence[Any]) -> Iterator[Any]:
    """*starts* and every node behind them, once, without recursion."""
    seen: set[Any] = set()
    stack = list(reversed(starts))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(parent for parent, _ in reversed(node.next_functions) if parent is not None)
