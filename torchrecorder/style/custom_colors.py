"""Custom colors: colors that a user gives to modules, ops and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.once import once
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.color import edge, ink, mix, tint
from torchrecorder.style.figure import Look
from torchrecorder.style.renaming import Renaming
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, Cluster, Nesting, View


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


def _kind(node: str, recording: RecordedRun) -> tuple[bool, int, str] | None:
    """Whether it is a scope, its depth, and its class or name; None for other nodes."""
    scope, op = recording.scopes.get(ScopeId(node)), recording.ops.get(OpId(node))
    if scope is not None:
        return True, _depths(recording)[scope.parent], scope.cls
    return (False, _depths(recording)[op.scope], op.name) if op is not None else None


@once
def _depths(recording: RecordedRun) -> Mapping[str | None, int]:
    """The depth of each scope, regions included; -1 for None."""
    return Nesting({scope.id: scope.parent for scope in recording.scopes.values()}).depth
