"""Calls around: the calls of Python functions around each op and scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os.path import commonprefix

from torchrecorder.events import FunctionCall, FunctionId, ScopeId, ScopeKind
from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun

LOCAL = "<locals>"
"""Part of the qualified names of nested functions, such as wrappers."""

Chain = tuple[FunctionId, ...]
"""The function calls around an op or a scope, outermost first."""


class CallsAround:
    """The calls of Python functions between the ops and scopes of *recording* and their modules."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording

    def chain(self, item: str) -> Chain:
        """The calls between an op or scope and the module call around it."""
        return self._direct.get(item) or self._of_regions.get(item, ((), ()))[0]

    def filled_by(self, region: ScopeId) -> FunctionCall | None:
        """The function call with the same contents as a region without a frame, or None.

        Functions decorated with ``torch.no_grad()`` have such regions. Of several such calls, the
        outermost; of a wrapper and the wrapped function, the wrapped one.
        """
        _, inside = self._of_regions.get(region, ((), ()))
        calls = [self.recording.function_calls[call] for call in inside]
        own = (call for call in calls if LOCAL not in call.name)
        return next(own, calls[-1] if calls else None)

    @cached_property
    def _direct(self) -> Mapping[str, Chain]:
        """The recorded calls around each op and scope."""
        chains: dict[FunctionId | None, Chain] = {None: ()}
        found: dict[str, Chain] = {}
        for call in self.recording.function_calls.values():
            chain = chains[call.id] = (*chains[call.parent], call.id)
            found.update((item, chain) for item in (*call.ops, *call.scopes))
        return found

    @cached_property
    def _of_regions(self) -> Mapping[str, tuple[Chain, Chain]]:
        """For each region without a frame, such as ``no_grad``: the calls around it, and the calls
        inside it that contain all of its contents."""
        found: dict[str, tuple[Chain, Chain]] = {}
        everywhere = Counter(call for chain in self._direct.values() for call in chain)
        for scope in reversed(list(self.recording.scopes.values())):
            if scope.kind is not ScopeKind.MODULE and scope.id not in self._direct:
                chains = list(self._inside(scope.id))
                inside = Counter(call for chain in chains for call in chain)
                shared = common(chains)
                outside = len(shared)
                while outside and inside[shared[outside - 1]] == everywhere[shared[outside - 1]]:
                    outside -= 1
                found[scope.id] = shared[:outside], shared[outside:]
        return found

    def _inside(self, scope: ScopeId) -> Iterator[Chain]:
        """The calls around each item of a region and its inner regions."""
        for item in self.recording.children[scope]:
            region = not isinstance(item, Op) and item.kind is not ScopeKind.MODULE
            if not region or item.id in self._direct:
                yield self._direct.get(item.id, ())
            if region:
                yield from self._inside(ScopeId(item.id))


def common(chains: Sequence[Chain]) -> Chain:
    """The common prefix of all *chains*."""
    return tuple(commonprefix(chains))
