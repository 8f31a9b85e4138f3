"""Reading: the slices in a Chrome trace that a profiler has saved."""

from __future__ import annotations

import errno
import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchrecorder.checks import path_of
from torchrecorder.errors import InvalidArgument
from torchrecorder.graph.mappings import grouped
from torchrecorder.trace.slices import Kernel, Slice, enclosing

ON_CPU = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "xpu_runtime")
"""Categories of events on a thread of the CPU."""

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of events on a device."""

MEMORY = "[memory]"

DIGITS = 3
"""Of times in microseconds, which have nanoseconds: a sum of two is one of those again."""


def slices_in(path: str | Path) -> list[Slice]:
    """The slices of the trace in a file, compressed or not.

    Raises:
        InvalidArgument: The file is not a Chrome trace.
        OSError: It cannot be read.
    """
    target = path_of(path)
    if not target.exists():
        hint = "no such trace; give the file that prof.export_chrome_trace(path) has written"
        raise FileNotFoundError(errno.ENOENT, hint, str(target))
    found = _events(target.read_bytes(), target.name)
    on_cpu = [item for item in found if item.get("ph") == "X" and item.get("cat") in ON_CPU]
    memory = [item for item in found if item.get("name") == MEMORY]
    on_device = [item for item in found if item.get("ph") == "X" and item.get("cat") in ON_DEVICE]
    try:
        slices = [_slice(item) for item in on_cpu]
        slices = _with_kernels(slices, on_cpu, on_device)
        return _with_memory(slices, memory)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"{target.name} is not a trace of torch.profiler: {error!r}"
        ) from None


def _events(data: bytes, name: str) -> list[dict[str, Any]]:
    try:
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        found = json.loads(text)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError) as error:
        raise InvalidArgument(f"{name} is not a Chrome trace: {error}") from None
    events = found.get("traceEvents") if isinstance(found, dict) else found
    if not isinstance(events, list):
        raise InvalidArgument(f"{name} is not a Chrome trace: it has no list of traceEvents")
    return [event for event in events if isinstance(event, dict)]


def _slice(event: Mapping[str, Any]) -> Slice:
    begin = round(float(event["ts"]), DIGITS)
    return Slice(
        name=str(event["name"]),
        begin=begin,
        end=round(begin + float(event.get("dur", 0)), DIGITS),
        thread=(event.get("pid"), event.get("tid")),
    )


def _with_kernels(
    slices: list[Slice], events: list[dict[str, Any]], on_device: Iterable[Mapping[str, Any]]
) -> list[Slice]:
    """Assign kernels to the call that launched them, otherwise to their operator."""
    calls: dict[Any, int] = {}
    operators: dict[Any, int] = {}
    for place, event in enumerate(events):
        arguments = event.get("args", {})
        if event["cat"] == "cpu_op":
            operators.setdefault(arguments.get("External id"), place)
        elif "correlation" in arguments:
            calls.setdefault(arguments["correlation"], place)
    launched: dict[int, list[Kernel]] = {}
    for ran in on_device:
        arguments = ran.get("args", {})
        seconds = float(ran.get("dur", 0)) / 1e6
        call = calls.get(arguments.get("correlation"))
        place = call if call is not None else operators.get(arguments.get("External id"), -1)
        gap = None
        if call is not None:
            gap = max(float(ran["ts"]) - slices[call].begin, 0.0) / 1e6
        if place >= 0:
            launched.setdefault(place, []).append(Kernel(str(ran["name"]), seconds, gap))
    return [
        replace(slice_, kernels=tuple(launched[place])) if place in launched else slice_
        for place, slice_ in enumerate(slices)
    ]


def _with_memory(slices: list[Slice], memory: Iterable[Mapping[str, Any]]) -> list[Slice]:
    """Assign allocations and releases to the innermost slice around them."""
    order = sorted(range(len(slices)), key=lambda at: (slices[at].begin, -slices[at].end))
    threads = grouped((slices[place].thread, place) for place in order)
    begins = {
        thread: [slices[place].begin for place in places] for thread, places in threads.items()
    }
    around = {
        thread: list(enclosing([slices[place] for place in places]))
        for thread, places in threads.items()
    }
    net: dict[int, float] = {}
    for event in memory:
        thread, when = (event.get("pid"), event.get("tid")), float(event["ts"])
        number = bisect_right(begins.get(thread, []), when) - 1
        while number >= 0 and slices[threads[thread][number]].end < when:
            number = around[thread][number]
        if number >= 0:
            place = threads[thread][number]
            net[place] = net.get(place, 0.0) + float(event.get("args", {})["Bytes"])
    return [
        replace(slice_, allocated=max(net[place], 0.0), freed=max(-net[place], 0.0))
        if place in net
        else slice_
        for place, slice_ in enumerate(slices)
    ]
