"""OpenScope: a running call or region. Choice: which scopes. Observer: callbacks about both."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Union

from torch import Tensor

from torchrecorder.events import GradId, OpId, ScopeId, ScopeLeft, ValueId
from torchrecorder.graph.nodes import Scope

Called = Callable[[Any, tuple[Any, ...], Mapping[str, Any], ScopeId], None]
"""A callback for calls of modules: the module or function, args, kwargs, and the scope."""


class OpenScope:
    """A scope that has been entered and not left."""

    inputs: tuple[Any, ...] = ()  # the values of its arguments
    # what identifies a region: the frame that runs it, or its modes; None for a call
    key: object = None
    begun = 0  # the index in run order after its arguments were read
    left: ScopeLeft | None = None  # its last end; that of a generator has several
    # the scopes around the call that made a generator, of which it is a later part
    around: Collection[OpenScope] | None = None
    results_unseen = False  # whether its outputs are unknown, as those of a call without hooks
    # called when a region ends, if anything is to be done then
    ends: Callable[[], None] | None = None
    around_other = False  # whether a block with the other grad mode is open inside it
    # of PyTorch, which runs the call of a module; kept until that is over
    frame: FrameType | None = None

    def __init__(self, event: Scope, state: Any, started: float) -> None:
        self.event = event
        self.scope = event.id
        self.recompute = event.recompute
        self.state = state  # grad mode and other modes at the start
        self.started = started
        self.arguments: dict[int, Any] = {}


def scopes_around(scopes: Mapping[ScopeId, Scope], scope: ScopeId | None) -> Iterator[Scope]:
    """*scope* and the scopes around it, innermost first."""
    while scope is not None:
        yield scopes[scope]
        scope = scopes[scope].parent


Choice = Union[bool, str, Sequence[str]]
"""True for all; or dotted paths of scopes, with the wildcards ``*`` and ``?``."""


class SeriesScopes(tuple[str, ...]):
    """The option *scopes* of `Series`, which is the option *stats* of its recorders."""


def chosen(choice: Choice, paths: Sequence[str]) -> Sequence[str]:
    """Those of the *paths* of one call by which *choice* includes it: the first one, unless only
    others match a pattern."""
    if isinstance(choice, bool):
        return paths[:1] if choice else ()
    found: dict[str, None] = {}
    for pattern in patterns_of(choice):
        fitting = [path for path in paths if fnmatch.fnmatchcase(path, pattern)]
        found.update(dict.fromkeys(fitting[:1] if fitting[:1] == [*paths[:1]] else fitting))
    return list(found)


def patterns_of(choice: Choice) -> Sequence[str]:
    """The patterns in *choice*; empty for True and False."""
    if isinstance(choice, bool):
        return ()
    return (choice,) if isinstance(choice, str) else choice


Gradients = tuple[Union[Tensor, None], ...]
"""Gradients as autograd passes them to a hook of a node."""


class Observer:
    """Base class of instruments with callbacks; each does nothing unless it is overridden.

    Observers must neither keep nor change the arguments. Their time counts as the recorder's. The
    callbacks for an end are called in reverse order of the observers. Those of autograd nodes are
    called in the thread that runs the node.
    """

    def op_begins(self, op: OpId) -> None:
        """An op is about to run."""

    def op_ended(self, op: OpId) -> None:
        """An op has run."""

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        """An op called *name* has returned or written the tensors *made*, with their values."""

    def op_read(self, op: OpId, read: list[tuple[ValueId, Tensor]]) -> None:
        """An op whose results `op_made` had has read the tensors *read*, and not written them."""

    def scope_entered(self, scope: OpenScope) -> None:
        """The call of a module begins."""

    def scope_left(self, scope: OpenScope, outputs: list[tuple[str, Tensor]]) -> None:
        """The call of a module returned *outputs*; none if it failed."""

    def node_hooked(self, grad: GradId, node: Any) -> None:
        """A backward pass that may reach this autograd node begins, with hooks on the node."""

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        """An autograd node is about to run, on the gradients *given*."""

    def node_runs_inside(self, grad: GradId, run: int, given: Gradients) -> None:
        """``AccumulateGrad`` is about to run in a backward pass that another node started."""

    def node_ended(self, grad: GradId, run: int) -> None:
        """An autograd node has run; not called for ``AccumulateGrad``."""

    def finish(self) -> None:
        """Write the remaining events, at the end of the run."""
