"""RecordedRun: what a run left behind, as plain frozen data, and how its parts hang together.

`torchrecorder.Recording`, which people hold, is this with what computes and draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, Union

from torchrecorder.checks import Check, check_one, shown
from torchrecorder.errors import InvalidArgument, NotKept, NotThere
from torchrecorder.events import (
    STORED,
    Allocation,
    Communication,
    CompiledGraph,
    FunctionCall,
    FunctionId,
    FusedKernel,
    GradId,
    GraphBreak,
    ModuleId,
    NodeId,
    OpId,
    Rank,
    Role,
    ScopeId,
    Shard,
    Slot,
    Statistics,
    ValueId,
)
from torchrecorder.graph.edges import Flow, GradFlow
from torchrecorder.graph.retained_tensors import Kept, Replay, Tensors
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun, Module, Op, Scope, Value
from torchrecorder.graph.structural_hash import structures

if TYPE_CHECKING:
    import networkx as nx

Node = Union[Op, Value, GradNode]
GIVEN = Check(
    "a tuple of gradients, one for each that Recording.given() tells",
    lambda value: isinstance(value, tuple),
).or_none()
SCOPE = Check("one of Recording.scopes", lambda value: isinstance(value, Scope))


class LiveObjects(Protocol):
    """Weak access to what was recorded, while it still exists."""

    def fn(self, recording: RecordedRun, node: str) -> Any:
        """The module, function or a meta tensor behind *node*; None if it is gone."""


@dataclass(frozen=True)
class Failure:
    """Where the user's code raised."""

    error: str
    message: str
    scope: ScopeId | None
    op: OpId | None
    backward: bool
    grad: GradId | None = None


@dataclass(frozen=True)
class RunFacts:
    """What holds for the whole run."""

    torch_version: str
    grad_mode: str
    notes: tuple[str, ...] = ()
    failure: Failure | None = None
    lost: int = 0
    seconds: float | None = None
    overhead: float | None = None
    rank: Rank | None = None


