"""Recording: the data of a recorded run, and the relations between its parts.

`torchrecorder.Recording` is its subclass with methods that compute and draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar, Union

from torchrecorder.checks import Check, check_one, shown
from torchrecorder.errors import InvalidArgument, NotKept, NotThere
from torchrecorder.events import (
    STORED, Allocation, Communication, CompiledGraph, FunctionCall, FunctionId, FusedKernel, GradId,
    GradSwitch, GraphBreak, ModuleId, NodeId, OpId, ParameterPart, Rank, Role, ScopeId, ScopeKind,
    Shard, Slot, Statistics, ValueId,
)
from torchrecorder.graph.call_paths import CallPaths
from torchrecorder.graph.data_flow import bookkeeping, side_values, stored_roles, weight_loops
from torchrecorder.graph.differences import with_inner
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.mappings import frozen, grouped, plain
from torchrecorder.graph.nodes import (
    BackwardRun, Flow, GradFlow, GradNode, GradRun, Module, Op, Scope, Value,
)
from torchrecorder.graph.relations import DataLoaders, calls_of_kind
from torchrecorder.graph.retained_tensors import Kept, Replay, Tensors
from torchrecorder.graph.running_sums import running_sums
from torchrecorder.graph.structural_hash import structures
from torchrecorder.graph.varying_sizes import varying_sizes

if TYPE_CHECKING:
    import networkx as nx

Node = Union[Op, Value, GradNode]
GIVEN = Check(
    "a tuple of gradients, as many as Recording.given() returns", lambda x: isinstance(x, tuple)
).or_none()
SCOPE = Check("one of Recording.scopes", lambda value: isinstance(value, Scope))


class LiveObjects(Protocol):
    """Access to the recorded modules through weak references; see `LiveModules`."""

    def fn(self, recording: RecordedRun, node: str) -> Any:
        """The module of the scope *node*, or a meta tensor like the value *node*; else None."""


@dataclass(frozen=True)
class RunFacts:
    """Facts about the whole run."""

    torch_version: str
    grad_mode: str  # "grad", "no_grad", "inference_mode"
    notes: tuple[str, ...] = ()  # effects of recording, such as a fast path not taken
    failure: Failure | None = None
    lost: int = 0  # how often an instrument failed to record something
    seconds: float | None = None  # wall-clock time of the block, without that of the recorder
    overhead: float | None = None  # time of the recorder
    rank: Rank | None = None  # in a distributed run
    running: tuple[str, ...] = ()  # scopes and ops that had not ended when it was saved
    lane_failures: tuple[Failure, ...] = ()  # the errors of the lanes of a joined run

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The errors that ended the run, or its lanes."""
        return self.lane_failures if self.failure is None else (self.failure, *self.lane_failures)


class RunDone(NamedTuple):
    """The last event of a run: its name, and facts about it."""

    name: str
    facts: RunFacts


