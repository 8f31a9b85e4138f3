"""Notes on the user's exceptions: where in the model they happened."""

from __future__ import annotations

from collections.abc import Sequence

from torchrecorder.events import Event, OpCalled, RunFailed, ScopeEntered, ValueSeen

_ATTRIBUTE = "torchrecorder_recorder"


def explain(error: BaseException, failure: RunFailed, events: Sequence[Event]) -> None:
    """Attach a note to *error* that says where in the model it came up."""
    note = describe(failure, events)
    if note and hasattr(error, "add_note"):
        error.add_note(note)
    elif note:  # Python 3.10 shows no notes, but later tools find them here
        error.__notes__ = [*getattr(error, "__notes__", ()), note]  # type: ignore[attr-defined]


def describe(failure: RunFailed, events: Sequence[Event]) -> str:
    """*while running `encoder.layer.3` (Attention), op `matmul` at model.py:57, inputs ...*"""
    scope = op = None
    shapes = {}
    for event in events:
        if isinstance(event, ScopeEntered) and event.scope == failure.scope:
            scope = event
        elif isinstance(event, OpCalled) and event.op == failure.op:
            op = event
        elif isinstance(event, ValueSeen):
            shapes[event.value] = f"{event.dtype}{list(event.shape)}"
    if scope is None and op is None:
        return ""
    parts = []
    if scope is not None:
        parts.append(f"`{scope.path or scope.name}` ({scope.cls})")
    if op is not None:
        parts.append(f"op `{op.name}`")
    source = op.source if op is not None else scope.source if scope is not None else None
    if source is not None:
        parts.append(f"at {source.file}:{source.line}")
    if op is not None and op.inputs:
        listed = ", ".join(f"{slot.name} {shapes.get(slot.value, '')}" for slot in op.inputs)
        parts.append(f"inputs {listed}")
    return "torchrecorder: while running " + ", ".join(parts)