@dataclass(frozen=True, repr=False)
class RecordedRun:
    """One run of a model: scopes, ops, values, grad nodes, as plain frozen data.

    It holds no tensor, no module and no ``grad_fn``. Ids count up in run order, so two
    runs of the same model give equal recordings (times aside).

    Attributes:
        name: Name of the model or of the run.
        scopes: Calls of modules and functions, and regions, in run order.
        modules: Module objects, those never called included.
        ops: Calls of torch functions, in run order.
        values: Tensors as they flowed, in the order they were met.
        grad_nodes: The autograd graph behind the run.
        inputs: What went in from outside: slots of the outermost calls.
        outputs: What the outermost calls returned.
        run: Facts about the whole run.
        backward_runs: Calls of ``backward()`` and ``grad()``, in run order.
        grad_runs: Grad nodes as they ran, in run order.
        measured: What only the run could tell: quantity to node or scope to amount.
        statistics: What the numbers in tensors and gradients were like, on request.
        shards: The parts that this process had of tensors that lay over several.
        communications: What it sent to other processes and received, in run order.
        allocations: Memory of tensors, in the order in which it was allocated, on request.
        kept: Live tensors that were to be kept; not part of what is saved or compared.
        compiled_graphs: The graphs that ``torch.compile`` makes of the model, on request.
        graph_breaks: Where and why it ends one of them, and goes on in Python.
        fused_kernels: The kernels that Inductor makes of these graphs, on request.
        function_calls: Calls of Python functions between modules and operations, in the order in
            which they were met.
    """

    name: str
    scopes: Mapping[ScopeId, Scope]
    modules: Mapping[ModuleId, Module]
    ops: Mapping[OpId, Op]
    values: Mapping[ValueId, Value]
    grad_nodes: Mapping[GradId, GradNode]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    run: RunFacts
    live: LiveObjects | None = field(default=None, compare=False, repr=False)
    backward_runs: tuple[BackwardRun, ...] = ()
    grad_runs: tuple[GradRun, ...] = ()
    measured: Mapping[str, Mapping[str, float]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    statistics: tuple[Statistics, ...] = ()
    shards: tuple[Shard, ...] = ()
    communications: tuple[Communication, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    kept: Kept = field(default_factory=Kept, compare=False, repr=False)
    compiled_graphs: tuple[CompiledGraph, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    fused_kernels: tuple[FusedKernel, ...] = ()
    function_calls: Mapping[FunctionId, FunctionCall] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def __repr__(self) -> str:
        counts = (len(self.scopes), "scope"), (len(self.ops), "op"), (len(self.values), "value")
        texts = (f"{number} {what}{'s' * (number != 1)}" for number, what in counts)
        return f"<Recording of {self.name}: {', '.join(texts)}>"

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds: the data, and the tensors that were kept.

        The modules behind it and the autograd graph for `replay` stay with the original.
        """
        state = {item.name: _plain(getattr(self, item.name)) for item in fields(self)}
        return {**state, "live": None, "kept": replace(self.kept, replay=None)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, content in state.items():
            object.__setattr__(self, name, _frozen(content))

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The run as a frozen ``networkx.MultiDiGraph``.

        ``graph.nodes[i]["node"]`` is an `Op`, `Value` or `GradNode`;
        ``graph.edges[u, v, k]["edge"]`` is a `Flow` (value to op, op to value) or a
        `GradFlow` (grad node to the next one, in the direction of the gradients).
        """
        import networkx as nx

        graph = nx.MultiDiGraph(name=self.name)
        graph.add_nodes_from((value.id, {"node": value}) for value in self.values.values())
        graph.add_nodes_from((op.id, {"node": op}) for op in self.ops.values())
        graph.add_nodes_from((grad.id, {"node": grad}) for grad in self.grad_nodes.values())
        graph.add_edges_from(self._edges())
        return nx.freeze(graph)

    def _edges(self) -> Iterator[tuple[str, str, dict[str, Flow | GradFlow]]]:
        for op in self.ops.values():
            for slot in op.inputs:
                yield slot.value, op.id, {"edge": Flow(slot.name)}
            for number, value in enumerate(op.outputs):
                yield op.id, value, {"edge": Flow(str(number), value in op.writes)}
        for grad in self.grad_nodes.values():
            for source, edge in enumerate(grad.next):
                if edge is not None:
                    yield grad.id, edge.grad, {"edge": GradFlow(source, edge.index)}

    def __getattr__(self, name: str) -> NoReturn:
        """Say where to find what recordings of torchrecorder 1.x had."""
        advice = ""
        if name in ("nodes", "edges"):
            advice = f": use recording.graph.{name}, or its scopes, ops and values"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    @cached_property
    def roots(self) -> tuple[ScopeId, ...]:
        """The outermost scopes, in run order."""
        return tuple(scope.id for scope in self.scopes.values() if scope.parent is None)

    @cached_property
    def children(self) -> Mapping[ScopeId | None, tuple[Scope | Op, ...]]:
        """Scopes and ops directly inside each scope, in run order; None for the top."""
        inside: dict[ScopeId | None, list[Scope | Op]] = {key: [] for key in (None, *self.scopes)}
        for scope in self.scopes.values():
            inside.setdefault(scope.parent, []).append(scope)
        for op in self.ops.values():
            inside.setdefault(op.scope, []).append(op)
        return MappingProxyType(
            {item: tuple(sorted(found, key=attrgetter("index"))) for item, found in inside.items()}
        )

    @cached_property
    def structures(self) -> Mapping[ScopeId, str]:
        """A digest for each scope: equal digests, equal structure inside, but for what is off."""
        return MappingProxyType(structures(self, idle=False))

    @cached_property
    def failed(self) -> frozenset[str]:
        """The scopes, ops and grad nodes in which the run failed."""
        found: set[str] = {scope.id for scope in self.scopes.values() if scope.failed}
        found.update(op.id for op in self.ops.values() if op.failed)
        found.update(grad.id for grad in self.grad_nodes.values() if grad.failed)
        return frozenset(found)

    @cached_property
    def consumers(self) -> Mapping[ValueId, tuple[OpId, ...]]:
        """The ops that read each value, once per argument, in run order."""
        readers: dict[ValueId, list[OpId]] = {}
        for op in self.ops.values():
            for slot in op.inputs:
                readers.setdefault(slot.value, []).append(op.id)
        return MappingProxyType({value: tuple(ops) for value, ops in readers.items()})

    @cached_property
    def stored(self) -> Mapping[ValueId, Role]:
        """Parameters and buffers, and their values after in-place writes, with their roles."""
        values = self.values.values()
        roles = {name: one.role for one in values if one.role in STORED for name in one.names}
        return MappingProxyType({
            one.id: roles[one.names[0]]
            for one in values
            if one.names and one.names[0] in roles and one.role is not Role.INPUT
        })

    @cached_property
    def bookkeeping(self) -> frozenset[OpId]:
        """The ops that read and write nothing but buffers, such as a count of batches."""
        stored = self.stored
        return frozenset(
            op.id
            for op in self.ops.values()
            if op.writes and not op.failed
            and all(stored.get(value) is Role.BUFFER for value in op.outputs)
            and all(stored.get(slot.value) is Role.BUFFER for slot in op.inputs)
        )

    @cached_property
    def owned(self) -> Mapping[OpId, tuple[GradNode, ...]]:
        """The grad nodes each op made, in the order autograd made them."""
        owned: dict[OpId, list[GradNode]] = {}
        for grad in self.grad_nodes.values():
            if grad.owner is not None:
                owned.setdefault(grad.owner, []).append(grad)
        return MappingProxyType({op: tuple(grads) for op, grads in owned.items()})

    @property
    def activations(self) -> Tensors:
        """What scopes gave, for those named in ``keep=``, by dotted path; of operations by name.

        Example:
            >>> import torch, torchrecorder
            >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
            >>> recording = torchrecorder.record(model, torch.ones(2, 4), keep=["0"])
            >>> recording.activations["0"].shape
            torch.Size([2, 3])
        """
        return self.kept.activations

    @property
    def gradients(self) -> Tensors:
        """The gradients of what scopes gave, for those named in ``keep=``."""
        return self.kept.gradients

    def given(self, grad: GradId | str) -> tuple[Any, ...]:
        """The gradients that a grad node received in the last backward pass: tensors or None.

        Raises:
            NotKept: The run was not recorded with ``replay=True``, or the node did not run.
            NotThere: No grad node has this id.
        """
        return self._replayed(grad).given(GradId(grad))

    def replay(
        self, grad: GradId | str, given: tuple[Any, ...] | None = None
    ) -> tuple[Any, ...]:
        """Run one grad node again, on the gradients it received, to debug it alone.

        Args:
            grad: Its id: ``recording.find("AddmmBackward0")`` lists them, and
                ``recording.owned["o3"]`` those of an operation.
            given: Other gradients to run it on.

        Raises:
            NotKept: The run was not recorded with ``replay=True``, the node did not run,
                or what it had saved was freed.
            NotThere: No grad node has this id.
        """
        replay = self._replayed(grad)
        check_one("given", given, GIVEN)
        return replay.run(GradId(grad), given)

    def _replayed(self, grad: GradId | str) -> Replay:
        if not isinstance(grad, str) or grad not in self.grad_nodes:
            raise NotThere(f"no grad node has the id {shown(grad)}: Recording.grad_nodes has all")
        if self.kept.replay is None:
            raise NotKept(
                "this run kept no autograd graph to run nodes again: record(model, x, "
                "backward=True, replay=True) keeps one, and so does Recorder(model, replay=True) "
                "around a training step with loss.backward(retain_graph=True). Recordings that "
                "were loaded or copied have none"
            )
        return self.kept.replay

    # Questions ----------------------------------------------------------------------

    def within(self, scope: ScopeId | None) -> tuple[ScopeId, ...]:
        """*scope* and the scopes around it, innermost first."""
        chain = []
        try:
            while scope is not None:
                chain.append(scope)
                scope = self.scopes[scope].parent
        except (KeyError, TypeError):
            raise NotThere(f"no scope has the id {shown(scope)}") from None
        return tuple(chain)

    def module_of(self, scope: Scope) -> Module | None:
        """The module that *scope* is a call of."""
        check_one("scope", scope, SCOPE)
        return self.modules[scope.module] if scope.module is not None else None

    def node(self, node: NodeId | str) -> Node:
        """The op, value or grad node with this id.

        Raises:
            NotThere: There is none.
        """
        for kind in (self.ops, self.values, self.grad_nodes):
            if isinstance(node, str) and node in kind:
                return kind[node]  # type: ignore[index, no-any-return]
        raise NotThere(f"no op, value or grad node has the id {shown(node)}")


def _plain(content: Any) -> Any:
    """Mappings as dicts, also those in mappings: a read-only view cannot be pickled."""
    if isinstance(content, MappingProxyType):
        return {key: _plain(inner) for key, inner in content.items()}
    return content


def _frozen(content: Any) -> Any:
    """The opposite of `_plain`."""
    if isinstance(content, dict):
        return MappingProxyType({key: _frozen(inner) for key, inner in content.items()})
    return content


Made = TypeVar("Made", bound=RecordedRun)
"""The class of recording that is to be made."""


def check_recording(given: object) -> None:
    """Refuse what is not a recording.

    Raises:
        InvalidArgument: *given* is something else; the message says how to get one.
    """
    if not isinstance(given, RecordedRun):
        raise InvalidArgument(
            f"this takes a recording, not a {type(given).__name__}: "
            "torchrecorder.record(model, inputs) and torchrecorder.load(path) give one"
        )
