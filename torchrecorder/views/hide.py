"""Which boxes are hidden: quiet operations, scopes with certain names, identities, weights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from torchrecorder.checks import warn_unmatched
from torchrecorder.events import (
    CALLED, MODES, NO_STORAGE, STORED, FunctionId, OpId, ScopeId, ScopeKind, ValueId,
)
from torchrecorder.graph.end_names import end_names
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.name_patterns import NamePatterns
from torchrecorder.views.quiet_ops import is_hidden_if_quiet, is_identity, returns_no_tensor
from torchrecorder.views.training import is_sharding, training_steps
from torchrecorder.views.view import Arrow, Box, BoxKind, View
from torchrecorder.views.without import without

STORED_KINDS = (BoxKind.PARAMETER, BoxKind.BUFFER)

WEIGHTS = frozenset(
    """
    weight bias running_mean running_var in_proj_weight in_proj_bias out_proj_weight out_proj_bias
    """.split()
)
"""The arguments that are the weights of a module."""


@dataclass(frozen=True)
class HideOps:
    """Hide the ops *quiet*, and connect their inputs to their readers.

    A closed region (``no_grad``, another mode, a data loader, a transfer, an ``__init__``) or
    function in which nothing else ran is hidden as well, unless the cluster around it would be
    empty without it.
    """

    quiet: Collection[str]

    def __call__(self, view: View) -> View:
        hidden = {box.id for box in view.boxes.values() if self._hides(view, box)}
        hidden -= _last_of_all(view, hidden)
        return _without_idle_constants(view, without(view, sorted(hidden)))

    def _hides(self, view: View, box: Box) -> bool:
        ops, scopes = view.recording.ops, view.recording.scopes
        if box.id in ops:
            return box.id in self.quiet
        if not _may_be_empty(view, box):
            return False
        inside = [scopes[ScopeId(member)] for member in box.members if member in scopes]
        if any(scope.failed or not is_hidden_if_quiet(scope) for scope in inside):
            return False
        return all(member in self.quiet for member in box.members if member in ops)


def _may_be_empty(view: View, box: Box) -> bool:
    """Whether *box* is a region, or a call of a Python function that groups operations."""
    if box.kind is BoxKind.REGION:
        return box.id in view.recording.scopes
    return FunctionId(box.id.partition(":")[0]) in view.recording.function_calls


def _last_of_all(view: View, hidden: Collection[str]) -> set[str]:
    """Scopes among the *hidden* whose clusters would be empty without them."""
    regions = {box for box in hidden if _may_be_empty(view, view.boxes[box])}
    if not regions:
        return regions
    filled = _filled(view, [box for box in view.boxes if box not in hidden])
    return {box for box in regions if view.boxes[box].cluster not in filled}


def _filled(view: View, boxes: Iterable[str]) -> set[str | None]:
    """The clusters around some *boxes* of *view*, and None."""
    homes = {view.boxes[box].cluster for box in boxes}
    return {None, *(around for home in homes for around in view.nesting.around(home))}


@dataclass(frozen=True)
class NamedScopes:
    """Scopes, selected by path, name or class. Regions such as an optimizer step are also selected
    by kind.
    """

    # names such as ``"dropout"`` or ``"dropout?"``, wherever it is, or patterns such as
    # ``"encoder.*"`` or ``"Dropout*"``
    patterns: tuple[str, ...]

    def scopes(self, recording: RecordedRun) -> frozenset[str]:
        """The scopes of *recording* with these names."""
        called = _called(recording) if self.patterns else ()
        return frozenset(scope.id for scope, names in called if any(map(self._fits, names)))

    def check(self, option: str, run: RecordedRun, part: RecordedRun) -> None:
        """Warn about patterns of an *option* that match nothing in *run*, nor in the *part* of it
        that is drawn, which has inputs and outputs of its own."""
        if not self.patterns:
            return
        names = [*self._names_in(run), *(self._names_in(part) if part is not run else ())]
        warn_unmatched(option, self.patterns, [*names, *filter(None, map(_own_name, names))])

    def _names_in(self, recording: RecordedRun) -> Iterator[str]:
        for _, names in _called(recording):
            yield from names

    def _fits(self, name: str) -> bool:
        return self._tried.fit(name) or self._tried.fit(_own_name(name))

    @cached_property
    def _tried(self) -> NamePatterns:
        return NamePatterns(self.patterns)


def _own_name(path: str) -> str:
    """The last part of a path; empty if it is a number, as for a layer in a list."""
    name = path.rpartition(".")[2]
    return "" if name.isdigit() else name


def _called(recording: RecordedRun) -> Iterator[tuple[Scope, list[str]]]:
    """Each scope with its names: paths, class, for regions ``optimizer`` and ``optimizer Adam``."""
    for scope in recording.scopes.values():
        kind = scope.kind.value
        region = () if scope.kind in CALLED else (kind, f"{kind} {scope.cls}")
        yield scope, [*recording.call_paths[scope.id], scope.cls, *region]


class HideNamed(NamedScopes):
    """Hide ops, and tensors at the ends of the graph, by name; hide scopes by path, name or
    class."""

    def __call__(self, view: View) -> View:
        recording = view.recording
        hidden = set(self.scopes(recording))
        hidden.update(op.id for op in recording.ops.values() if self._fits(op.name))
        hidden.update(box for box, name in _ends(recording) if self._fits(name))
        gone = [box for box in view.boxes if box in hidden]
        if not gone:
            return view
        found = without(_without_calls(view, gone), gone)
        emptied = _filled(view, view.boxes) - _filled(view, found.boxes)
        left = {name: each for name, each in found.clusters.items() if name not in emptied}
        return replace(found, clusters=left)

    def _names_in(self, recording: RecordedRun) -> Iterator[str]:
        yield from super()._names_in(recording)
        yield from (op.name for op in recording.ops.values())
        yield from (name for _, name in _ends(recording))


def _ends(recording: RecordedRun) -> Iterator[tuple[str, str]]:
    """Boxes of inputs, outputs, parameters and buffers, with each of their names."""
    for box, _, names in end_names(recording):
        yield from ((box, name) for name in names)
    for value in recording.values.values():
        if value.role in STORED:
            yield from ((value.id, name) for name in recording.call_paths.known(value.names))


def _without_calls(view: View, hidden: Collection[str]) -> View:
    """*view* without the calls of modules among the *hidden* boxes. Weights that these share with
    others are not connected to what reads the results, as those inside closed boxes are not."""
    calls = [box for box in hidden if view.boxes[box].kind is BoxKind.MODULE]
    found, before = without(view, calls), set(view.arrows)
    stored = {box.id for box in view.boxes.values() if box.kind in STORED_KINDS}
    arrows = tuple(each for each in found.arrows if each.tail not in stored or each in before)
    read = stored.intersection([each.tail for each in before])
    idle = read.difference([each.tail for each in arrows])
    boxes = {name: box for name, box in found.boxes.items() if name not in idle}
    arrows = tuple(each for each in arrows if each.head not in idle)  # of steps that update them
    return replace(found, boxes=boxes, arrows=arrows)


def _without_idle_constants(before: View, view: View) -> View:
    """Drop constants that only hidden ops read, such as the gradient argument of backward."""
    constants = {box.id for box in view.boxes.values() if box.kind is BoxKind.CONSTANT}
    if not constants:
        return view
    idle = constants.difference([arrow.tail for arrow in view.arrows])
    read = idle.intersection([arrow.tail for arrow in before.arrows])
    return without(view, [box for box in view.boxes if box in read])


def hide_identities(view: View) -> View:
    """Hide modules that return their input unchanged, such as an identity."""
    return without(view, [box.id for box in view.boxes.values() if _passes(view, box)])


def _passes(view: View, box: Box) -> bool:
    if box.kind not in (BoxKind.MODULE, BoxKind.REGION):
        return False
    ops = view.recording.ops
    inside = [ops[OpId(member)] for member in box.members if member in ops]
    return bool(inside) and all(is_identity(op) or returns_no_tensor(op) for op in inside)


@dataclass(frozen=True)
class HideStored:
    """Hide the boxes of parameters and buffers, of closed regions that gather or free parameters,
    and of constants of modules that are closed."""

    # hide all of them. Otherwise the inputs of an op directly in a scope with other scopes
    # stay, such as a class token, a position embedding or a running average: no module box
    # represents them there. A region such as ``no_grad`` is no scope here. Still hidden are
    # the weights and biases of such ops, the inputs of an optimizer step, whose box
    # represents them, those of ``torch.autograd.grad``, and, outside of modules or in a
    # ``no_grad``, those of loops over weights, except values that all iterations read.
    everywhere: bool = False
    folded: bool = True  # whether loops over weights fold; if they do not, their inputs stay

    def __call__(self, view: View) -> View:
        steps = training_steps(view.recording)
        view = _without_reads(view, steps)
        stored = {box.id: None for box in view.boxes.values()
                  if box.kind in STORED_KINDS or is_sharding(view.recording, box.id)}
        read = [arrow for arrow in view.arrows if arrow.tail in stored]
        spared = set() if self.everywhere else self._spared(view, read, steps)
        spared |= {arrow.tail for arrow in read if arrow.head.startswith("out:")}
        hidden = [box for box in stored if box not in spared] + _held_inside(view)
        return without(_without_bookkeeping(view, set(hidden)), hidden)

    def _spared(
        self, view: View, read: Iterable[Arrow], steps: Collection[str | None]
    ) -> set[str]:
        scopes = view.recording.scopes
        holder = _holders(scopes.values())
        shown = [(item, cluster.parent) for item, cluster in view.clusters.items()]
        shown += [(box.id, box.cluster) for box in view.boxes.values() if box.id in scopes]
        composed = {holder.get(around) for item, around in shown if holder.get(item) == item}
        leaves = {
            scope.id
            for scope in scopes.values()
            if scope.kind is ScopeKind.MODULE and scope.id not in composed
        }
        kept = view.recording.bookkeeping
        silent = kept - {
            arrow.tail
            for arrow in (view.arrows if kept else ())
            if arrow.head not in kept and view.boxes[arrow.head].kind not in STORED_KINDS
        }
        silent |= {run.op for run in view.recording.backward_runs}
        silent |= set(_for_each_weight(view.recording)) if self.folded else set()
        common = _common_to_weights(view.recording)
        return {
            arrow.tail
            for arrow in read
            if arrow.slot not in WEIGHTS
            and arrow.head not in scopes
            and view.boxes[arrow.head].cluster not in steps
            and holder.get(view.boxes[arrow.head].cluster) not in leaves
            and (arrow.head not in silent or arrow.tail in common)
        }


def _for_each_weight(recording: RecordedRun) -> Iterator[OpId]:
    """The ops of loops over weights, outside of modules or in a ``no_grad`` of a module, as where
    it updates an average of its weights."""
    ops = recording.ops
    around = {ops[op].scope for op in recording.weight_loops}
    beside = {scope for scope in around if _is_beside_modules(recording, scope)}
    yield from (op for op in recording.weight_loops if ops[op].scope in beside)


def _is_beside_modules(recording: RecordedRun, scope: ScopeId | None) -> bool:
    """Whether a scope is in no module, or in a ``no_grad`` of one."""
    for outer in map(recording.scopes.__getitem__, recording.within(scope)):
        if outer.kind in (ScopeKind.MODULE, ScopeKind.NO_GRAD):
            return outer.kind is ScopeKind.NO_GRAD
    return True


def _common_to_weights(recording: RecordedRun) -> frozenset[str]:
    """The values that all iterations of a loop over weights read, such as a learned step size: they
    are none of these weights."""
    lines: dict[object, list[set[str]]] = {}
    for op in map(recording.ops.__getitem__, recording.weight_loops):
        read: set[str] = {slot.value for slot in op.inputs}
        lines.setdefault((op.scope, op.source, op.qualname), []).append(read)
    return frozenset(value for line in lines.values() for value in set.intersection(*line))


def _held_inside(view: View) -> list[str]:
    """Constants that a module in a closed box holds, like buffers, and that nothing else reads.

    Constants are left out if an op writes to their memory, such as a cache that several calls
    update.
    """
    heads = {box.id: list[str]() for box in view.boxes.values() if box.kind is BoxKind.CONSTANT}
    written: set[int] = set()
    for arrow in view.arrows if heads else ():
        if arrow.tail in heads:
            heads[arrow.tail].append(arrow.head)
        elif arrow.value is not None and arrow.value not in heads:
            written.add(view.recording.values[arrow.value].storage)
    written.discard(NO_STORAGE)
    return [
        box
        for box, found in heads.items()
        if found and view.recording.values[ValueId(box)].storage not in written
        and all(_holds(view, head, box) for head in found)
    ]


def _holds(view: View, head: str, constant: str) -> bool:
    """Whether all readers of *constant* in the box *head* are in the module that holds it, or it is
    a call of that module, which returns the constant."""
    recording, members = view.recording, {head, *view.boxes[head].members}
    if head not in recording.scopes:
        return False
    names, ops = recording.values[ValueId(constant)].names, recording.ops
    readers = [one for one in recording.consumers.get(ValueId(constant), ()) if one in members]
    for scope in {ops[reader].scope for reader in readers} or {ScopeId(head)}:
        around = [recording.scopes[one] for one in recording.within(scope)]
        paths = [one.path for one in around if one.id in members and one.module is not None]
        if not any(name.startswith(f"{path}." if path else "") for name in names for path in paths):
            return False
    return True


def _without_reads(view: View, steps: Collection[str | None]) -> View:
    """Drop the arrows by which training *steps* read weights that the run never wrote."""
    if not steps:
        return view
    values, stored = view.recording.values, view.recording.stored

    def reads(arrow: Arrow) -> bool:
        if arrow.head not in steps and view.boxes[arrow.head].cluster not in steps:
            return False
        value = arrow.value
        return value is not None and value in stored and values[value].producer is None

    return replace(view, arrows=tuple(arrow for arrow in view.arrows if not reads(arrow)))


def _holders(scopes: Iterable[Scope]) -> dict[str | None, str | None]:
    """Each scope by its id; for a region such as ``no_grad``, the scope around it."""
    found: dict[str | None, str | None] = {None: None}
    for scope in scopes:
        found[scope.id] = found[scope.parent] if scope.kind in MODES else scope.id
    return found


def _without_bookkeeping(view: View, hidden: set[str]) -> View:
    """Drop ops that only update hidden buffers, such as the number of batches in batch norm."""
    keeps = view.recording.bookkeeping
    if not keeps:
        return view
    readers: dict[str, list[str]] = {box: [] for box in view.boxes if box in keeps}
    for arrow in view.arrows:
        if arrow.tail in readers and arrow.head not in hidden:
            readers[arrow.tail].append(arrow.head)
    idle: dict[str, None] = {}
    for box in sorted(readers, key=lambda box: view.recording.ops[OpId(box)].index, reverse=True):
        if all(reader in idle for reader in readers[box]):
            idle[box] = None
    return without(view, idle)
