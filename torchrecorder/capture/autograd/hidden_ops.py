"""HiddenOps: ops that no instrument saw, known from their autograd nodes.

A custom ``autograd.Function`` may compute a result in code that is not recorded, such as NumPy or
the replay of a CUDA graph. This code is a hidden op too. It reads tensors through NumPy arrays or
addresses, and writes to memory that was allocated for it. It must have run if, by the recorded ops,
a result depends on none of the arguments of the function, but by autograd it does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from torchrecorder.capture.autograd.node_facts import name_of, op_name, output_facts
from torchrecorder.capture.autograd.thread_nodes import Walk
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.events import GradEdge, GradId, OpId, Role, ScopeId, ScopeLeft, Slot, ValueId
from torchrecorder.graph.memory_access import LEAVES_UNSET
from torchrecorder.graph.nodes import Op, Scope, Value

_MEMORY = LEAVES_UNSET - {"resize_", "resize_as_"} | {"new_zeros", "zeros", "zeros_like"}
"""Ops that allocate memory; of their arguments they read only shape, dtype and device."""

_FROM_PYTHON = frozenset("as_tensor asarray from_dlpack from_numpy frombuffer tensor".split())
"""Ops that create a tensor from Python objects or arrays."""


class Unseen(NamedTuple):
    """The inputs of unrecorded code that computed a result of a custom function."""

    read: list[ValueId]  # the values that it read
    # the ops that created a tensor from its result; none if it wrote to a tensor
    taken_by: list[Op]


def last_inside(tape: Tape, name: str) -> FunctionInside | None:
    """The ops inside the last call of the custom function with this name; None without a call."""
    found = tape.last_functions.get(name)
    return None if found is None else FunctionInside(found[0], _ops_inside(tape, *found))


def _ops_inside(tape: Tape, function: ScopeId, place: int) -> list[Op]:
    """The ops in the scope of a function, which was entered at index *place* of the events."""
    inside, ops = {function}, dict[OpId, Op]()
    events = tape.events
    for event in map(events.__getitem__, range(place, len(events))):
        if isinstance(event, Scope):
            if event.parent in inside:
                inside.add(event.id)
        elif isinstance(event, Op):
            if event.scope in inside:
                ops[event.id] = event
        elif isinstance(event, ScopeLeft) and event.scope == function:
            break
    return [*ops.values()]


class FunctionInside:
    """The ops inside one call of a custom function."""

    def __init__(self, scope: ScopeId, ops: Sequence[Op]) -> None:
        self.scope = scope
        self._makers = {value: op for op in ops for value in op.outputs}
        copied = dict.fromkeys(value for op in ops for value in op.writes)
        for slot in (slot for op in ops for slot in op.inputs):
            copied.pop(slot.value, None)
        handed_out = [slot.value for op in ops if not op.outputs for slot in op.inputs]
        self._taken = dict.fromkeys([*handed_out, *copied])

    def unseen(
        self,
        value: ValueId,
        given: Collection[ValueId],
        are_constants: Callable[[Collection[ValueId]], bool],
    ) -> Unseen | None:
        """The inputs of unrecorded code that computed *value* from the arguments *given*.

        None if *value* was computed outside, or if the recorded ops explain it: it depends on
        arguments, or on values other than new memory, Python data and constants.
        """
        behind = self._behind([value])
        sources = behind.difference(self._makers)
        if value in sources or not behind.isdisjoint(given) or not are_constants(sources):
            return None
        makers = [self._makers[item] for item in behind.difference(sources)]
        takers = [op for op in makers if op.name in _FROM_PYTHON and not op.inputs]
        return Unseen(self.read_unseen(given, behind), takers)

    def read_unseen(
        self, given: Collection[ValueId], known: Collection[ValueId] = ()
    ) -> list[ValueId]:
        """The values that unrecorded code may read: those that ops pass to Python or copy without a
        later reader, and the other arguments *given*; no *known* values and no new memory."""
        found = [item for item in self._taken if item not in known and not self._is_memory(item)]
        behind = self._behind(found)
        return found + [value for value in given if value not in behind]

    def _is_memory(self, value: ValueId) -> bool:
        maker = self._makers.get(value)
        return maker is not None and maker.name in _MEMORY

    def _behind(self, values: Sequence[ValueId]) -> set[ValueId]:
        """*values* and all values that they were computed from."""
        found, waiting = set[ValueId](), [*values]
        while waiting:
            value = waiting.pop()
            maker = self._makers.get(value)
            if value not in found and maker is not None and not self._is_memory(value):
                waiting += [slot.value for slot in maker.inputs]
            found.add(value)
        return found


class FunctionOfNode(NamedTuple):
    """The call of a custom function that made a node, and the values of its arguments."""

    node: weakref.ref[Any]
    at: tuple[ScopeId | None, int]  # the call; while it runs, also the number of ops before
    inside: FunctionInside
    given: list[ValueId]


class HiddenOps:
    """Writes hidden ops for autograd nodes; their outputs are known from autograd's metadata."""

    def __init__(self, nodes: Walk) -> None:
        self.nodes = nodes
        self._rows: dict[ScopeId, Op] = {}  # hidden ops of custom functions
        self._claimed: set[ScopeId] = set()  # functions whose node is known
        self._last: FunctionOfNode | None = None

    def record(self, tensor: Tensor) -> ValueId:
        """Write hidden ops for the unknown autograd nodes behind *tensor*; returns its value."""
        nodes = self.nodes
        nodes.find_foreign(tensor.grad_fn)
        edge = nodes.edge(tensor.grad_fn, tensor.output_nr, None)
        owner = nodes.owners.get(edge.grad)
        made = nodes.made.get(edge)
        if owner is not None:
            return nodes.values.add_value(tensor, owner, grad=edge, value=made)
        role, name = nodes.values.names.of(tensor) or (Role.CONSTANT, "")
        names = (name,) if name else ()
        return nodes.values.add_value(tensor, None, role, names, grad=edge, value=made)

    def update(self, tensor: Tensor, entry: Entry) -> ValueId:
        """Write the node that a custom function has set as ``grad_fn`` after the op of *tensor*;
        returns its value."""
        nodes = self.nodes
        if isinstance(tensor.grad_fn, BackwardCFunction):
            self._find_unseen(tensor, entry)
        edge = nodes.edge(tensor.grad_fn, tensor.output_nr, entry.producer, entry.scope)
        nodes.made.setdefault(edge, entry.value)
        nodes.values.record_again(tensor, entry, edge)
        return entry.value

    def find_unread(self) -> None:
        """Write the nodes of custom functions whose results nothing has read."""
        nodes, functions = self.nodes, self.nodes.tape.functions
        for entry in list(nodes.values.entries.values()) if functions else ():
            tensor = entry() if entry.scope in functions else None
            if tensor is not None and not nodes.knows(tensor):
                nodes.values.read(tensor)

    def _find_unseen(self, tensor: Tensor, entry: Entry) -> None:
        """If unrecorded code of a custom function wrote *tensor*, write the hidden op, and set
        *entry* to its result. If an op created *tensor* from a Python object, that op gets the
        inputs."""
        nodes, node = self.nodes, tensor.grad_fn
        assert node is not None
        name = op_name(name_of(node))
        call = self._call_of(node, name)
        if call is None:
            return
        self._claimed.add(call.inside.scope)
        unseen = call.inside.unseen(entry.value, call.given, self._are_constants)
        if unseen is None:
            return
        self._last = None  # what is inside changes
        for taker in unseen.taken_by:
            nodes.tape.write(taker.replace(inputs=_numbered(unseen.read)))
        if not unseen.taken_by:
            self._write_unseen(tensor, entry.value, name, call.inside.scope, unseen.read)

    def _call_of(self, node: Any, name: str) -> FunctionOfNode | None:
        """The last call of the custom function *name*, which made *node*, with its arguments.

        None without a call, or if a node behind it is unknown. It is the same for each result.
        """
        nodes, tape = self.nodes, self.nodes.tape
        scope, _ = tape.last_functions.get(name, (None, 0))
        is_open = any(opened.scope == scope for opened in tape.stack)
        now, last = (scope, tape.index if is_open else -1), self._last
        if last is not None and last.node() is node and last.at == now:
            return last
        inside = last_inside(tape, name)
        following = nodes.following(node.next_functions) if inside is not None else None
        if inside is None or following is None:
            return None
        given = [nodes.made[edge] for edge in following if edge in nodes.made]
        self._last = FunctionOfNode(weakref.ref(node), now, inside, given)
        return self._last

    def _write_unseen(
        self, tensor: Tensor, before: ValueId, name: str, scope: ScopeId, read: list[ValueId]
    ) -> None:
        """Write *tensor* as a result of the one hidden op of a function; *before*: its value until
        then."""
        nodes, row = self.nodes, self._rows.get(scope)
        op = nodes.tape.next_op() if row is None else row.id
        value = nodes.values.add_value(tensor, op)
        if row is None:
            inputs = _numbered([before, *read])
            row = nodes.tape.write_op(op, name, inputs, (value,), scope=scope)
        else:
            inputs = _numbered([*(slot.value for slot in row.inputs), before])
            row = row.replace(inputs=inputs, outputs=(*row.outputs, value))
            nodes.tape.write(row)
        self._rows[scope] = row

    def _are_constants(self, values: Collection[ValueId]) -> bool:
        if not values:
            return True
        entries = self.nodes.values.entries.values()
        constants = {entry.value for entry in entries if entry.role is Role.CONSTANT}
        return constants.issuperset(values)

    def write(
        self, grad: GradId, node: Any, op: OpId, following: tuple[GradEdge | None, ...]
    ) -> None:
        """Write the hidden op of *node*, whose next nodes are *following*."""
        nodes, name, scope = self.nodes, op_name(name_of(node)), None
        read = [self._value_of(edge) for edge in following if edge is not None]
        inside = last_inside(self.nodes.tape, name) if isinstance(node, BackwardCFunction) else None
        if inside is not None and inside.scope not in self._claimed:
            read, scope = inside.read_unseen(read), inside.scope
            self._claimed.add(scope)
        outputs = [
            self._new_value(GradEdge(grad, index), op, *facts)
            for index, facts in enumerate(output_facts(node))
        ]
        recompute = nodes.made_in_pass(node)
        given, made = _numbered(read), tuple(outputs)
        nodes.tape.write_op(op, name, given, made, scope=scope, recompute=recompute)

    def _value_of(self, edge: GradEdge) -> ValueId:
        """The value of an edge; if none was recorded, a new one of unknown shape."""
        value = self.nodes.made.get(edge)
        if value is None:
            owner = self.nodes.owners.get(edge.grad)
            value = self._new_value(edge, owner, (), "unknown", "unknown", 0)
        return value

    def _new_value(
        self,
        edge: GradEdge,
        producer: OpId | None,
        shape: tuple[int, ...],
        dtype: str,
        device: str,
        size: int,
    ) -> ValueId:
        tape = self.nodes.tape
        value = tape.next_value()
        role = Role.CONSTANT if producer is None else Role.INNER
        facts = (value, shape, dtype, device, role, (), producer, True, edge, size)
        tape.write(Value(*facts, kind="Tensor", trainable=False, storage=-1))
        self.nodes.made[edge] = value
        return value


def _numbered(values: Iterable[ValueId]) -> tuple[Slot, ...]:
    return tuple(Slot(str(number), value) for number, value in enumerate(values))
