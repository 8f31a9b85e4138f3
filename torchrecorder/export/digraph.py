"""Digraph: a ``graphviz.Digraph`` that is rendered and shown without a ``dot`` program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Union

import graphviz  # type: ignore[import-untyped]

from torchrecorder.export.exporter import write_file
from torchrecorder.export.graphviz import rendered

PathLike = Union[str, "os.PathLike[str]"]


class Digraph(graphviz.Digraph):  # type: ignore[misc]
    """A ``graphviz.Digraph`` that is rendered by the Graphviz inside pygraphviz.

    Everything else is as it was: ``node``, ``edge``, ``attr``, ``subgraph``, ``format``,
    ``engine``, ``source``, ``save``, the display in notebooks.

    Example:
        >>> graph = Digraph("pair")
        >>> graph.edge("a", "b")
        >>> graph.pipe(format="svg", encoding="utf-8").count('class="node"')
        2
    """

    def render(
        self,
        filename: PathLike | None = None,
        directory: PathLike | None = None,
        view: bool = False,
        cleanup: bool = False,
        format: str | None = None,
        renderer: str | None = None,
        formatter: str | None = None,
        neato_no_op: bool | int | None = None,
        quiet: bool = False,
        quiet_view: bool = False,
        *,
        outfile: PathLike | None = None,
        engine: str | None = None,
        raise_if_result_exists: bool = False,
        overwrite_source: bool = False,
    ) -> str:
        """Save the source and the rendered graph beside it.

        All arguments mean what they mean to ``graphviz.Digraph.render``.

        Returns:
            The path of the rendered file.

        Raises:
            ValueError: The format is unknown, or *outfile* is the file of the source.
            graphviz.FileExistsError: The file is there and *raise_if_result_exists*.
            LayoutFailed: Graphviz failed, or did not finish within its time limit.
        """
        if outfile is not None:
            outfile = Path(outfile) if directory is not None else Path(self.directory, outfile)
            format = format or outfile.suffix[1:].lower() or None
            filename = filename or outfile.with_suffix(".gv")
        format = format or self.format
        graphviz.parameters.verify_format(format)
        source = self.save(filename, directory=directory)
        kinds = [each for each in (formatter, renderer, format) if each]
        target = os.fspath(outfile) if outfile is not None else ".".join([source, *kinds])
        _refuse(source, target, overwrite_source, raise_if_result_exists)
        data = self.pipe(format, renderer, formatter, neato_no_op, quiet, engine=engine)
        write_file(Path(target), data)
        if cleanup:
            os.remove(source)
        if view or quiet_view:
            self._view(target, format=format, quiet=quiet_view)
        return target

    def pipe(
        self,
        format: str | None = None,
        renderer: str | None = None,
        formatter: str | None = None,
        neato_no_op: bool | int | None = None,
        quiet: bool = False,
        *,
        engine: str | None = None,
        encoding: str | None = None,
    ) -> Any:
        """The rendered graph: bytes, or text if *encoding* is given.

        Raises:
            LayoutFailed: Graphviz failed, or did not finish within its time limit.
        """
        parts = (format or self.format, renderer or self.renderer, formatter or self.formatter)
        placed = "nop2" if neato_no_op == 2 else "nop" if neato_no_op else None
        program = placed or engine or self.engine
        data = rendered(self.source, ":".join(each for each in parts if each), program)
        return data if encoding is None else data.decode(encoding)


def _refuse(source: str, target: str, overwrite: bool, raise_if_exists: bool) -> None:
    if os.path.abspath(source) == os.path.abspath(target) and not overwrite:
        raise ValueError(f"outfile {target!r} is the file of the source; give another name")
    if raise_if_exists and os.path.exists(target):
        raise graphviz.FileExistsError(f"output file exists: {target!r}")
