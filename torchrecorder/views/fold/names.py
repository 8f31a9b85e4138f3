"""Names in the titles of folds: of siblings, of the scopes in repeated blocks, and of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from torchrecorder.events import MODES, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.inputs import argument_of, list_of


def names_of(
    recording: RecordedRun, group: Sequence[str], children: Callable[[str], Iterable[str]]
) -> tuple[str, ...]:
    """The names in the title of a fold: of siblings, of inputs, or of the scopes in blocks, whose
    contents *children* returns."""
    if group[0] in recording.values:
        values = (recording.values[ValueId(item)] for item in group)
        names = tuple(value.names[0] for value in values if value.names)
        arguments = {*map(argument_of, names)}
        if len(arguments) != 1 or "" in arguments:
            return names
        return (list_of(names) or arguments.pop(),) * len(names)
    if not is_block(group[0]):
        scopes = (recording.scopes.get(ScopeId(item)) for item in group)
        return tuple(scope.name for scope in scopes if scope is not None)
    named = [step_names(_naming([*_scopes_in(recording, block, children)])) for block in group]
    same = all(names == named[0] for names in named)
    return named[0] if same else tuple(name for names in named for name in names)


def _scopes_in(
    recording: RecordedRun, block: str, children: Callable[[str], Iterable[str]]
) -> Iterator[Scope]:
    """The scopes in a block, and in the blocks and modes inside it: ``no_grad`` names no loop."""
    for item in children(block):
        scope = recording.scopes.get(ScopeId(item))
        if is_block(item) or scope is not None and scope.kind in MODES:
            yield from _scopes_in(recording, item, children)
        elif scope is not None:
            yield scope


def _naming(scopes: Sequence[Scope]) -> Sequence[Scope]:
    """*scopes* without the functions beside a module, which say less about a loop."""
    if all(scope.kind is not ScopeKind.MODULE for scope in scopes):
        return scopes
    return [scope for scope in scopes if scope.kind is not ScopeKind.FUNCTION]


def step_names(steps: Sequence[Scope | Op]) -> tuple[str, ...]:
    """The names of training steps; for other scopes, a module that is only numbered gets the name
    of its class."""
    names = [step.name for step in steps]
    if not all(map(str.isdigit, names)):
        for place, step in enumerate(steps):
            if isinstance(step, Scope) and step.name.isdigit():
                names[place] = step.cls
    return tuple(names)


def names_inside(recording: RecordedRun, instances: Iterable[str]) -> tuple[str, ...]:
    """The names of counterparts in siblings, if they are scopes or values with different names.

    In a region or a loop, modules are named by their position in the module around it. Each call of
    a module may use a different item of a list.
    """
    names: dict[str, None] = {}
    for item in instances:
        scope, value = recording.scopes.get(ScopeId(item)), recording.values.get(ValueId(item))
        if scope is not None:
            names[scope.name] = None
        elif value is not None:
            names.update(dict.fromkeys(value.names[:1]))
    return tuple(names) if len(names) > 1 else ()
