"""CallPaths: all dotted paths of each call; calls of shared modules may have several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Union

from torchrecorder.events import ModuleId, ScopeId
from torchrecorder.graph.nodes import Module, Op, Scope

_MAX_PATHS = 16
"""The maximum number of paths of a module; one that contains itself has no end of them."""


class CallPaths(Mapping[ScopeId, Sequence[str]]):
    """The paths of calls and regions, the recorded path first.

    A call of a shared module has those of its paths that fit the caller. Of a module that is
    ``embed``, ``encoder.embed`` and ``decoder.embed``, ``encoder`` calls the first two, and the
    model all three.
    """

    def __init__(self, rows: Iterable[Module | Scope] = ()) -> None:
        self._names: dict[ModuleId | None, tuple[str, ...]] = {}
        self._others: dict[str, tuple[str, ...]] = {}  # of shared modules, by their first path
        self._paths: dict[Union[ScopeId, None], Sequence[str]] = {None: ("",)}
        for row in rows:
            self.add(row)

    def __getitem__(self, scope: str) -> Sequence[str]:
        return self._paths[ScopeId(scope)]

    def __iter__(self) -> Iterator[ScopeId]:
        return (scope for scope in self._paths if scope is not None)

    def __len__(self) -> int:
        return len(self._paths) - 1

    def of_op(self, op: Op) -> list[str]:
        """The paths of the scope of *op*, each with its name."""
        return [f"{path}.{op.name}" if path else op.name for path in self._paths[op.scope]]

    def add(self, row: Module | Scope) -> None:
        """Add a module; or a call, after its module and the calls around it."""
        if isinstance(row, Scope):
            self._paths[row.id] = self._of_call(row)
        elif len(row.names) > 1:
            self._names[row.id], self._others[row.names[0]] = row.names, row.names[1:]

    def _of_call(self, call: Scope) -> Sequence[str]:
        if not self._others:
            return (call.path,)
        known = self.known((call.path, *self._names.get(call.module, ())))
        callers = self._paths[call.parent]
        fitting = [path for path in known if any(_fits(path, caller) for caller in callers)]
        return list(dict.fromkeys((call.path, *(fitting or known))))

    def known(self, paths: Sequence[str]) -> list[str]:
        """All paths of a module, parameter or buffer with these *paths*, which are those through
        the first paths of the modules around it."""
        known = list(paths)
        for path in known if self._others else ():
            known += [other for other in _moved(path, self._others) if other not in known]
            if len(known) > _MAX_PATHS:
                break
        return known


def _moved(path: str, others: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """*path*, with the path of a module around it replaced by *others* of that module."""
    holder = path
    while holder:
        yield from (other + path[len(holder) :] for other in others.get(holder, ()))
        holder = holder.rpartition(".")[0]


def _fits(path: str, caller: str) -> bool:
    """Whether the module that holds *path* is around or in the *caller*, or is the caller."""
    holder = path.rpartition(".")[0]
    inner, outer = (f"{place}." if place else "" for place in (holder, caller))
    return inner.startswith(outer) or outer.startswith(inner)
