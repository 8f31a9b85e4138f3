"""Measurements: how long, how large, how well."""

from __future__ import annotations

import resource
from collections.abc import Collection, Sequence
from pathlib import Path

from torchrecorder.checks import guess


def check_names(given: Sequence[str], known: Collection[str]) -> None:
    """End the program, with a message and the exit status 1, if a name is not *known*."""
    for name in given:
        if name not in known:
            close = guess(name, known) or "."
            raise SystemExit(f"unknown name {name!r}{close} Known: {', '.join(known)}")


def resident() -> int:
    """The bytes of memory that this process has now, where the system tells."""
    pages = Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * resource.getpagesize()
