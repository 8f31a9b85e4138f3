"""The child process that holds Graphviz: DOT texts in, pictures or positions out.

It is started by path, with neither the site packages nor ours on its path, because what it
imports is most of what a small figure costs. It speaks in fields, each a line with the
number of bytes and then the bytes. A job is four fields: layout program, output format,
graph attributes (``name=value`` lines), DOT text. The answer to a job is two: how it went
(``done``, ``failed``, ``large``) and the picture, or what is wrong. Before each job it writes
a form feed to stderr, so that the parent can tell whose complaints follow. The first job that
fails is the last: who asked for it may have another idea.

Started as ``python -I -S child.py FOLDER SECONDS``: where Graphviz' extension module lies,
and when to end even if nobody is left to say so.
"""

from __future__ import annotations

import os
import sys
from typing import Any, BinaryIO

SIDE = 32767
AREA = 500_000_000
"""Pixels of a bitmap: a side that cairo can count, an area that memory can hold."""

_BITMAPS = (b"png", b"jpg", b"jpeg", b"jpe", b"gif")
_PAD = 8.0 / 72
_USUAL_DPI = 96.0


def main(folder: str, seconds: str) -> None:
    """Answer jobs from stdin until it ends."""
    _no_dialogs()
    _end_after(int(seconds))
    graphviz = _binding(folder)
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Graphviz itself prints does not belong into the answers
    while (program := _read_field(jobs)) is not None:
        rest = [_read_field(jobs) or b"" for _ in range(3)]
        os.write(2, b"\f")
        status, picture = _draw(graphviz, program, *rest)
        _write_field(answers, status)
        _write_field(answers, picture)
        answers.flush()
        if status != b"done":
            break
    os._exit(0)  # the work is done: skip the clean-up of a large graph


def _end_after(seconds: int) -> None:
    """End this process after some time, also inside C code, should the parent be gone.

    That is a signal where there are signals, else a thread that needs no Python to run.
    """
    import _signal  # type: ignore[import-not-found]

    if hasattr(_signal, "alarm"):
        _signal.alarm(seconds)
    else:
        import faulthandler

        faulthandler.dump_traceback_later(seconds, exit=True)


def _no_dialogs() -> None:
    """A crash ends the process at once; Windows would ask somebody to close it."""
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

    Each job has a context of its own: one that has met an unknown format is of no use
    afterwards. It comes before the graph, which takes its default labels from it.
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
    plain = _rendered(graphviz, context, graph, b"plain")[1]
    scale, width, height = (float(part) for part in plain.split(None, 4)[1:4])
    dpi = float(graphviz.agget(graph, b"dpi") or 0) or _USUAL_DPI
    across, down = ((side * scale + _PAD) * dpi for side in (width, height))
    if max(across, down) > SIDE or across * down > AREA:
        return b"%d %d" % (across, down)
    return b""


def _read_field(source: BinaryIO) -> bytes | None:
    """The next field; None at the end."""
    size = source.readline()
    return source.read(int(size)) if size else None


def _write_field(target: BinaryIO, field: bytes) -> None:
    """Write what `_read_field` reads."""
    target.write(b"%d\n" % len(field) + field)


if __name__ == "__main__":
    main(*sys.argv[1:])
