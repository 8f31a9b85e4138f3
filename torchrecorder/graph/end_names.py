"""End names: the names of inputs and outputs, and their titles in figures."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.events import Slot, ValueId
from torchrecorder.graph.recording import RecordedRun


def end_title(kind: str, name: str) -> str:
    """The title in figures of an ``"input"`` or ``"output"`` with this *name*.

    ``"output"`` without a name, ``"output 1"`` for an index, otherwise the name.
    """
    return f"{kind} {name}" if name[:1].isdigit() else name or kind


def end_names(recording: RecordedRun) -> Iterator[tuple[str, ValueId, tuple[str, ...]]]:
    """Each input and output: the id of its box, its value, and all of its names.

    An output without a name is called ``output``, and ``out`` as in pages, unless a module has
    this name.
    """
    paths = {scope.path for scope in recording.scopes.values()}
    for slot in recording.inputs:
        yield slot.value, slot.value, _names("input", slot, (), paths)
    for place, slot in enumerate(recording.outputs):
        short = () if slot.name else ("out",)
        yield f"out:{place}", slot.value, _names("output", slot, short, paths)


def _names(kind: str, slot: Slot, short: tuple[str, ...], paths: set[str]) -> tuple[str, ...]:
    shown = (end_title(kind, slot.name), *short)
    own = (slot.name,) if slot.name else ()
    return (*own, *(name for name in shown if name != slot.name and name not in paths))
