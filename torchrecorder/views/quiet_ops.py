"""Quiet ops: operations that a figure may leave out, such as queries, comparisons, reshapes, empty
calls, and copies that are used only by Python or not at all."""

from __future__ import annotations

from collections.abc import Collection, Set

from torchrecorder.events import MODES, OpId, OpKind, ScopeKind, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import readers_of, replacements
from torchrecorder.graph.variables import KEPT

RESHAPES = frozenset(
    """
    view view_as reshape reshape_as _unsafe_view flatten unflatten ravel squeeze unsqueeze
    transpose t T mT mH H adjoint permute movedim moveaxis swapaxes swapdims expand expand_as
    broadcast_to contiguous squeeze_ unsqueeze_ transpose_ t_ numpy_T alias
    """.split()
)
"""Ops that change only the shape."""

PARTS = frozenset(("getitem", "select", "narrow", "unbind"))
"""Ops that return parts of a tensor."""

DECISIONS = frozenset(("bool()", "is_nonzero"))
"""Ops whose result Python uses in a condition."""


HIDDEN_IF_QUIET = (
    *MODES, ScopeKind.CONSTRUCTION, ScopeKind.DATA_LOADER, ScopeKind.FUNCTION, ScopeKind.TRANSFER,
)


def is_hidden_if_quiet(scope: Scope) -> bool:
    """Whether *scope* is of a kind that is hidden if all of its ops are."""
    return scope.kind in HIDDEN_IF_QUIET or scope.registers_hooks


def hook_registrations(recording: RecordedRun) -> frozenset[OpId]:
    """The ops of scopes that register hooks."""
    scopes = {item.id for item in recording.scopes.values() if item.registers_hooks}
    return frozenset(op.id for op in recording.ops.values() if op.scope in scopes)


def is_identity(op: Op) -> bool:
    """Whether it is an identity: a scope returned its input and ran nothing."""
    return op.kind is OpKind.PASS


def returns_no_tensor(op: Op) -> bool:
    """Whether it returns no tensor, but a number, a flag or a shape."""
    return not op.outputs and not op.failed and not is_send(op)


def comparisons(
    recording: RecordedRun, needed: Collection[OpId | None] = ()
) -> frozenset[OpId]:
    """The comparisons that only a Python ``if`` reads, with the slices that only they read; not
    those in *needed*.

    An op that is the only reader of an input of the run is not among them: without it, the input
    would have no reader.
    """
    values, ops = recording.values, recording.ops
    decisions = {op.id: op for op in ops.values() if op.name in DECISIONS and op.id not in needed}
    given = {slot.value for slot in recording.outputs}
    found: set[OpId] = set()
    waiting = [slot.value for op in decisions.values() for slot in op.inputs]
    while waiting:
        producer = values[waiting.pop()].producer
        op = ops[producer] if producer is not None else None
        if op is None or op.id in found or op.writes:
            continue
        part = is_reshape(op) and len(op.inputs) == 1 or is_part(op)
        if any(not part and values[item].dtype != "bool" or item in given for item in op.outputs):
            continue
        readers = {reader.id for reader in readers_of(recording, op)}
        if readers <= found | decisions.keys():
            found.add(op.id)
            waiting.extend(slot.value for slot in op.inputs)
    alone = [slot.value for slot in recording.inputs] if found else []
    waiting = [value for value in alone if found.issuperset(recording.consumers.get(value, ()))]
    while waiting:
        shown = found.intersection(recording.consumers.get(waiting.pop(), ()))
        found -= shown
        waiting.extend(output for item in shown for output in ops[item].outputs)
    return frozenset(found)


def made_for_conditions(
    recording: RecordedRun, hidden: Collection[OpId], needed: Collection[OpId | None] = ()
) -> frozenset[OpId]:
    """The ops of modules that compute, from numbers alone, what only a Python ``if`` uses.

    An example is the causal mask with which a model compares the one that it was given. *hidden*
    ops are not drawn; *needed* ones are.
    """
    given = {slot.value for slot in recording.outputs}
    able: dict[OpId, Op] = {}
    for op in recording.ops.values() if hidden else ():
        made = (recording.values[slot.value].producer in able for slot in op.inputs)
        if all(made) and _may_hide(op, given) and any(
            recording.scopes[scope].module is not None for scope in recording.within(op.scope)
        ):
            able[op.id] = op
    found: set[OpId] = set()
    for op in reversed(able.values()):
        readers = readers_of(recording, op)
        if readers and all(
            reader.id in found or reader.id in hidden
            or reader.name in DECISIONS and reader.id not in needed for reader in readers
        ):
            found.add(op.id)
    return frozenset(found)


