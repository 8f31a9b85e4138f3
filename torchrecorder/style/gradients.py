"""Gradients: captions of grad nodes with run order, gradients and times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchrecorder.events import GradId, Gradient
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import GradNode
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style import labels
from torchrecorder.style.figure import Text


class GradCaptions:
    """Texts about the grad nodes of one recording."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self.runs = grouped((ran.grad, ran) for ran in recording.grad_runs)
        self.several = len({ran.run for ran in recording.grad_runs}) > 1

    def lines(self, grad: GradNode, members: Iterable[str]) -> Iterator[Text]:
        """The name, and the place in run order; for a fold, the first to the last of *members*."""
        yield Text(grad.name, "title")
        found = (ran for member in members for ran in self.runs.get(GradId(member), ()))
        runs = [
            f"run {ran.run + 1} " * self.several + f"no. {ran.order + 1}"
            for ran in sorted(found, key=lambda ran: (ran.run, ran.order))
        ]
        if runs:
            text = ", ".join(runs) if len(runs) < 3 else f"{runs[0]} … {runs[-1]}"
            yield Text(text if self.several else f"ran as {text}")
        elif self.recording.grad_runs:
            yield Text("did not run")
        if grad.made_by is not None:
            yield Text("double backward")

    def tooltip(self, grad: GradNode) -> Iterator[str]:
        """Everything known about it, line by line."""
        owner = self.recording.ops.get(grad.owner) if grad.owner is not None else None
        yield f"{grad.name}, made by {owner.name}" if owner is not None else grad.name
        if grad.made_by is not None:
            maker = self.recording.grad_nodes.get(grad.made_by)  # not in each part of a recording
            yield f"in the backward of {maker.name}" if maker is not None else "in a backward pass"
        for ran in self.runs.get(grad.id, ()):
            failed = ", failed" if ran.failed else ""
            yield f"backward run {ran.run + 1}: no. {ran.order + 1}{failed}"
            yield f"given: {_forms(ran.given)}"
            if ran.gave:
                yield f"gave: {_forms(ran.gave)}"
        if owner is not None and owner.source is not None:
            yield labels.source(owner.source)


def _forms(gradients: tuple[Gradient | None, ...]) -> str:
    texts = ("none" if item is None else labels.form(item) for item in gradients)
    return labels.shorten(", ".join(texts), 200)
