"""The child process that holds Graphviz: DOT texts in, pictures or positions out.

Run by path, with neither torch nor torchrecorder on board, so that it starts in a few
hundredths of a second. It reads one JSON document from standard input, a folder where the
Graphviz binding lies and a list of jobs, and writes for each job one line of JSON with the
length of its result, followed by the result itself.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any


def main() -> None:
    """Do the jobs that standard input asks for."""
    request = json.load(sys.stdin.buffer)
    graphviz = _binding(request["folder"])
    context = graphviz.gvContextWithBuiltins()
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Graphviz itself prints does not belong into the answer
    for job in request["jobs"]:
        result = _run(graphviz, context, job)
        out.write(json.dumps({"length": len(result)}).encode() + b"\n" + result)
        out.flush()
    os._exit(0)  # the work is done: skip the clean-up of a large graph


def _binding(folder: str) -> Any:
    """The compiled part of pygraphviz, without the Python around it."""
    sys.path.insert(0, folder)
    if sys.platform == "win32":
        libraries = os.path.join(os.path.dirname(folder), "pygraphviz.libs")
        if os.path.isdir(libraries):
            os.add_dll_directory(libraries)
    import _graphviz

    return _graphviz


def _run(graphviz: Any, context: Any, job: dict[str, str]) -> bytes:
    with tempfile.TemporaryFile() as file:
        file.write(job["text"].encode())
        file.seek(0)
        graph = graphviz.agread(file, None)
    if graph is None:
        raise SystemExit("Graphviz could not read the graph")
    if graphviz.gvLayout(context, graph, job["program"].encode()):
        raise SystemExit(f"Graphviz could not lay the graph out with {job['program']}")
    code, data, *_ = graphviz.gvRenderData(context, graph, job["format"].encode())
    if code:
        raise SystemExit(f"Graphviz could not write the graph as {job['format']}")
    graphviz.gvFreeLayout(context, graph)
    graphviz.agclose(graph)
    return data if isinstance(data, bytes) else data.encode()


if __name__ == "__main__":
    main()
