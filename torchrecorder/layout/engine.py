"""Run Graphviz: DOT texts -> pictures or positions; the only file that starts it.

Graphviz comes inside the wheel of pygraphviz; no ``dot`` program is needed. It works in a
short-lived child process, so that a crash or an endless layout costs an error after a time
limit and not the user's session. One child does any number of jobs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchrecorder.errors import LayoutFailed

TIMEOUT = 60.0
"""Seconds that all layouts of one call may take together, unless told otherwise."""

_CHILD = Path(__file__).with_name("child.py")
_CHEAP = "nslimit=1; nslimit1=1; mclimit=0.2; splines=line;"
_ADVICE = (
    "Ask for a smaller figure: a smaller depth, fewer boxes (parameters=False, "
    'reshapes=False), one part of the model (focus="name"), layout="nested", or more time '
    "(timeout=...)."
)


@dataclass(frozen=True)
class Job:
    """One graph to lay out.

    Attributes:
        text: The graph in the DOT language.
        format: What Graphviz is to write: ``"svg"``, ``"pdf"``, ``"png"``, ``"json"`` ...
        program: The layout program, ``"dot"`` or ``"neato"`` and the like.
    """

    text: str
    format: str = "svg"
    program: str = "dot"


def run(text: str, format: str = "svg", *, program: str = "dot", timeout: float = TIMEOUT) -> bytes:
    """Lay out one graph; a second try with cheaper settings if the first one fails.

    Args:
        text: The graph in the DOT language.
        format: What to write.
        program: The layout program.
        timeout: Seconds for both tries together.

    Raises:
        LayoutFailed: Both tries crashed or ran out of time; the message says what to do.
    """
    started = time.monotonic()
    try:
        return run_many([Job(text, format, program)], timeout=timeout / 2)[0]
    except LayoutFailed as error:
        if error.final:
            raise
    left = timeout - (time.monotonic() - started)
    return run_many([Job(cheaper(text), format, program)], timeout=max(left, 1.0))[0]


def cheaper(text: str) -> str:
    """The same graph with settings that trade beauty for time."""
    opened = re.search(r"\{", text)
    if opened is None:
        return text
    return f"{text[: opened.end()]}\n\t{_CHEAP}{text[opened.end() :]}"


def run_many(jobs: Sequence[Job], *, timeout: float = TIMEOUT) -> list[bytes]:
    """Lay out many graphs in one child process.

    Raises:
        LayoutFailed: One of them crashed Graphviz, or the time ran out.
    """
    request = {"folder": _binding(), "jobs": [vars(job) for job in jobs]}
    command = [sys.executable, "-I", "-S", str(_CHILD)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
    except subprocess.TimeoutExpired:
        raise LayoutFailed(
            f"Graphviz did not finish within {timeout:.0f} seconds. {_ADVICE}"
        ) from None
    results = _split(done.stdout)
    if len(results) < len(jobs):
        raise _failure(done.returncode, done.stderr.decode(errors="replace"))
    return results


def _split(answer: bytes) -> list[bytes]:
    """The results in what the child wrote; fewer than jobs if it broke off."""
    results = []
    position = 0
    while position < len(answer):
        end = answer.find(b"\n", position)
        if end < 0:
            break
        length = int(json.loads(answer[position:end])["length"])
        results.append(answer[end + 1 : end + 1 + length])
        position = end + 1 + length
    return results


def _failure(code: int, said: str) -> LayoutFailed:
    lines = [line for line in said.splitlines() if line and "Fontconfig" not in line]
    told = [line for line in lines if line.startswith(("Error", "Graphviz")) or "Error:" in line]
    reason = (told or lines or ["it said nothing"])[-1].strip()
    if code < 0:
        return LayoutFailed(f"Graphviz crashed (signal {-code}): {reason}. {_ADVICE}")
    mistaken = "syntax error" in said or "bad input" in said
    return LayoutFailed(f"Graphviz failed: {reason}. {_ADVICE}", final=mistaken)


def _binding() -> str:
    """The folder of pygraphviz's compiled part."""
    spec = importlib.util.find_spec("pygraphviz")
    if spec is None or not spec.submodule_search_locations:
        raise LayoutFailed(
            "pygraphviz is not installed; it brings Graphviz along: pip install pygraphviz",
            final=True,
        )
    return str(spec.submodule_search_locations[0])
