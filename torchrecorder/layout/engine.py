"""Engine: runs Graphviz, from DOT texts to pictures or positions. No other file starts it.

Graphviz is part of the wheel of pygraphviz; no ``dot`` program is needed. It runs in a short-lived
child process, so that a crash or an endless layout causes an error after a time limit and does not
affect the user's process. One child runs any number of jobs. A job that crashes or exceeds its
share of the time is retried with cheaper settings; finished jobs keep their results.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchrecorder.errors import LayoutFailed
from torchrecorder.layout import fonts
from torchrecorder.layout.child import AREA, SIDE

TIMEOUT = 60.0
"""Default time limit of all layouts of one call together, in seconds."""

EFFORTS: tuple[Mapping[str, str], ...] = (
    {},
    {"nslimit": "1", "nslimit1": "1", "mclimit": "0.2", "splines": "line"},
    {"nslimit": "0.2", "nslimit1": "1", "mclimit": "0.05", "splines": "line"},
)
"""Graph attributes of the first, second and last try: cheaper each time."""

WHEELS = (
    "pygraphviz, which brings Graphviz along, is not installed: pip install 'pygraphviz>=2.0'. "
    "There are wheels for Linux with glibc (x86_64, aarch64), macOS and Windows (x64); elsewhere, "
    "such as on Alpine Linux or Windows on ARM, pip builds it against the headers of Graphviz, "
    "which have to be installed before. "
)
"""The beginning of the error message if Graphviz is not installed."""

LIBRARIES = (
    "Graphviz, which is part of the package pygraphviz, cannot be loaded: {}. It needs system "
    "libraries that small containers lack. On Debian and Ubuntu: apt-get install libglib2.0-0 "
    "libexpat1 libxext6 libxrender1. "
)
"""The beginning of the error message if a library that Graphviz needs is missing."""

WITHOUT = (
    "Without it, .svg is written with layout=\"nested\" (the default), and .html, .dot, .json and "
    "all other formats but .pdf and .png as usual"
)

_missing: list[str] = []
"""Why Graphviz cannot be loaded, once this is known."""

_CHILD = Path(__file__).with_name("child.py")
_GRACE = 5
_CRASHED_ON_WINDOWS = 0xC0000000
"""The lowest exit code of a process that Windows ended, as 0xC0000005: access violation."""

_ABORTED_ON_WINDOWS = 3
"""The exit code of ``abort()`` there; elsewhere it is a signal."""

_ADVICE = (
    "Ask for a smaller figure: a smaller depth, fewer boxes (parameters=False, "
    'reshapes=False), one part of the model (focus="name"), layout="nested", or more time '
    "(timeout=...)"
)


@dataclass(frozen=True)
class Job:
    """One graph to lay out."""

    text: str  # the graph in the DOT language
    # the output format of Graphviz: ``"svg"``, ``"pdf"``, ``"png"``, ``"json"``
    format: str = "svg"
    program: str = "dot"  # the layout program, ``"dot"`` or ``"neato"`` and the like
    # graph attributes set on top of those in the text, ``{"dpi": "144"}``
    attributes: Mapping[str, str] = field(default_factory=dict)


def run(
    text: str,
    format: str = "svg",
    *,
    program: str = "dot",
    timeout: float = TIMEOUT,
    attributes: Mapping[str, str] | None = None,
) -> bytes:
    """Lay out one graph and write it.

    Args:
        text: The graph in the DOT language.
        format: Any output format of Graphviz.
        program: The layout program.
        timeout: Seconds for all tries together.
        attributes: Graph attributes set on top of those in the text.

    Raises:
        LayoutFailed: Every try crashed or ran out of time, or the text or the format is
            not Graphviz'; the message has advice.

    Example:
        >>> run("digraph { a -> b }", "svg").count(b'class="node"')
        2
    """
    return run_many([Job(text, format, program, attributes or {})], timeout=timeout)[0]


def run_many(jobs: Sequence[Job], *, timeout: float = TIMEOUT) -> list[bytes]:
    """Lay out many graphs, in one child process unless one of them breaks it.

    Args:
        jobs: The graphs.
        timeout: Seconds for all of them together.

    Raises:
        LayoutFailed: See `run`.
    """
    deadline = time.monotonic() + timeout
    pictures: list[bytes] = []
    effort = 0
    while len(pictures) < len(jobs):
        share = max(deadline - time.monotonic(), 1.0) / (len(EFFORTS) - effort)
        done, trouble = _attempt(jobs[len(pictures) :], EFFORTS[effort], share)
        pictures += done
        effort = 1 if done else effort + 1
        late = effort == len(EFFORTS) or time.monotonic() > deadline
        if trouble is not None and trouble.final:
            raise trouble
        if trouble is not None and late:
            message = f"{trouble} (limit: {timeout:g} s for everything). {_ADVICE}."
            raise LayoutFailed(message)
    return pictures


def _attempt(
    jobs: Sequence[Job], cheaper: Mapping[str, str], limit: float
) -> tuple[list[bytes], LayoutFailed | None]:
    """Run *jobs* up to the first failure; *cheaper* is the effort for the first of them."""
    request = b"".join(_request(jobs, cheaper))
    python = sys.executable or "python"  # programs that embed Python may have none
    command = [python, "-I", "-S", str(_CHILD), require(), str(int(limit) + _GRACE)]
    try:
        with fonts.environment() as variables:
            code, answer, text = _spoken_to(command, request, variables, limit)
    except OSError as error:
        message = f"no child process can be started for Graphviz: {error}"
        return [], LayoutFailed(message, final=True)
    fields = _fields(answer)
    pairs = list(zip(fields, fields))
    pictures = [content for status, content in pairs if status == b"done"]
    if len(pictures) == len(jobs):
        return pictures, None
    refused = len(pictures) < len(pairs)  # the last job that was tried
    return pictures, _refusal(*pairs[-1], text) if refused else _breakdown(code, text)


def _request(jobs: Sequence[Job], cheaper: Mapping[str, str]) -> Iterator[bytes]:
    """The input of the child: four fields for each job."""
    for number, job in enumerate(jobs):
        attributes = {**job.attributes, **(cheaper if number == 0 else {})}
        settings = "\n".join(f"{name}={value}" for name, value in attributes.items())
        for text in (job.program, job.format, settings, job.text):
            data = text.encode(errors="replace")
            yield b"%d\n" % len(data)
            yield data


def _spoken_to(
    command: list[str], request: bytes, variables: Mapping[str, str], limit: float
) -> tuple[int | None, bytes, str]:
    """Exit code (None after a timeout), answer, and messages about the last job."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),  # of Windows alone
    ) as child:
        code: int | None = None
        try:
            answer, text = child.communicate(request, timeout=limit)
            code = child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            answer, text = child.communicate()
        except BaseException:
            child.kill()
            raise
    return code, answer, text.decode(errors="replace").rpartition("\f")[2]


