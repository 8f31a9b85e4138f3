"""Digraph: a ``graphviz.Digraph`` that is rendered and shown without a ``dot`` program."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Union

import graphviz  # type: ignore[import-untyped]

from torchrecorder.export.graphviz import rendered
from torchrecorder.files import write_file

PathLike = Union[str, "os.PathLike[str]"]


class Digraph(graphviz.Digraph):  # type: ignore[misc]
    """A ``graphviz.Digraph`` that is rendered by the Graphviz inside pygraphviz.

    Everything else is inherited: ``node``, ``edge``, ``attr``, ``subgraph``, ``format``,
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

        The arguments are those of ``graphviz.Digraph.render``.

        Returns:
            The path of the rendered file.

        Raises:
            ValueError: The format, renderer, formatter or engine is unknown, or *outfile* is
                the file of the source.
            graphviz.RequiredArgumentError: A formatter is given without a renderer, or
                neither *format* nor the suffix of *outfile* is a known format.
            graphviz.FileExistsError: The file is there and *raise_if_result_exists*.
            LayoutFailed: Graphviz failed, or did not finish within its time limit.
        """
        if outfile is not None:
            outfile = Path(outfile) if directory is not None else Path(self.directory, outfile)
            format = _format_of(outfile, format)
            filename = filename or outfile.with_suffix(".gv")
        kinds = self._kinds(format, renderer, formatter, engine)
        source = self.save(filename, directory=directory)
        target = os.fspath(outfile) if outfile is not None else ".".join([source, *kinds[::-1]])
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
            ValueError: The format, renderer, formatter or engine is unknown.
            graphviz.RequiredArgumentError: A formatter is given without a renderer.
            LayoutFailed: Graphviz failed, or did not finish within its time limit.
        """
        kinds = self._kinds(format, renderer, formatter, engine)
        placed = "nop2" if neato_no_op == 2 else "nop" if neato_no_op else None
        program = placed or engine or self.engine
        data = rendered(self.source, ":".join(kinds), program)
        return data if encoding is None else data.decode(encoding)

    def _kinds(
        self, format: str | None, renderer: str | None, formatter: str | None, engine: str | None
    ) -> list[str]:
        """Format, renderer and formatter, as far as they are given; all of them known."""
        format = format or self.format
        renderer, formatter = renderer or self.renderer, formatter or self.formatter
        graphviz.parameters.verify_format(format)
        graphviz.parameters.verify_renderer(renderer)
        graphviz.parameters.verify_formatter(formatter)
        graphviz.parameters.verify_engine(engine or self.engine)
        if formatter is not None and renderer is None:
            raise graphviz.RequiredArgumentError("formatter given without renderer")
        return [item for item in (format, renderer, formatter) if item is not None]


def _format_of(outfile: Path, format: str | None) -> str:
    """The format of *outfile*: *format*, else that of its suffix."""
    suffix = outfile.suffix[1:].lower()
    if format is None and suffix not in graphviz.FORMATS:
        raise graphviz.RequiredArgumentError(
            f"the suffix of {str(outfile)!r} names no known format; pass format="
        )
    if format is not None and suffix != format.lower():
        known = suffix in graphviz.FORMATS
        kind = graphviz.FormatSuffixMismatchWarning if known else graphviz.UnknownSuffixWarning
        warnings.warn(f"{str(outfile)!r} will hold {format}", kind, stacklevel=3)
    return format or suffix


def _refuse(source: str, target: str, overwrite: bool, raise_if_exists: bool) -> None:
    if os.path.abspath(source) == os.path.abspath(target) and not overwrite:
        raise ValueError(f"outfile {target!r} is the file of the source; give another name")
    if raise_if_exists and os.path.exists(target):
        raise graphviz.FileExistsError(f"output file exists: {target!r}")
