"""Results of compiling a model: graphs, graph breaks, kernels."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from torchrecorder.events.vocabulary import OpId, ScopeId, SourceLine

COMPILED_GRAPH = "compiled graph"
"""The number of the graph of an op; 0 if it ran in Python between two graphs."""


UNMATCHED: Mapping[str, str] = MappingProxyType(
    {
        "NumPy": "NumPy computes it in the eager run",
        "no line": "no user code is on its stack",
        "more often": "the eager run has fewer ops with this name on this line",
        "elsewhere": "the op with this name on this line ran in another order or module",
        "number": "the result is a number, such as a size, and no op computes it",
        "other function": "the eager run has ops on this line, but none with this name",
        "only compiled": "the eager run has no op on this line",
    }
)
"""The kinds of calls in graphs without a recorded op, and why there is none."""


class UnmatchedCall(NamedTuple):
    """A call in a compiled graph that matches no recorded op.

    Attributes:
        name: The name of the function.
        kind: Why it has no op: a key of `UNMATCHED`.
        source: The innermost of the user's lines; None if there is none.
    """

    name: str
    kind: str
    source: SourceLine | None


class CompiledGraph(NamedTuple):
    """A graph into which ``torch.compile`` compiled a part of the model.

    Attributes:
        number: Its number, counted from 1, in the order of compilation.
        source: The line of its first call, in the function that was compiled.
        calls: The number of calls of functions and methods in it.
        unmatched: The calls that match no recorded op, with the reasons.
        guards: The number of guards; None if PyTorch does not report them.
        runs: The number of its runs.
        recompiled: Whether it replaces an earlier graph of the function whose guards failed.
    """

    number: int
    source: SourceLine | None
    calls: int
    unmatched: tuple[UnmatchedCall, ...]
    guards: int | None
    runs: int
    recompiled: bool


class GraphBreak(NamedTuple):
    """A place where ``torch.compile`` ends a graph and continues in Python.

    Attributes:
        graph: The number of the graph that ends here.
        reason: PyTorch's reason, in short.
        explanation: PyTorch's explanation.
        hints: PyTorch's hints on how to avoid it.
        link: The page in PyTorch's documentation.
        source: The user's line.
        op: The op at the break; None if it is not at an op, such as a call of ``print``.
        scope: The scope of the break.
    """

    graph: int
    reason: str
    explanation: str
    hints: tuple[str, ...]
    link: str
    source: SourceLine | None
    op: OpId | None
    scope: ScopeId | None


FUSED_KERNEL = "fused kernel"
"""The number of the first of the compiled kernels that compute an op."""


class FusedKernel(NamedTuple):
    """A kernel that Inductor generated for one or more ops, or a call of a library for one.

    Attributes:
        number: Its number, counted from 1, in the order of compilation.
        graph: The number of its graph.
        name: Its name in the generated code.
        ops: The ops that it computes; an op can be in several kernels.
        code: The file of the generated code, relative to the folder of Inductor's cache.
    """

    number: int
    graph: int
    name: str
    ops: tuple[OpId, ...]
    code: str
