"""Writing: a recording as a Chrome trace, for Perfetto and ``chrome://tracing``.

A recording has the duration and order of ops, scopes and grad nodes, but not their start times. So
they follow each other, and the own time of a scope is distributed evenly between its members.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchrecorder.checks import path_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.files import write_file
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.saved_files import SUFFIXES, packed

FORWARD, BACKWARD = 1, 2
"""The threads of a trace: calls, and grad nodes."""


def write(recording: RecordedRun, path: str | Path) -> Path:
    """Write *recording* as a Chrome trace; see `Recording.to_trace`."""
    target = path_of(path)
    if not target.name.lower().endswith(SUFFIXES):
        raise InvalidArgument(f"a trace is called {' or '.join(SUFFIXES)}, not {target.name!r}")
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": list(events(recording))}) + "\n"
    data = text.encode()
    write_file(target, packed(data) if target.suffix.lower() == ".gz" else data)
    return target


def events(recording: RecordedRun) -> Iterator[dict[str, Any]]:
    """The entries of the trace; raises InvalidArgument if the recording has no times."""
    timeline = _Timeline(recording)
    if not any(timeline.lasting.values()):
        raise InvalidArgument(
            f"this recording of {recording.name} has no times: runs on fake tensors and "
            "files saved with times=False have none"
        )
    yield _named("process_name", 0, recording.name)
    yield _named("thread_name", FORWARD, "calls")
    if recording.grad_runs:
        yield _named("thread_name", BACKWARD, "grad nodes")
    for item in timeline.items:
        begin, lasting = timeline.begin[item.id], timeline.lasting[item.id]
        yield _entry(FORWARD, item.name, begin, lasting, _about(item))
    yield from _backward(recording, timeline)


class _Timeline:
    """The start and duration of each scope and op, in seconds."""

    def __init__(self, recording: RecordedRun) -> None:
        self.children = recording.children
        found: list[Scope | Op] = [*recording.scopes.values(), *recording.ops.values()]
        self.items = sorted(found, key=lambda item: item.index)
        self.lasting: dict[str, float] = {}
        self.begin: dict[str, float] = {}
        for element in reversed(self.items):  # contents come later in run order
            self.lasting[element.id] = max(element.seconds or 0.0, self._inside(element))
        now = 0.0
        for item in self.children[None]:
            self.begin[item.id] = now
            now += self.lasting[item.id]
        for entry in self.items:
            self._place(entry)

    def _inside(self, item: Scope | Op) -> float:
        if isinstance(item, Op):
            return 0.0
        return sum(self.lasting[child.id] for child in self.children.get(item.id, ()))

    def _place(self, item: Scope | Op) -> None:
        """Place the members of *item*, whose own start is known."""
        inner = self.children.get(item.id, ()) if isinstance(item, Scope) else ()
        gap = (self.lasting[item.id] - self._inside(item)) / (len(inner) + 1)
        now = self.begin[item.id] + gap
        for entry in inner:
            self.begin[entry.id] = now
            now += self.lasting[entry.id] + gap


def _backward(recording: RecordedRun, timeline: _Timeline) -> Iterator[dict[str, Any]]:
    """Grad nodes in the order in which they ran, from the beginning of the call on."""
    now = {run.run: timeline.begin.get(run.op, 0.0) for run in recording.backward_runs}
    for ran in sorted(recording.grad_runs, key=lambda run: (run.run, run.order)):
        grad, seconds = recording.grad_nodes[ran.grad], ran.seconds or 0.0
        about = {"id": grad.id, "op": grad.owner or ""}
        yield _entry(BACKWARD, grad.name, now.get(ran.run, 0.0), seconds, about)
        now[ran.run] = now.get(ran.run, 0.0) + seconds


def _about(item: Scope | Op) -> dict[str, str]:
    about: dict[str, str] = {"id": item.id}
    if isinstance(item, Scope):
        about.update(path=item.path, **{"class": item.cls})
    else:
        about["function"] = item.qualname
        for name, text in item.arguments:
            about.setdefault(name, text)
    if item.source is not None:
        about["source"] = item.source.place
    return {name: text for name, text in about.items() if text}


def _entry(
    thread: int, name: str, begin: float, lasting: float, about: dict[str, str]
) -> dict[str, Any]:
    when = {"ts": round(begin * 1e6, 3), "dur": round(lasting * 1e6, 3)}
    return {"ph": "X", "pid": 1, "tid": thread, "name": name, **when, "args": about}


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": thread, "name": what, "args": {"name": name}}
