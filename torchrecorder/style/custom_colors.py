"""Custom colors: colors that a user gives to modules, ops and tensors by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from torchrecorder.events import OpId, ScopeId
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.color import contrast, ink, luminance, mix, solid
from torchrecorder.style.figure import Look
from torchrecorder.style.renaming import Renaming
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, Cluster, View

SHARES = (0.5, 0.4, 0.3, 0.24, 0.18, 0.13, 0.09, 0.06)
"""How much of a color may be in the tint of frames: the shares to try."""

MAX_TINT = {"light": 1.18, "dark": 1.45}
"""The maximum contrast of such a tint to light and to dark paper."""

MIN_EDGE = 2.0
"""The minimum contrast to a fill of the color that is mixed into its outline."""


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
        edge = theme.ink if contrast(theme.ink, color) >= MIN_EDGE else ink(color)
        return replace(look, fill=color, stroke=mix(color, edge, 0.45), text=ink(color))

    def frame(self, look: Look, key: str | None, theme: Theme) -> Look:
        """*look* for the frame of an open module with this key: a tint close to the paper."""
        if key is None:
            return look
        color, clear = self.colors[key], ink(theme.ink)
        paper = theme.paper if (solid(theme.paper) or "").startswith("#") else clear
        most = MAX_TINT["light" if luminance(paper) > luminance(theme.ink) else "dark"]
        tints = [mix(paper, color, share) for share in SHARES]
        tint = next((item for item in tints if contrast(item, paper) <= most), tints[-1])
        return replace(look, fill=tint, stroke=mix(look.stroke, color, 0.35))


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
        return True, len(recording.within(scope.parent)), scope.cls
    return (False, len(recording.within(op.scope)), op.name) if op is not None else None
