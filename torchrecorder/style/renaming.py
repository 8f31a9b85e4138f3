"""Renaming: other names, or colors, for the modules, ops and tensors of a figure, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from torchrecorder.checks import warn_unmatched
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GradId, OpId, ScopeId, ValueId
from torchrecorder.graph.end_names import end_title
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.name_patterns import NamePatterns
from torchrecorder.style.color import edge, ink, mix, tint
from torchrecorder.style.figure import Look
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, Cluster, Nesting, View


class Renaming:
    """Finds new names; None for names without one.

    Of several that match, the first exact one in *names* counts, then the first pattern.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names
        self.given = frozenset(names.values())
        self.patterns = NamePatterns(names)

    def scope(self, scope: Scope, recording: RecordedRun) -> str | None:
        """The title of a module or function, by one of its paths or its name."""
        paths = recording.call_paths[scope.id] if self.names else ()
        return self.find(filter(None, (*paths, scope.name)))

    def cls(self, scope: Scope) -> str:
        """The class of a module."""
        found = self.find([scope.cls])
        return scope.cls if found is None else found

    def op(self, op: Op, recording: RecordedRun) -> str:
        """The title of an op, by its name or one of its paths."""
        found = self.node(op.id, recording)
        return op.name if found is None else found

    def tensor(self, names: Sequence[str], role: str, recording: RecordedRun) -> str | None:
        """The title of a tensor, by one of its *names* or its role."""
        known = recording.call_paths.known(names) if self.names else ()
        return self.find((*known, role))

    def node(self, node: str, recording: RecordedRun) -> str | None:
        """The text for a scope, op, value, grad node or output, by any of its names."""
        return self.find(_names(node, recording)) if self.names else None

    def check(self, option: str, *recordings: RecordedRun) -> None:
        """Warn about names in *option* that match nothing in any of *recordings*."""
        known = (name for recording in recordings for name in called(recording))
        warn_unmatched(option, self.names, known)

    def find(self, called: Iterable[str]) -> str | None:
        """The text for a part with these names, most specific first."""
        if not self.names:
            return None
        ways = list(called)
        exact = [way for way in ways if way in self.names]
        fitting = exact or [name for way in ways for name in self.patterns.fitting(way)]
        return self.names[fitting[0]] if fitting else None


def called(recording: RecordedRun) -> Iterator[str]:
    """All names in *recording* that a mapping can use."""
    outputs = (f"out:{number}" for number in range(len(recording.outputs)))
    for node in (*recording.scopes, *recording.ops, *recording.values, *outputs):
        yield from _names(node, recording)


def _names(node: str, recording: RecordedRun) -> Iterator[str]:
    """All names of a scope, op, value or output, most specific first; a grad node has those of the
    op that made it."""
    grad = recording.grad_nodes.get(GradId(node))
    scope = recording.scopes.get(ScopeId(node))
    op = recording.ops.get(OpId(node) if grad is None else grad.owner or OpId(""))
    value = recording.values.get(ValueId(node))
    if scope is not None:
        yield from filter(None, (*recording.call_paths[scope.id], scope.name, scope.cls))
    elif op is not None:
        yield from (*recording.call_paths.of_op(op), op.name)
    elif value is not None:
        yield from (*recording.call_paths.known(value.names), value.role.value)
    elif node.startswith("out:"):
        slot = recording.outputs[int(node.partition(":")[2])]
        yield from (end_title("output", slot.name), "output")


def check_names(names: object) -> None:
    """Refuse *names* that are not a mapping from text to text."""
    if not isinstance(names, Mapping):
        raise InvalidArgument(
            f'rename must map names to names, {{"self_attn": "Attention"}}, not {names!r}'
        )
    wrong = [pair for pair in names.items() if not all(isinstance(item, str) for item in pair)]
    if wrong:
        raise InvalidArgument(f"rename must map text to text, not {wrong[0][0]!r}: {wrong[0][1]!r}")


class CustomColors:
    """Finds the key in *colors* for boxes and clusters; None for those without one, and for folds
    whose siblings have different colors."""

    def __init__(self, colors: Mapping[str, str]) -> None:
        self.colors = colors
        self.keys = Renaming({key: key for key in colors})

    def of_box(self, box: Box, view: View) -> str | None:
        """The key for a box."""
        if not self.colors:
            return None
        recording = view.recording
        if view.copies(box) == 1:
            return self._common([box.id], recording)
        for nodes in (recording.values, recording.grad_nodes):
            if box.id in nodes:
                return self._common((item for item in box.members if item in nodes), recording)
        return self._common(counterparts(box, view), recording)

    def of_cluster(self, cluster: Cluster, view: View) -> str | None:
        """The key for a cluster."""
        return self._common(cluster.calls or (cluster.id,), view.recording)

    def _common(self, nodes: Iterable[str], recording: RecordedRun) -> str | None:
        if not self.colors:
            return None
        found = [self.keys.node(node, recording) for node in nodes]
        return found[0] if len({self.colors.get(key or "") for key in found}) == 1 else None

    def fill(self, look: Look, key: str | None, theme: Theme) -> Look:
        """*look* for a box with this key."""
        if key is None:
            return look
        color = self.colors[key]
        return replace(look, fill=color, stroke=edge(color, theme.ink), text=ink(color))

    def frame(self, look: Look, key: str | None, theme: Theme) -> Look:
        """*look* for the frame of an open module with this key: a tint close to the paper."""
        if key is None:
            return look
        color = self.colors[key]
        fill = tint(color, theme.paper, theme.ink)
        return replace(look, fill=fill, stroke=mix(look.stroke, color, 0.35))


def counterparts(box: Box, view: View) -> Iterator[str]:
    """The node of *box*, and those of the siblings or repeats that it stands for."""
    kind = _kind(box.id, view.recording)
    if kind is None:
        yield box.id
    else:
        yield from (item for item in box.members if _kind(item, view.recording) == kind)


def _kind(node: str, recording: RecordedRun) -> tuple[int, str] | None:
    """The depth of a scope or op, and its class or name; None for other nodes."""
    step = step_of(recording, node)
    if isinstance(step, Scope):
        return _depths(recording)[step.parent], step.cls
    return (_depths(recording)[step.scope], step.name) if step is not None else None


@once
def _depths(recording: RecordedRun) -> Mapping[str | None, int]:
    """The depth of each scope, regions included; -1 for None."""
    return Nesting({scope.id: scope.parent for scope in recording.scopes.values()}).depth
