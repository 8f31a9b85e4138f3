"""Automatic depth: the nesting of a recording, and a depth that fits a number of boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torchrecorder.events import CONVERTED, FUNCTION, MODES, SUM, ScopeId, ScopeKind
from torchrecorder.graph.differences import changed_inside
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.branches import Branches, kind_of
from torchrecorder.views.effects import idle_calls
from torchrecorder.views.quiet_ops import is_identity, is_reshape, returns_no_tensor
from torchrecorder.views.training import is_sharding, training_steps
from torchrecorder.views.view import Nesting

DEFAULT_MAX_BOXES = 40
"""The default for ``max_boxes``."""

UNITS = frozenset(("torch.nn.modules.activation.MultiheadAttention",))
"""PyTorch modules that run many ops but are known as one operation."""

GOOD_SHARE = 1 / 2
"""One depth for all modules is good enough if it draws at least this share of *max_boxes*."""


@once
def scope_depths(recording: RecordedRun) -> dict[str | None, int]:
    """The number of scopes around each scope; -1 under None, for the top.

    Those in `RecordedRun.transparent` do not count.
    """
    parents: dict[str, str | None] = {s.id: s.parent for s in recording.scopes.values()}
    return Nesting(parents, recording.transparent).depth


@once
def max_depth(recording: RecordedRun) -> int:
    """The depth at which every scope is open and each op has its box."""
    depths = scope_depths(recording)
    shown = (depths[scope.id] for scope in recording.scopes.values() if not scope.recompute)
    return 1 + max(shown, default=-1)


def innermost(recording: RecordedRun) -> frozenset[ScopeId]:
    """Innermost modules and functions: no other scope ran in them, except sums, what FSDP runs and
    what registers hooks.

    Outermost calls are left out, except functions beside a module, such as a loss.
    """
    composed = {
        scope.parent for scope in recording.scopes.values()
        if not (scope.cls == SUM or scope.registers_hooks or is_sharding(recording, scope.id))
    }
    beside = any(
        scope.parent is None and scope.module is not None
        for scope in recording.scopes.values()
    )
    return frozenset(
        scope.id
        for scope in recording.scopes.values()
        if (scope.module is not None and scope.parent is not None)
        or (scope.cls == FUNCTION and (scope.parent is not None or beside))
        if scope.id not in composed
    )


def regions_beside(recording: RecordedRun) -> frozenset[ScopeId]:
    """Outermost regions without scopes in them, such as ``no_grad``, if there are other outermost
    scopes. An example is the update of averaged weights, or a metric."""
    outermost, found = _outermost(recording, MODES)
    return found if len(found) < outermost else frozenset()


def _outermost(
    recording: RecordedRun, kinds: Collection[ScopeKind]
) -> tuple[int, frozenset[ScopeId]]:
    """The number of outermost scopes, and those of these *kinds* without scopes in them."""
    scopes = recording.scopes.values()
    composed = {scope.parent for scope in scopes if not scope.registers_hooks}
    outermost = [scope for scope in scopes if scope.parent is None]
    found = (item.id for item in outermost if item.kind in kinds and item.id not in composed)
    return len(outermost), frozenset(found)


def plain_modules(recording: RecordedRun, quiet: Collection[str]) -> frozenset[str]:
    """Innermost modules that run a single op or sum, such as a convolution or an activation.

    Opening one shows nothing new, or internals of PyTorch. Ops that only reshape, or return no
    tensor, do not count, nor do those *quiet*.
    """
    work = Counter(scope.parent for scope in recording.scopes.values() if scope.cls == SUM)
    for op in recording.ops.values():
        idle = is_identity(op) or is_reshape(op) or returns_no_tensor(op)
        if not (op.id in quiet or idle):
            work[op.scope] += 1
    found = innermost(recording) | _beside_others(recording)
    return frozenset(scope for scope in found if work[scope] <= 1 or _is_unit(recording, scope))


def _beside_others(recording: RecordedRun) -> frozenset[ScopeId]:
    """Outermost modules without scopes in them, if more was run than the call of one of them, such
    as a loss."""
    outermost, found = _outermost(recording, (ScopeKind.MODULE, *CONVERTED))
    passes = {run.op for run in recording.backward_runs}
    beside = outermost > 1 or any(
        op.scope is None and op.id not in passes for op in recording.ops.values()
    )
    return found if beside else frozenset()


def _is_unit(recording: RecordedRun, scope: ScopeId) -> bool:
    module = recording.module_of(recording.scopes[scope])
    return module is not None and module.qualname in UNITS


def boxes_at(
    recording: RecordedRun,
    quiet: Collection[str],
    closed: frozenset[str],
    hidden: frozenset[str] = frozenset(),
) -> list[int]:
    """The number of boxes of scopes and ops at each depth, from 0. *closed* scopes stay closed;
    *hidden* scopes and ops, and the ops *quiet*, are not drawn."""
    depths, through = scope_depths(recording), recording.transparent
    skipped = closed | hidden
    ops = [
        op
        for op in recording.ops.values()
        if not (op.recompute or op.id in quiet or op.id in hidden or op.scope in skipped)
    ]
    scopes = [
        scope
        for scope in recording.scopes.values()
        if not (scope.recompute or scope.id in hidden)
    ]
    opening = {scope.parent for scope in scopes} | {op.scope for op in ops}
    scopes = [scope for scope in scopes if scope.id not in through]
    at = Counter(depths[scope.id] for scope in scopes)
    stay = Counter(depths[scope.id] + 1 for scope in scopes if scope.id not in opening)
    stay.update(depths[op.scope] + 1 for op in ops)
    counts, below = [], 0
    for depth in range(max_depth(recording) + 1):
        below += stay[depth]
        counts.append(at[depth] + below)
    return counts


ALMOST_ALL = 0.9
"""The box of a scope with at least this share of all ops shows nothing of the run."""

MOST_BOXES = 3
"""Such a box is opened if that gives at most this multiple of *max_boxes*."""


def _first_shown(
    recording: RecordedRun, counts: Sequence[int], shut: Collection[str], enough: int
) -> int:
    """The first depth with several boxes: a single box shows nothing of its contents.

    The box of the model in a training step is a single box, too: boxes beside it do not count. A
    box of almost all ops is opened as well, if that gives at most `MOST_BOXES` times *enough*
    boxes: the loop of a beam search has 80, with its beginning and end. *counts* come from
    `boxes_at`; scopes in *shut* are not opened.
    """
    depths, through = scope_depths(recording), recording.transparent
    opened = [
        scope
        for scope in recording.scopes.values()
        if depths[scope.id] == 0 and scope.id not in through
        if not scope.recompute and scope.id not in shut and recording.children[scope.id]
    ]
    beside = counts[0] - 1 if len(opened) == 1 else 0
    several = (depth for depth, count in enumerate(counts) if count - beside > 1)
    first = next(several, min(1, len(counts) - 1))
    large = [depths[scope] for scope in _with_almost_all(recording) - through - {*shut}]
    while first in large and counts[first + 1] <= MOST_BOXES * enough:
        first += 1
    return first


def _with_almost_all(recording: RecordedRun) -> frozenset[ScopeId]:
    """The scopes in which almost all ops ran."""
    inside = Counter(op.scope for op in recording.ops.values())
    for scope in reversed([*recording.scopes.values()]):  # inner ones come later
        inside[scope.parent] += inside[scope.id]
    wanted = ALMOST_ALL * len(recording.ops)
    return frozenset(scope for scope in recording.scopes if inside[scope] >= wanted)


@dataclass(frozen=True)
class DepthChoice:
    """A depth, and scopes above it that stay closed."""

    depth: int
    closed: frozenset[str]
    boxes: int = 0  # the number expected if the depth is chosen for all parts
    # if some parts are opened deeper than others, the choice without these
    plain: DepthChoice | None = None


def choose(
    recording: RecordedRun,
    depth: int | None,
    quiet: Collection[str],
    repeated: frozenset[str] = frozenset(),
    enough: int = DEFAULT_MAX_BOXES,
) -> DepthChoice:
    """The scopes to open for a *depth*; None chooses one.

    The last level opens everything; smaller depths keep plain modules, sums and `training_steps`
    closed, and None also `idle_calls`. If None shows at most *enough* boxes with only these closed,
    it opens everything else. Otherwise it also closes all innermost modules and functions, and
    regions beside the model. It chooses the deepest level with at most *enough* boxes, or else the
    first with several boxes. If these are few, it opens large parts further, see `Branches`.
    *repeated* boxes do not count.
    Of two compared runs, None opens the way to what differs, and leaves closed all other modules.
    """
    deepest = max_depth(recording)
    if depth is not None and depth >= deepest:
        return DepthChoice(depth, frozenset())
    sums = {scope.id for scope in recording.scopes.values() if scope.cls == SUM}
    beside = training_steps(recording) | sums
    plain = plain_modules(recording, quiet)
    if depth is not None:
        return DepthChoice(depth, plain | beside)
    changed = changed_inside(recording) if recording.own_differences else frozenset()
    if changed:
        same = recording.scopes.keys() - changed
        beside |= same
        repeated |= {scope.id for scope in recording.scopes.values() if scope.parent in same}
    beside |= idle_calls(recording) - changed
    closed = plain | beside
    if boxes_at(recording, quiet, closed, repeated)[-1] <= enough:
        return DepthChoice(deepest, closed)
    closed = plain | innermost(recording) - changed | beside | regions_beside(recording)
    counts = boxes_at(recording, quiet, closed, repeated)
    fitting = [depth for depth, count in enumerate(counts) if count <= enough]
    base = max([_first_shown(recording, counts, closed | repeated, enough), *fitting])
    level = DepthChoice(base, closed, counts[base])
    if counts[base] > enough * GOOD_SHARE:
        return level

    opened = Branches(recording, repeated.union(quiet), closed).opened(base, enough - counts[base])
    if not opened:
        return level
    depths, through = scope_depths(recording), recording.transparent
    alike = {(depths[scope], kind_of(recording, scope)) for scope in opened}
    deeper = (scope for scope in {*recording.scopes} - through if depths[scope] >= base)
    shut = (scope for scope in deeper if (depths[scope], kind_of(recording, scope)) not in alike)
    return DepthChoice(deepest, closed.union(shut), plain=level)