@dataclass(frozen=True)
class RecordedRun:
    """One run of a model: scopes, ops, values, grad nodes, as plain frozen data.

    It holds no tensor, no module and no ``grad_fn``. Ids count up in run order, so two
    runs of the same model give equal recordings (times aside).

    Attributes:
        name: Name of the model or of the run.
        scopes: Calls of modules and functions, and regions, in run order.
        modules: Module objects, those never called included.
        ops: Calls of torch functions, in run order.
        values: Tensors, in the order in which they were first seen.
        grad_nodes: The autograd graph behind the run.
        inputs: Tensors in the arguments of the outermost calls.
        outputs: Tensors in the results of the outermost calls, or made outside and still held.
        run: Facts about the whole run.
        backward_runs: Calls of ``backward()`` and ``grad()``, in run order.
        grad_runs: Runs of grad nodes, in run order.
        measured: Measured amounts, by quantity and by node or scope.
        statistics: Statistics of tensors and gradients, if ``stats`` is set.
        shards: The parts of distributed tensors in this process.
        parameter_parts: Parameters in the memory of others, as in a flat parameter of FSDP.
        communications: Communication with other processes, in run order.
        allocations: Allocations of tensor memory, in order, if ``memory=True``.
        kept: The tensors of ``keep=``; they are neither saved nor compared.
        compiled_graphs: The graphs of ``torch.compile``, if ``compiled`` is set.
        graph_breaks: The ends of graphs at which execution continues in Python, with reasons.
        fused_kernels: The kernels of Inductor, if ``compiled="inductor"``.
        function_calls: Calls of Python functions between modules and operations.
        grad_switches: Changes of ``requires_grad`` of leaves in the run, in run order.
        former: In a comparison, the ids of nodes that only the first run has; no number has them.
        former_reads: There, a value and an op of both runs for each read of the first run only.
        own_differences: There, the difference of a scope, op or value; equal texts if it is equal.
        quiet_differences: Ids of those that change no result, or follow from others.
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
    live: LiveObjects | None = field(default=None, compare=False)
    backward_runs: tuple[BackwardRun, ...] = ()
    grad_runs: tuple[GradRun, ...] = ()
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    statistics: tuple[Statistics, ...] = ()
    shards: tuple[Shard, ...] = ()
    parameter_parts: tuple[ParameterPart, ...] = ()
    communications: tuple[Communication, ...] = ()
    allocations: tuple[Allocation, ...] = ()
    kept: Kept = field(default_factory=Kept, compare=False)
    compiled_graphs: tuple[CompiledGraph, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    fused_kernels: tuple[FusedKernel, ...] = ()
    function_calls: Mapping[FunctionId, FunctionCall] = field(default_factory=dict)
    grad_switches: tuple[GradSwitch, ...] = ()
    former: frozenset[str] = field(default=frozenset(), compare=False)
    former_reads: frozenset[tuple[str, str]] = field(default=frozenset(), compare=False)
    own_differences: Mapping[str, str] = field(default_factory=dict, compare=False)
    quiet_differences: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        """Make its tables read-only."""
        vars(self).update({name: frozen(content) for name, content in vars(self).items()})

    def __repr__(self) -> str:
        counts = (len(self.scopes), "scope"), (len(self.ops), "op"), (len(self.values), "value")
        texts = (f"{number} {what}{'s' * (number != 1)}" for number, what in counts)
        return f"<Recording of {self.name}: {', '.join(texts)}>"

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle and copy: the data, and the tensors that were kept.

        References to modules and the autograd graph for `replay` are left out.
        """
        state = {item.name: plain(getattr(self, item.name)) for item in fields(self)}
        return {**state, "live": None, "kept": replace(self.kept, replay=None)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update({name: frozen(content) for name, content in state.items()})

    @cached_property
    def graph(self) -> nx.MultiDiGraph:
        """The run as a frozen ``networkx.MultiDiGraph``.

        ``graph.nodes[i]["node"]`` is an `Op`, `Value` or `GradNode`;
        ``graph.edges[u, v, k]["edge"]`` is a `Flow` (value to op, op to value) or a
        `GradFlow` (grad node to the next one, in the direction of the gradients).
        """
        import networkx as nx

        graph = nx.MultiDiGraph(name=self.name)
        for table in (self.values, self.ops, self.grad_nodes):
            graph.add_nodes_from((key, {"node": node}) for key, node in table.items())
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
        """Raise an error with the new name of an attribute of torchrecorder 1.x."""
        known = name in ("nodes", "edges")
        advice = f": use recording.graph.{name}, or its scopes, ops and values" if known else ""
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
    def call_paths(self) -> CallPaths:
        """The dotted paths of each scope; a call of a shared module may have several."""
        return CallPaths((*self.modules.values(), *self.scopes.values()))

    @cached_property
    def structures(self) -> Mapping[ScopeId, str]:
        """A digest of the structure of each scope; settings of inactive dropouts and of operations
        in steps of optimizers do not count."""
        return MappingProxyType(structures(self))

    @cached_property
    def differences(self) -> Mapping[str, tuple[str, ...]]:
        """The differences of scopes (with all inside), ops and values; equal siblings fold."""
        return with_inner(self) if self.own_differences else {}

    @cached_property
    def failed(self) -> frozenset[str]:
        """The scopes, ops and grad nodes in which the run failed."""
        tables = self.scopes, self.ops, self.grad_nodes
        return frozenset(item.id for table in tables for item in table.values() if item.failed)

    @cached_property
    def consumers(self) -> Mapping[ValueId, tuple[OpId, ...]]:
        """The ops that read each value, once per argument, in run order."""
        read = ((slot.value, op.id) for op in self.ops.values() for slot in op.inputs)
        return MappingProxyType({value: tuple(ops) for value, ops in grouped(read).items()})

    @cached_property
    def stored(self) -> Mapping[ValueId, Role]:
        """The role of each parameter and buffer, also of its values after in-place writes."""
        return MappingProxyType(stored_roles(self.values.values()))

    @cached_property
    def stored_memory(self) -> Mapping[int, Role]:
        """The role of the parameter or buffer in each storage."""
        values = self.values.values()
        return {one.storage: one.role for one in values if one.role in STORED and one.storage >= 0}

    @cached_property
    def weight_updates(self) -> Mapping[ScopeId, ScopeId]:
        """The optimizer step or averaging around each scope in one; see `calls_of_kind`."""
        return calls_of_kind(self.scopes, ScopeKind.OPTIMIZER, ScopeKind.AVERAGING)

    @cached_property
    def transparent(self) -> frozenset[ScopeId]:
        """The checkpoints and the like in other scopes, which open together with these."""
        inner, kind = (one for one in self.scopes.values() if one.parent), ScopeKind.CHECKPOINT
        return frozenset(one.id for one in inner if one.kind is kind or one.registers_hooks)

    @cached_property
    def data_loaders(self) -> DataLoaders:
        """The calls of data loaders, with their batches."""
        return DataLoaders(self)

    @cached_property
    def bookkeeping(self) -> frozenset[OpId]:
        """The ops that read and write nothing but buffers, such as a count of batches."""
        return bookkeeping(self)

    @cached_property
    def weight_loops(self) -> frozenset[OpId]:
        """The ops of loops over weights."""
        return weight_loops(self)

    @cached_property
    def side_values(self) -> frozenset[ValueId]:
        """The values that carry no data, but a mask, positions or the like."""
        return side_values(self)

    @cached_property
    def varying_sizes(self) -> frozenset[str]:
        """The ops and module calls that run repeatedly on tensors of different sizes."""
        return varying_sizes(self)

    @cached_property
    def running_sums(self) -> frozenset[OpId]:
        """The ops of lines that add to a sum, which begins with 0."""
        return running_sums(self)

    @cached_property
    def owned(self) -> Mapping[OpId, tuple[GradNode, ...]]:
        """The grad nodes that each op created, in the order of creation."""
        made = ((grad.owner, grad) for grad in self.grad_nodes.values() if grad.owner is not None)
        return MappingProxyType({op: tuple(grads) for op, grads in grouped(made).items()})

    @property
    def activations(self) -> Tensors:
        """Outputs of the scopes and operations in ``keep=``, by dotted path or name.

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
        """Gradients of the outputs of the scopes and operations in ``keep=``."""
        return self.kept.gradients

    def given(self, grad: GradId | str) -> tuple[Any, ...]:
        """The gradients that a grad node received in the last backward pass, or None.

        Raises:
            NotKept: The run was not recorded with ``replay=True``, or the node did not run.
            NotThere: No grad node has this id.
        """
        return self._replayed(grad).given(GradId(grad))

    def replay(self, grad: GradId | str, given: tuple[Any, ...] | None = None) -> tuple[Any, ...]:
        """Run one grad node again, for debugging, and return its gradients.

        Args:
            grad: Its id: ``recording.find("AddmmBackward0")`` lists them, and
                ``recording.owned["o3"]`` those of an operation.
            given: Gradients to run it on; by default those that it received.

        Raises:
            NotKept: The run was not recorded with ``replay=True``, the node did not run,
                or its saved tensors were freed.
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
                "this recording has no autograd graph to replay. Use record(model, x, backward="
                "True, replay=True), or Recorder(model, replay=True) with loss.backward("
                "retain_graph=True). A recording that was loaded or copied cannot be replayed"
            )
        return self.kept.replay

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
            NotThere: No node has this id.
        """
        for kind in (self.ops, self.values, self.grad_nodes):
            if isinstance(node, str) and node in kind:
                return kind[node]  # type: ignore[index, no-any-return]
        raise NotThere(f"no op, value or grad node has the id {shown(node)}")


RecordingT = TypeVar("RecordingT", bound=RecordedRun)
"""A class of recordings."""


def check_recording(value: object) -> None:
    """Check that *value* is a recording.

    Raises:
        InvalidArgument: *value* is something else; the message says how to get one.
    """
    if not isinstance(value, RecordedRun):
        raise InvalidArgument(
            f"expected a recording, not a {type(value).__name__}: "
            "torchrecorder.record(model, inputs) and torchrecorder.load(path) give one"
        )
