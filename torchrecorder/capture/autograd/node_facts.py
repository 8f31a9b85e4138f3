"""Facts about autograd nodes: names, metadata of the forward outputs, and the graph behind them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from torchrecorder.capture.internals.access import ACCUMULATION, input_metadata
from torchrecorder.capture.tensors.describe import device_name, dtype_facts


def output_facts(node: Any) -> list[tuple[tuple[int, ...], str, str, int]]:
    """Shape, dtype, device and bytes of each output of the forward of *node*."""
    facts = []
    for form in input_metadata(node):
        shape = tuple(size if type(size) is int else -1 for size in form.shape)
        dtype, size = dtype_facts(form.dtype)
        facts.append((shape, dtype, device_name(form.device), abs(prod(shape)) * size))
    return facts


def name_of(node: Any) -> str:
    """The name of *node* without its namespace: ``AddmmBackward0``."""
    return str(node.name()).rpartition("::")[2]


_WORDS = (
    r"(?<=[a-z])(?=[A-Z])|(?<=\d[A-Z])(?=[A-Z])",  # AvgPool2D, Col2Im
    r"(?<=[a-z\d])(?=[A-Z][a-z\d])",  # SmoothL1Loss
    r"(?<=[a-z])(?=[A-Z\d])|(?<=\d[A-Z])(?=[A-Z])",  # GridSampler2D
)
"""Patterns for the starts of words in names of nodes, in which PyTorch capitalizes letters after an
underscore or digit."""


@functools.cache
def op_name(node: str) -> str:
    """``"NativeLayerNormBackward0"`` -> ``"native_layer_norm"``; other names are unchanged."""
    match = re.fullmatch(r"(\w+?)Backward(?:AutogradNestedTensor)?\d+(_copy)?", node)
    if match is None:
        return node.removesuffix("Backward")
    names = [re.sub(words, "_", match[1]).lower() + (match[2] or "") for words in _WORDS]
    return next((name for name in names if hasattr(torch.ops.aten, name)), names[0])


def roots(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The nodes of the tensors at which the backward pass starts."""
    return nodes_of(args[0] if args else kwargs.get("tensors", kwargs.get("outputs", ())))


def wanted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The nodes of the argument ``inputs``; empty if there is none."""
    return nodes_of(kwargs.get("inputs", args[1] if len(args) > 1 else ()))


def nodes_of(found: Any) -> list[Any]:
    """The nodes of one or several tensors or ``GradientEdge`` objects."""
    edges = [found] if isinstance(found, (Tensor, GradientEdge)) else found
    nodes = []
    for edge in edges if isinstance(edges, (tuple, list)) else ():
        if isinstance(edge, Tensor) and edge.requires_grad:
            nodes.append(edge.grad_fn or get_gradient_edge(edge).node)
        elif isinstance(edge, GradientEdge):
            nodes.append(edge.node)
    return nodes


def is_frozen(node: Any) -> bool:
    """Whether *node* is that of a leaf that was frozen after it was read: it gets no gradient."""
    return node.name() == ACCUMULATION and not node.variable.requires_grad


def behind(starts: Sequence[Any]) -> Iterator[Any]:
    """*starts* and all nodes that ``next_functions`` reaches, each once, without recursion."""
    seen: set[Any] = set()
    stack = list(reversed(starts))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend([parent for parent, _ in reversed(node.next_functions) if parent is not None])
