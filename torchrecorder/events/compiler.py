"""What the compiler makes of a model: graphs, the places where they break, kernels."""

from __future__ import annotations

from typing import NamedTuple

from torchrecorder.events.vocabulary import OpId, ScopeId, SourceLine

COMPILED_GRAPH = "compiled graph"
"""The number of the graph that an op is in; 0 where it ran in Python between two graphs."""


class CompiledGraph(NamedTuple):
    """One graph that ``torch.compile`` made of the model.

    Attributes:
        number: Which one, counted from 1, in the order in which they were compiled.
        source: The line of its first call, in the function that was compiled.
        calls: How many calls of functions and methods it has.
        unmatched: The names of those that are no recorded op.
        guards: How many conditions are checked before it is used; None where PyTorch does not
            tell.
        runs: How often it ran.
        recompiled: The same function had been compiled before, and its guards did not hold.
    """

    number: int
    source: SourceLine | None
    calls: int
    unmatched: tuple[str, ...]
    guards: int | None
    runs: int
    recompiled: bool


class GraphBreak(NamedTuple):
    """A place where ``torch.compile`` ends a graph and goes on in Python.

    Attributes:
        graph: The number of the graph that ends here.
        reason: What PyTorch says, in short.
        explanation: What it says in full.
        hints: What it says can be done.
        link: Where it says more.
        source: The user's line.
        op: The op at which it is; None where it is at no op, as a call of ``print``.
        scope: The scope it is in.
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
    """A kernel that Inductor made of one or more ops, or a call of a library for one.

    Attributes:
        number: Which one, counted from 1, in the order in which they were compiled.
        graph: The number of the graph that it is in.
        name: What it is called in the generated code.
        ops: What it computes; an op can be in several.
        code: The file of the generated code, below the folder of Inductor's cache.
    """

    number: int
    graph: int
    name: str
    ops: tuple[OpId, ...]
    code: str
