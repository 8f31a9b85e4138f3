"""Digraph: a ``graphviz.Digraph`` that is rendered and shown without a ``dot`` program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import graphviz  # type: ignore[import-untyped]

from torchrecorder.export.graphviz import rendered
from torchrecorder.files import write_file


class Digraph(graphviz.Digraph):  # type: ignore[misc]
    """A ``graphviz.Digraph`` that is rendered by the Graphviz inside pygraphviz.

    Everything is inherited: ``node``, ``edge``, ``attr``, ``subgraph``, ``format``, ``engine``,
    ``source``, ``save``, ``render``, ``pipe``, the display in notebooks. Only the functions that
    run the program are replaced; ``render`` and ``pipe`` raise ``LayoutFailed`` if Graphviz failed,
    or did not finish within its time limit.

    Example:
        >>> graph = Digraph("pair")
        >>> graph.edge("a", "b")
        >>> graph.pipe(format="svg", encoding="utf-8").count('class="node"')
        2
    """

    def _get_parameters(self, **given: Any) -> dict[str, Any]:
        """The options of a rendering; raises for those that do not fit each other."""
        found: dict[str, Any] = super()._get_parameters(**given)
        if found["formatter"] is not None and found["renderer"] is None:
            raise graphviz.RequiredArgumentError("formatter given without renderer")
        return found

    def _pipe_lines(
        self, engine: str, format: str, lines: Iterable[str], *, neato_no_op: Any, **given: Any
    ) -> bytes:
        """The rendered graph."""
        program = "nop2" if neato_no_op == 2 else "nop" if neato_no_op else engine
        return rendered("".join(lines), ":".join(_output(format, given)), program)

    def _pipe_lines_string(self, *graph: Any, encoding: str, **given: Any) -> str:
        """The rendered graph as text."""
        return self._pipe_lines(*graph, **given).decode(encoding)

    def _render(
        self, engine: str, format: str, source: str, *, outfile: Path | None,
        raise_if_result_exists: bool, overwrite_filepath: bool, **given: Any,
    ) -> str:
        """Write the rendered graph beside the file of the *source*; returns its path."""
        suffix = ".".join(reversed(_output(format, given)))
        target = os.fspath(outfile) if outfile is not None else f"{source}.{suffix}"
        if os.path.abspath(source) == os.path.abspath(target) and not overwrite_filepath:
            raise ValueError(f"outfile {target!r} is the file of the source; give another name")
        if raise_if_result_exists and os.path.exists(target):
            raise graphviz.FileExistsError(f"output file exists: {target!r}")
        write_file(Path(target), self._pipe_lines(engine, format, self, **given))
        return target


def _output(format: str, given: Mapping[str, str | None]) -> list[str]:
    """The format, and the renderer and the formatter if they are *given*."""
    kinds = format, given["renderer"], given["formatter"]
    return [item for item in kinds if item is not None]