def _fields(answer: bytes) -> Iterator[bytes]:
    """The fields of an answer, as far as the child wrote them."""
    position = 0
    while (end := answer.find(b"\n", position)) >= 0:
        start, position = end + 1, end + 1 + int(answer[position:end])
        if position > len(answer):
            return
        yield answer[start:position]


def _refusal(status: bytes, content: bytes, text: str) -> LayoutFailed:
    """The error that the child reports for a job."""
    if status == b"large":
        return _too_large(*map(int, content.split()))
    mistaken = any(word in text for word in ("syntax error", "not recognized"))
    return LayoutFailed(f"Graphviz: {_complaint(text) or content.decode()}", final=mistaken)


def _too_large(width: int, height: int) -> LayoutFailed:
    fitting = min(SIDE / max(width, height), (AREA / (width * height)) ** 0.5)
    return LayoutFailed(
        f"the PNG would have {width} × {height} pixels; the limit is {SIDE} per side and "
        f"{AREA // 1_000_000} million in total. Write .svg or .pdf, which have no such limit, "
        f"lower depth=, or use at most {fitting:.0%} of this dpi",
        final=True,
    )


def _breakdown(code: int | None, text: str) -> LayoutFailed:
    """The error of a child that gave no answer."""
    if code is None:
        return LayoutFailed("Graphviz did not finish in time, even with faster settings")
    crash = _crash(code)
    if crash is not None:
        return LayoutFailed(f"Graphviz crashed ({crash}) {_complaint(text)}".strip())
    last = text.strip().splitlines()[-1:] or ["it said nothing"]
    if last[0].startswith("ImportError: "):
        _missing.append(last[0].partition(" ")[2])
        return _unloadable()
    return LayoutFailed(f"Graphviz did not work in its child process: {last[0]}", final=True)


def _crash(code: int) -> str | None:
    """A description of how the process crashed; None if it exited normally."""
    if code < 0:
        return f"signal {-code}"
    if code >= _CRASHED_ON_WINDOWS or (sys.platform == "win32" and code == _ABORTED_ON_WINDOWS):
        return f"exit code {code:#x}"
    return None


def _complaint(text: str) -> str:
    """The error messages of Graphviz, without warnings."""
    lines = [line.strip() for line in text.splitlines()]
    return "; ".join(line for line in lines if line.startswith("Error"))[:500]


def available() -> bool:
    """Whether Graphviz is installed, as far as is known. Some platforms have no wheel. Some
    machines lack a library that it needs, which is found out at its first use."""
    return _installed() is not None and not _missing


def _installed() -> str | None:
    """The path of the compiled part of pygraphviz, or None."""
    found = importlib.util.find_spec("pygraphviz")
    return next(iter(found.submodule_search_locations or ()), None) if found else None


def require() -> str:
    """The path of the compiled part of pygraphviz.

    Raises:
        LayoutFailed: It is not installed, or cannot be loaded; the message says what to install.
    """
    folder = _installed()
    if folder is None:
        raise LayoutFailed(WHEELS + WITHOUT, final=True)
    if _missing:
        raise _unloadable()
    return folder


def _unloadable() -> LayoutFailed:
    """The error if a system library that Graphviz needs is missing."""
    return LayoutFailed(LIBRARIES.format(_missing[0]) + WITHOUT, final=True)
