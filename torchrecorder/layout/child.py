"""Child: the process that runs Graphviz. It reads DOT texts, and writes pictures or positions.

It is started by path, without site packages, because imports are most of the cost of a small
figure. Messages consist of fields: a line with the number of bytes, then the bytes. A job has four
fields: layout program, output format, graph attributes (``name=value`` lines), DOT text. The answer
has two: the status (``done``, ``failed``, ``large``) and the picture or error message. Before each
job it writes a form feed to stderr, so that the parent can assign messages to jobs. It stops after
the first job that fails: the parent may retry it with other settings.

Started as ``python -I -S child.py FOLDER SECONDS``, with the folder of Graphviz' extension module
and the time after which it exits even without its parent.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

SIDE = 32767
AREA = 500_000_000
"""Limits of a bitmap in pixels: the side (cairo) and the area (memory)."""

_BITMAPS = (b"png", b"jpg", b"jpeg", b"jpe", b"gif")
_PAD = 8.0 / 72
_USUAL_DPI = 96.0


def main(folder: str, seconds: str) -> None:
    """Answer jobs from stdin until it ends."""
    _no_dialogs()
    _end_after(int(seconds))
    graphviz = _binding(folder)
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of Graphviz must not mix with the answers
    while (program := _read_field(jobs)) is not None:
        rest = [_read_field(jobs) or b"" for _ in range(3)]
        os.write(2, b"\f")
        status, picture = _draw(graphviz, program, *rest)
        _write_field(answers, status)
        _write_field(answers, picture)
        answers.flush()
        if status != b"done":
            break
    os._exit(0)  # skip the clean-up of a large graph


def _end_after(seconds: int) -> None:
    """Exit after some time, also inside C code, in case the parent no longer exists.

    This uses a signal if available, otherwise a thread that works without the GIL.
    """
    import _signal  # type: ignore[import-not-found]

    if hasattr(_signal, "alarm"):
        _signal.alarm(seconds)
    else:
        import faulthandler

        faulthandler.dump_traceback_later(seconds, exit=True)


def _no_dialogs() -> None:
    """Let a crash end the process at once, without a dialog on Windows."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.SetErrorMode(msvcrt.SEM_FAILCRITICALERRORS | msvcrt.SEM_NOGPFAULTERRORBOX)


def _binding(folder: str) -> Any:
    """The compiled part of pygraphviz, without the Python around it."""
    sys.path.insert(0, folder)
    if sys.platform == "win32":
        for libraries in (os.path.join(os.path.dirname(folder), "pygraphviz.libs"), folder):
            if os.path.isdir(libraries):
                os.add_dll_directory(libraries)
    import _graphviz  # type: ignore[import-not-found]

    return _graphviz


def _draw(
    graphviz: Any, program: bytes, fmt: bytes, attributes: bytes, text: bytes
) -> tuple[bytes, bytes]:
    """Lay one graph out and write it.

    Each job has its own context, because an unknown format makes a context unusable. It is created
    before the graph, which gets default labels from it.
    """
    context = graphviz.gvContextWithBuiltins()
    try:
        graph = _parse(graphviz, text)
    except ValueError:
        return b"failed", b"the DOT text cannot be read"
    for line in attributes.splitlines():
        graphviz.agattr(graph, graphviz.AGRAPH, *line.split(b"=", 1))
    if graphviz.gvLayout(context, graph, program) != 0:
        return b"failed", b"no layout was found"
    too_large = _too_large(graphviz, context, graph) if fmt.startswith(_BITMAPS) else b""
    if too_large:
        return b"large", too_large
    status, picture = _rendered(graphviz, context, graph, fmt)
    graphviz.gvFreeLayout(context, graph)
    graphviz.agclose(graph)
    graphviz.gvFreeContext(context)
    return (b"failed", b"the format cannot be written") if status else (b"done", picture)


def _parse(graphviz: Any, text: bytes) -> Any:
    """The graph in *text*; the binding reads only from real files."""
    with _scratch_file() as file:
        file.write(text)
        file.seek(0)
        return graphviz.agread(file, None)


def _scratch_file() -> BinaryIO:
    """An empty file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("dot"), "rb+", buffering=0)
    import tempfile

    return tempfile.TemporaryFile("rb+", buffering=0)


def _rendered(graphviz: Any, context: Any, graph: Any, fmt: bytes) -> tuple[int, bytes]:
    """Status and picture; the binding gives a bare status when there is no picture."""
    answer = graphviz.gvRenderData(context, graph, fmt)
    return (answer[0], answer[1]) if isinstance(answer, list) else (answer or 1, b"")


def _too_large(graphviz: Any, context: Any, graph: Any) -> bytes:
    """``width height`` in pixels if a bitmap of *graph* would be too large, else nothing."""
    try:  # on a page, whose size is given
        page = (graphviz.agget(graph, b"viewport") or b"").split(b",")[:2]
        width, height = (float(side) / 72 for side in page)
    except ValueError:
        plain = _rendered(graphviz, context, graph, b"plain")[1]
        scale, *sides = (float(part) for part in plain.split(None, 4)[1:4])
        width, height = (side * scale + _PAD for side in sides)
    dpi = float(graphviz.agget(graph, b"dpi") or 0) or _USUAL_DPI
    across, down = width * dpi, height * dpi
    if max(across, down) > SIDE or across * down > AREA:
        return b"%d %d" % (across, down)
    return b""


def _read_field(source: BinaryIO) -> bytes | None:
    """The next field; None at the end."""
    size = source.readline()
    return source.read(int(size)) if size else None


def _write_field(target: BinaryIO, field: bytes) -> None:
    """Write a field for `_read_field`."""
    target.write(b"%d\n" % len(field) + field)


if __name__ == "__main__":
    main(*sys.argv[1:])
