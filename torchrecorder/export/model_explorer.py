"""Model Explorer: a graph as JSON for this viewer, and numbers to show on it.

The viewer opens and closes scopes itself, so the file has every op, independent of the view. It
nests by ``namespace``, a path of labels with slashes. It silently ignores arrows from unknown
sources, and its attributes are strings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Union

from torchrecorder.annotations import numbers_of
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.flat import printable
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.style import labels
from torchrecorder.style.captions import Captions
from torchrecorder.style.figure import title_of
from torchrecorder.style.style import Style
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tensors import results
from torchrecorder.views.view import Arrow, Box, View

COLD, HOT = "#ffffff", "#e4572e"
"""Colors of the smallest and the largest number."""


@dataclass(frozen=True)
class ModelExplorer:
    """A file that Model Explorer opens: every op, nested by the modules around it."""

    suffix: ClassVar[str] = ".explorer.json"

    def export(self, view: View, style: Style) -> str:
        graph = _ViewWriter(_everything(view.recording), style).graph()
        return _json({"label": view.recording.name, "graphs": [graph]})


@dataclass(frozen=True)
class ExplorerData:
    """Numbers that Model Explorer shows on the graph of the same recording.

    Attributes:
        annotation: The annotation, itself or by name.
    """

    suffix: ClassVar[str] = ".explorer-data.json"
    annotation: Union[str, Annotation] = "output_bytes"

    def export(self, view: View, style: Style) -> str:
        numbers = numbers_of(view.recording, self.annotation)
        annotation = numbers.annotation
        boxes = _everything(view.recording).boxes.values()
        found = {box.id: numbers.of(box.members) for box in boxes}
        unit = f" ({annotation.unit})" if annotation.unit else ""
        data = {
            "name": annotation.title + unit,
            "results": {
                box: {"value": number}
                for box, number in found.items()
                if number is not None and isfinite(number)
            },
            "gradient": [{"stop": 0, "bgColor": COLD}, {"stop": 1, "bgColor": HOT}],
        }
        return _json({view.recording.name: data})


def _everything(recording: RecordedRun) -> View:
    options = ViewOptions(depth=max_depth(recording), parameters=True, fold=False)
    return make_view(recording, options)


class _ViewWriter:
    """Writes the boxes of one view."""

    def __init__(self, view: View, style: Style) -> None:
        self.view = view
        self.style = style
        self.recording = view.recording
        self.captions = Captions(view, style)
        self.weights = PARAMETERS.on(view.recording)
        self.spaces = dict(self._namespaces())
        self.into = grouped((arrow.head, arrow) for arrow in view.arrows)

    def graph(self) -> dict[str, Any]:
        """All boxes, and the facts about each namespace for the side panel."""
        attributes = {
            self.spaces[cluster]: self._scope(self.recording.scopes[ScopeId(cluster)])
            for cluster in self.view.clusters
            if cluster in self.recording.scopes
        }
        return {
            "id": self.recording.name,
            "nodes": [self._node(box) for box in self.view.boxes.values()],
            "groupNodeAttributes": attributes,
            "layoutConfigs": {"keepLayersWithASingleChild": True},
        }

    def _namespaces(self) -> Iterator[tuple[str, str]]:
        """The path of each cluster, itself included; equal siblings get a number."""
        spaces: dict[str | None, str] = {None: ""}
        taken: Counter[str] = Counter()
        for cluster in self.view.clusters.values():
            title = title_of(self.captions.cluster(cluster)).replace("/", "∕") or cluster.id
            path = f"{spaces[cluster.parent]}/{title}".lstrip("/")
            taken[path] += 1
            if taken[path] > 1:
                path = f"{path} ({taken[path]})"
            spaces[cluster.id] = path
            yield cluster.id, path

    def _node(self, box: Box) -> dict[str, Any]:
        arrows = self.into.get(box.id, [])
        look = self.style.look(box, self.view)
        return {
            "id": box.id,
            "label": title_of(self.captions.box(box)),
            "namespace": self.spaces[box.cluster] if box.cluster is not None else "",
            "attrs": _pairs(self._about(box)),
            "incomingEdges": [
                {
                    "sourceNodeId": arrow.tail,
                    "sourceNodeOutputId": self._output(arrow),
                    "targetNodeInputId": str(number),
                }
                for number, arrow in enumerate(arrows)
            ],
            "inputsMetadata": [
                {"id": str(number), "attrs": _pairs({"__tensor_tag": arrow.slot})}
                for number, arrow in enumerate(arrows)
            ],
            "outputsMetadata": [
                {"id": str(number), "attrs": _pairs(self._tensor(value))}
                for number, value in enumerate(self._outputs(box.id))
            ],
            "style": {"backgroundColor": look.fill, "borderColor": look.stroke},
        }

    def _outputs(self, box: str) -> Sequence[ValueId]:
        """The values that leave a box, in the order of its results."""
        return (ValueId(box),) if box in self.recording.values else results(self.recording, box)

    def _output(self, arrow: Arrow) -> str:
        """The index of the result of its tail that an arrow carries, as text."""
        outputs = list(self._outputs(arrow.tail))
        return str(outputs.index(arrow.value)) if arrow.value in outputs else "0"

    def _tensor(self, value: ValueId) -> dict[str, str]:
        seen = self.recording.values[value]
        return {
            "tensor_name": ", ".join(seen.names) or value,
            "tensor_shape": f"{seen.dtype}[{', '.join(map(str, seen.shape))}]",
            "device": seen.device,
            "bytes": str(seen.bytes),
        }

    def _about(self, box: Box) -> dict[str, str]:
        step = step_of(self.recording, box.id)
        if isinstance(step, Op):
            source = labels.source(step.source)
            return {"function": step.qualname, **dict(step.arguments), "source": source}
        if step is not None:
            return self._scope(step)
        value = self.recording.values.get(ValueId(box.id))
        return {"kind": box.kind.value, **(self._tensor(value.id) if value is not None else {})}

    def _scope(self, scope: Scope) -> dict[str, str]:
        module = self.recording.module_of(scope)
        return {
            "path": scope.path,
            "class": module.qualname if module is not None else scope.cls,
            "details": module.detail if module is not None else "",
            "parameters": self.weights.text((scope.id,)),
            "source": labels.source(scope.source),
        }


def _pairs(texts: Mapping[str, str]) -> list[dict[str, str]]:
    """The non-empty texts, as lines of the side panel."""
    return [{"key": key, "value": text} for key, text in texts.items() if text]


def _json(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return printable(text) + "\n"
