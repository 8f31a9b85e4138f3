"""Traced: the graphs of a compiled model, as plain data.

The backend of the compiler stores a description of each graph and returns its ``forward``, so that
the same operations run as in eager mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from torchrecorder.capture.internals.access import pytree
from torchrecorder.capture.internals.compiler import (
    MadeKernel, break_reason, compiled_function, lowered, modules_around, replaces_numpy,
)
from torchrecorder.capture.tensors.describe import shape_of
from torchrecorder.events import SourceLine

_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")
_NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool, torch.Size)
_OPERATOR = re.compile(r"^__[ir]?(\w+?)__$|^_*(\w+?)_*$")

_WRAPPED = "wrapped_"
"""Dynamo's prefix for the name of a NumPy function."""


class TracedOp(NamedTuple):
    """A call in a graph."""

    name: str  # the name of the function, as in `FunctionFacts`
    lines: tuple[SourceLine, ...]  # the lines of the user's code on its call stack, innermost first
    modules: tuple[int, ...]  # the ``id()`` of each known module around it, outermost first
    shapes: tuple[tuple[int, ...], ...]  # the shapes of its results
    node: str  # the name of its FX node
    numpy: bool  # whether it replaces a call of NumPy
    number: bool  # whether its result is a number or a shape


class Stop(NamedTuple):
    """The end of a graph: PyTorch's reason, the lines, and whether it is a graph break."""

    reason: str
    lines: tuple[SourceLine, ...]  # innermost first
    is_break: bool


@dataclass
class TracedGraph:
    """One graph: its calls, why it ends, the number of its guards, and the kernels of Inductor."""

    ops: tuple[TracedOp, ...]
    stop: Stop | None
    recompiled: bool  # it replaces an earlier graph of the function whose guards failed
    guards: int | None = None
    kernels: Sequence[MadeKernel] = ()


@dataclass
class Traced:
    """A backend for ``torch.compile`` that stores graphs as plain data."""

    # returns the name of a file in recordings; None for files that are not the user's
    file: Callable[[str], str | None]
    fused: bool  # compile each graph with Inductor
    graphs: list[TracedGraph] = field(default_factory=list)  # in the order of compilation
    runs: list[int] = field(default_factory=list)  # the index of each graph that ran, in run order
    functions: set[int] = field(default_factory=set)

    def __call__(self, graph: GraphModule, inputs: Any) -> Callable[..., Any]:
        """Store a description of *graph*; returns the function that runs it."""
        number = len(self.graphs)
        function = compiled_function()
        again = function in self.functions
        if function is not None:
            self.functions.add(function)
        traced = TracedGraph(tuple(self._calls(graph)), self._stop(graph), again)
        self.graphs.append(traced)
        forward, ran = graph.forward, self.runs.append
        if self.fused:
            forward, traced.kernels = lowered(graph, inputs)

        def run(*args: Any) -> Any:
            ran(number)
            return forward(*args)

        return run

    def guarded(self, guards: Any) -> None:
        """Store the number of *guards* of the last compiled graph."""
        if self.graphs and self.graphs[-1].guards is None:
            self.graphs[-1].guards = len(guards)

    def _calls(self, graph: GraphModule) -> Iterator[TracedOp]:
        """The calls in *graph* and its subgraphs, in run order."""
        for node in graph.graph.nodes:
            inner = [_attribute(graph, item) for item in node.all_input_nodes]
            bodies = [item for item in inner if isinstance(item, GraphModule) and _only_calls(node)]
            if node.op.startswith("call_") and not bodies and not _is_plumbing(node):
                yield self._call(graph, node)
            for body in bodies:
                yield from self._calls(body)

    def _call(self, owner: GraphModule, node: Node) -> TracedOp:
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        result = node.meta.get("example_value")
        return TracedOp(
            name=_name(owner, node),
            lines=self._lines((file, int(line), name) for file, line, name in frames),
            modules=tuple(modules_around(node)),
            shapes=tuple(map(shape_of, _tensors(result))),
            node=node.name,
            numpy=replaces_numpy(node.target),
            number=isinstance(result, _NUMBERS),
        )

    def _stop(self, graph: GraphModule) -> Stop | None:
        reason = break_reason(graph)
        if reason is None:
            return None
        frames = [(item.filename, item.lineno or 0, item.name) for item in reason.user_stack]
        return Stop(str(reason.reason), self._lines(frames), bool(reason.graph_break))

    def _lines(self, frames: Iterable[tuple[str, int, str]]) -> tuple[SourceLine, ...]:
        """The user's lines among *frames*, which are outermost first."""
        named = ((self.file(file), line, name) for file, line, name in frames)
        found = [SourceLine(file, line, _function(name)) for file, line, name in named if file]
        return tuple(reversed(found))


def _only_calls(node: Node) -> bool:
    """Whether a higher-order node only runs its subgraph, once: checkpoint, custom function ..."""
    name = getattr(node.target, "__name__", "")
    return any(part in name for part in ("checkpoint", "wrap", "autograd_function", "subgraph"))


def _attribute(owner: GraphModule, node: Node) -> Any:
    """The attribute that a ``get_attr`` node reads; None for other nodes."""
    found: Any = owner if node.op == "get_attr" else None
    for part in str(node.target).split(".") if found is not None else ():
        found = getattr(found, part, None)
    return found


def _is_plumbing(node: Node) -> bool:
    """Whether *node* is no tensor operation: it takes an item of a tuple, or computes sizes."""
    value = node.meta.get("example_value")
    if getattr(node.target, "__name__", "") == "getitem":
        given = node.args[0]
        if isinstance(given, Node) and not isinstance(given.meta.get("example_value"), Tensor):
            return True
    return not _tensors(value) and not _reads(node)


def _reads(node: Node) -> bool:
    """Whether *node* has a tensor argument."""
    given = (item.meta.get("example_value") for item in node.all_input_nodes)
    return any(isinstance(item, Tensor) for item in given)


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _name(owner: GraphModule, node: Node) -> str:
    if node.op == "call_module":
        return type(owner.get_submodule(str(node.target))).__name__
    if node.op == "call_method":
        return canonical(str(node.target))
    if node.target is getattr:
        return canonical(str(node.args[1]))
    target: Any = node.target
    return canonical(str(getattr(target, "__name__", target)).removeprefix(_WRAPPED))


def canonical(name: str) -> str:
    """*name* in a form that is equal for an operator, method and function with one meaning."""
    plain = name.partition(".")[0]
    found = _OPERATOR.match(plain)
    plain = next(filter(None, found.groups())) if found else plain
    return _SAME.get(plain, plain)


_SAME: Mapping[str, str] = {
    "truediv": "div", "true_divide": "div", "itruediv": "div", "divide": "div",
    "multiply": "mul", "imul": "mul", "iadd": "add", "isub": "sub", "subtract": "sub",
    "ifloordiv": "floor_divide", "floordiv": "floor_divide", "rsub": "sub",
    "concat": "cat", "concatenate": "cat", "negative": "neg", "invert": "bitwise_not",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "mod": "remainder",
    "iand": "bitwise_and", "ior": "bitwise_or", "matrixmultiply": "matmul", "rmatmul": "matmul",
    "new": "new_empty",
}


def _function(name: str) -> str:
    """*name*; for the resume function after a graph break, the name of the original function."""
    found = _RESUMED.match(name)
    return found.group(1) if found else name