def idle_loads(recording: RecordedRun) -> frozenset[OpId]:
    """The ops of data loaders that start a pass over the data, or load what nothing reads."""
    loaders = recording.data_loaders
    return frozenset(
        op.id for op in (recording.ops.values() if loaders.calls else ())
        if (call := loaders.call_of(op)) is not None and not loaders.batches[call]
    )


def idle_transfers(recording: RecordedRun) -> frozenset[OpId]:
    """The ops by which calls such as ``model.to(device)`` leave every tensor as it is."""
    found = grouped(
        (op.scope, op) for op in recording.ops.values()
        if op.scope is not None and recording.scopes[op.scope].kind is ScopeKind.TRANSFER
    )
    return frozenset(
        op.id for ops in found.values() if all(map(_changes_nothing, ops)) for op in ops
    )


def _changes_nothing(op: Op) -> bool:
    """Whether *op* returns its input, or assigns the data of a tensor to that tensor."""
    own = len({slot.value for slot in op.inputs}) == 1
    return is_identity(op) or op.name == "set_data" and own and not op.failed


def is_send(op: Op) -> bool:
    """Whether it only sends a tensor to another process."""
    return op.name in ("send", "isend") and op.qualname.startswith("torch.distributed.")


def is_part(op: Op) -> bool:
    """Whether it returns a part of a tensor, and no other tensor selects the part."""
    return op.name in PARTS and len(op.inputs) == 1


def is_reshape(op: Op) -> bool:
    """Whether it changes only the shape."""
    return op.name in RESHAPES and not op.failed


COPIES = frozenset(("bfloat16", "cpu", "double", "float", "half", "to", *KEPT))
"""Ops that copy a tensor to another device or dtype."""


def copies(
    recording: RecordedRun, needed: Collection[OpId | None] = (), hidden: Collection[OpId] = ()
) -> frozenset[OpId]:
    """The ops that only copy a tensor, or a part of it, of which only numbers are read afterwards.

    Examples are ``loss.detach().cpu()`` before ``item``, losses that a program keeps in a list, and
    ``x[0]`` in ``x[0].shape``. Tensors created from numbers that only a Python ``if`` compares are
    included. If one op of a line of code is drawn, all are: in the last iteration of a loop,
    nothing may read what the other iterations pass on.

    *needed* ops return no tensor and are drawn all the same; *hidden* ops are not drawn.
    """
    given = {slot.value for slot in recording.outputs} | replacements(recording)
    able = [
        op for op in recording.ops.values()
        if (is_copy(op) or is_part(op) or not op.inputs) and _may_hide(op, given)
    ]
    readers = {op.id: readers_of(recording, op) for op in able}
    lines = {op.id: (op.source, op.name) for op in able}
    quiet = set(lines.values())

    def is_seen(op: Op) -> bool:
        """Whether a drawn op reads *op*, or no op at all."""
        if not readers[op.id]:
            return op.name not in KEPT and not is_part(op)
        shown = (reader for reader in readers[op.id] if reader.id not in hidden)
        return any(
            not op.inputs or lines.get(reader.id) not in quiet and not _is_quiet(reader, needed)
            for reader in shown
        )

    before = None
    while before != len(quiet):
        before = len(quiet)
        for op in reversed(able):  # what reads an op comes after it
            if lines[op.id] in quiet and is_seen(op):
                quiet.discard(lines[op.id])
    return frozenset(op for op, line in lines.items() if line in quiet)


def is_copy(op: Op) -> bool:
    """Whether *op* returns its input, copied or in another shape."""
    return op.name in COPIES or op.name in RESHAPES


def _may_hide(op: Op, given: Set[ValueId]) -> bool:
    if op.source is None or op.writes or op.kind is not OpKind.CALLED:
        return False
    return bool(op.outputs) and given.isdisjoint(op.outputs)  # one that failed has none


def _is_quiet(op: Op, needed: Collection[OpId | None]) -> bool:
    """Whether *op* returns its input, or a number."""
    return is_identity(op) and not op.outputs or returns_no_tensor(op) and op.id not in needed
