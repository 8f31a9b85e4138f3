"""Recording: the result of a recorded run, with its numbers, tables, drawings and files.

The data is in `torchrecorder.graph.recording`. Code that computes and draws is imported when it
is used, so that importing torchrecorder is fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torchrecorder.checks import suggests_names
from torchrecorder.console import encodable
from torchrecorder.graph.tables import RecordedTables

if TYPE_CHECKING:
    import networkx as nx
    from typing_extensions import Unpack

    from torchrecorder.annotations.annotation import Annotation, Numbers
    from torchrecorder.annotations.nan_origin import NotFinite
    from torchrecorder.annotations.results import By, Ranked
    from torchrecorder.annotations.training_memory import TrainingMemory
    from torchrecorder.live_memory import Memory
    from torchrecorder.query.failed_backward import FailedBackward
    from torchrecorder.query.find import NamedPart
    from torchrecorder.query.missing_gradient import MissingGradient
    from torchrecorder.query.missing_update import MissingUpdate
    from torchrecorder.query.paths import Paths
    from torchrecorder.signatures import DrawingOptions

LIMIT = 128 * 2**20
"""Default limit of the uncompressed size of a file, in bytes."""


class Recording(RecordedTables):
    """One recorded run of a model, with methods to query, draw and save it.

    It holds no tensor, no module and no ``grad_fn``. Ids count up in run order, so two runs of the
    same model give equal recordings (times aside). `RecordedRun` lists its attributes.
    """

    def find(self, what: str) -> list[NamedPart]:
        """All modules, calls, tensors, operations and grad nodes that match *what*.

        Args:
            what: A dotted path (``"layer1.0.conv1"``: the module, then its calls), the name of a
                parameter, input or output, an operation (``"relu"``, ``"layer1.0: relu"``), the
                line that called it (``"model.py:57"``), a class (``"Conv2d"``), a Python function,
                an id (``"o12"``), or a pattern with ``*``. ``"random"`` also finds the operations
                that draw random numbers.

        Returns:
            `Module`, `Scope`, `Value`, `Op`, `FunctionCall` and `GradNode` objects, or none.

        Example:
            >>> import torch, torchrecorder
            >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
            >>> recording = torchrecorder.record(model, torch.ones(2, 4))
            >>> [part.id for part in recording.find("0")]
            ['m1', 's1']
            >>> recording["1: relu"].outputs
            ('v4',)
        """
        from torchrecorder.query.find import find

        return find(self, what)

    def __getitem__(self, what: str) -> NamedPart:
        """The one part that `find` finds for *what*: a module, else a call, a tensor, an operation.

        A weight is its value before an optimizer step. Raises `NotThere` if nothing or more than
        one part has this name; the message lists names.
        """
        from torchrecorder.query.find import the_one

        return the_one(self, what)

    def __contains__(self, what: object) -> bool:
        """Whether `find` finds anything for *what*."""
        return isinstance(what, str) and bool(self.find(what))

    __iter__ = None
    """Not iterable, as it has several kinds of parts: iterate over its scopes, ops or values."""

    @suggests_names
    def paths(self, start: str, end: str, *, limit: int = 100) -> Paths:
        """The paths on which data flows from *start* to *end*, the shortest first.

        Args:
            start: A module, call, operation or tensor, by any name that `find` knows.
            end: Another one.
            limit: Maximum number of listed paths; ``paths.total`` is the number of all.

        Returns:
            A sequence of tuples of ops and values, which prints as text.

        Raises:
            NotThere: Nothing has one of these names.
            InvalidArgument: One is part of the other.

        Example:
            >>> import torch, torchrecorder
            >>> recording = torchrecorder.record(lambda x: x + x.exp(), torch.ones(2))
            >>> print(recording.paths("x", "output"))
            x → <lambda>: add
            x → <lambda>: exp → <lambda>: add
        """
        from torchrecorder.query.paths import paths

        return paths(self, start, end, limit=limit)

    def first_not_finite(self) -> NotFinite | None:
        """The operation or grad node with the first NaN or infinity, or the tensor that had it.

        ``str(found)`` is a sentence, ``recording[found.node]`` the operation with its line. An
        infinity that was passed as a Python number, such as the -inf of a mask, is not reported.

        Raises:
            UnknownAnnotation: The run was recorded without ``stats=True``.
        """
        from torchrecorder.annotations.nan_origin import first_not_finite

        return first_not_finite(self)

    @suggests_names
    def why_no_gradient(self, name: str) -> MissingGradient | None:
        """The reason why a tensor has no gradient, or zeros (with ``stats=True``); None otherwise.

        Args:
            name: Any name that `find` accepts, such as ``"aux.weight"``; a parameter comes first.

        Raises:
            NotThere: Nothing, or several tensors but no parameter, have this name.
            InvalidArgument: It is not the name of a tensor.
        """
        from torchrecorder.query.missing_gradient import why_no_gradient

        return why_no_gradient(self, name)

    @suggests_names
    def why_no_update(self, name: str) -> MissingUpdate | None:
        """The reason why no optimizer step updated a parameter, or what overwrote it afterwards.

        None if it was updated. *name* and exceptions: see `why_no_gradient`.
        """
        from torchrecorder.query.missing_update import why_no_update

        return why_no_update(self, name)

    def why_backward_failed(self) -> FailedBackward | None:
        """The reason why the backward pass failed, with the operations that caused it.

        It explains tensors that were modified in place, graphs that an earlier pass freed, results
        without autograd history, and tensors that are not in the graph; otherwise it is None. A
        note on the exception has the same text.
        """
        from torchrecorder.query.failed_backward import why_backward_failed

        return why_backward_failed(self)

    @suggests_names
    def to_networkx(self, *, values: bool = True, grads: bool = False) -> nx.MultiDiGraph:
        """A copy as a ``networkx.MultiDiGraph`` with flat attributes, for networkx and its writers.

        `torchrecorder.graph.flat.flat` lists them; none is None, a list or a mapping.

        Args:
            values: Add all tensors as nodes; without, only those that no op made, such as weights.
            grads: Add the autograd graph.
        """
        from torchrecorder.graph.flat import flat

        return flat(self, values=values, grads=grads)

    @property
    def memory(self) -> Memory:
        """The memory of tensors over time: its peak, the tensors in it, numbers and a chart.

        Any access raises `UnknownAnnotation` if the run was recorded without ``memory=True``.
        """
        from torchrecorder.live_memory import Memory

        return Memory(self)

    @suggests_names
    def training_memory(self, optimizer: str | int = "adamw") -> TrainingMemory:
        """An estimate of the memory of a training step of the model, on the recorded inputs.

        Weights, buffers, gradients, optimizer state and the most that is saved for backward at
        once. A run on fake tensors is enough: ``record(model, x, fake=True, saved=True)``.

        Args:
            optimizer: An optimizer of PyTorch (``"adamw"``, ``"sgd"``, ``"sgd with momentum"``),
                or the number of tensors of the size of each weight that it keeps.

        Returns:
            Bytes by part and in total; ``print`` shows them.

        Raises:
            UnknownAnnotation: The run was recorded without ``saved=True`` or ``backward=True``.
            InvalidArgument: The optimizer is not known; the message lists the known ones.
        """
        from torchrecorder.annotations.training_memory import training_memory

        return training_memory(self, optimizer)

    @property
    def annotations(self) -> Mapping[str, Numbers]:
        """Numbers by the name of their annotation: ``recording.annotations["flops"].total()``.

        Iteration gives the names of those for which this run has numbers.
        """
        from torchrecorder.annotations.results import Results

        return Results(self)

    @suggests_names
    def top(self, name: str | Annotation, n: int = 10, *, by: By = "module") -> list[Ranked]:
        """The *n* modules with the largest numbers of an annotation, largest first.

        A module counts with all of its calls, without the calls of its inner modules.

        Args:
            name: Name of an annotation: ``"backward_time"``, ``"saved_bytes"``, ``"flops"``.
            n: Maximum length of the list.
            by: As in `table`.

        Raises:
            UnknownAnnotation: No annotation has this name, or it was not measured.
        """
        from torchrecorder.annotations.results import top

        return top(self, name, n, by=by)

    @suggests_names
    def table(
        self, columns: Sequence[str | Annotation] | None = None, *, by: By = "scope"
    ) -> list[dict[str, Any]]:
        """Numbers as a list of dicts, one per call, ready for ``pandas.DataFrame``.

        Those of a scope include its inner scopes; columns called ``self_...`` do not.

        Args:
            columns: Names of annotations; all that have numbers if not given.
            by: ``"scope"`` (calls), ``"module"``, ``"op"``, ``"type"`` (ops by name), ``"grad"``.
        """
        from torchrecorder.annotations.results import table

        return table(self, columns, by=by)

    @property
    def breaks(self) -> list[dict[str, Any]]:
        """The graph breaks of ``torch.compile``, ready for ``pandas.DataFrame``.

        One dict per place: ``reason``, ``line`` (``"net.py:12"``), ``module``, ``op`` (empty if
        the break is not at one), ``graphs`` (the numbers of those that end there), and PyTorch's
        ``explanation``, ``hints`` and ``link``. Empty without breaks or ``compiled=True``.
        """
        from torchrecorder.annotations.compiled import break_table

        return break_table(self)

    def attach_trace(self, path: str | Path) -> Recording:
        """A copy with the numbers of a Chrome trace that a profiler has saved.

        The numbers are those of ``record(..., profile=True)``. The trace must be of this run or of
        another run of the same ops: put the profiler around the block of
        ``Recorder(model, profiler=prof)`` and call ``prof.export_chrome_trace(path)`` after it.

        Args:
            path: The trace, ``.json`` or ``.json.gz``.

        Raises:
            InvalidArgument: The file is not a Chrome trace, or has other ops than this recording.
            OSError: It cannot be read.
        """
        from torchrecorder.trace.reading import slices_in
        from torchrecorder.trace.slices import profiled

        return profiled(self, slices_in(path))

    def to_trace(self, path: str | Path) -> Path:
        """Write the recording as a Chrome trace, for Perfetto, with modules as nested slices.

        Ops follow each other without gaps, as their start times are not recorded; grad nodes have a
        row of their own.

        Args:
            path: Where to write, ``.json`` or ``.json.gz``; an existing file is replaced.

        Raises:
            InvalidArgument: The suffix is another one, or the recording has no times.
        """
        from torchrecorder.trace.writing import write

        return write(self, path)

    def render(self, path: str | Path, **options: Unpack[DrawingOptions]) -> Path:
        """Write the recording in the format that the suffix of *path* names.

        ``.svg``, ``.pdf`` and ``.png`` are figures, ``.html`` is an interactive page,
        ``.json`` is the recording itself; the message of `UnknownFormat` lists all formats.

        Args:
            path: Where to write; an existing file is replaced.
            **options: ``depth`` (levels of open scopes; by default chosen by size), ``theme``,
                ``focus``, ``hide``, ``color_by`` and so on: the reference lists them all.

        Raises:
            UnknownFormat: No exporter writes this suffix.
            InvalidArgument: An option is unknown or its value is invalid.
            LayoutFailed: Graphviz could not lay out the figure in time.
        """
        from torchrecorder import drawing

        return drawing.render(self, path, **options)

    def show(
        self,
        path: str | Path | None = None,
        *,
        browser: bool = True,
        inline: bool = False,
        **options: Unpack[DrawingOptions],
    ) -> Path:
        """Open the recording in a browser, as an interactive page.

        Args:
            path: Where to write it; its suffix sets the format. By default a new temporary folder.
            browser: Open it in a browser; otherwise the file is only written.
            inline: Show the page below the cell of a notebook instead, at any size.
            **options: See `render`.
        """
        from torchrecorder import drawing

        return drawing.show(self, path, browser=browser, inline=inline, **options)

    @suggests_names
    def save(self, path: str | Path, *, times: bool = True) -> Path:
        """Write the recording to a ``.json`` or ``.json.gz`` file that `load` reads.

        Args:
            path: Where to write; an existing file is replaced.
            times: Write measured times. Without them, equal runs give equal bytes.

        Raises:
            InvalidArgument: The suffix is another one.
        """
        from torchrecorder.graph import saved_files

        return saved_files.save(self, path, times=times)

    @suggests_names
    def summary(
        self,
        depth: int | Literal["ops"] | None = None,
        columns: Sequence[str | Annotation] = ("input", "output", "parameters"),
        *,
        ops: bool = False,
        fold: bool | Literal["similar"] = True,
    ) -> str:
        """A table by scope: shapes, parameters, totals.

        Args:
            depth: Levels of scopes below the outermost calls; by default as many as fit in about
                400 lines; ``"ops"`` for all levels, with every op.
            columns: ``"input"``, ``"output"``, ``"graphs"``, names of annotations, or
                annotations.
            ops: Also list every op.
            fold: One line for equal repeated blocks; ``"similar"``: sizes may differ.
        """
        from torchrecorder.export.table.text import summary

        return encodable(summary(self, depth, columns, ops=ops, fold=fold))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The formats that a notebook shows, by MIME type."""
        from torchrecorder.display import mimebundle

        return mimebundle(self, include, exclude)


@suggests_names
def load(path: str | Path, *, limit: int = LIMIT) -> Recording:
    """Load a saved recording. PyTorch need not be installed; no code in the file is run.

    Args:
        path: A file that `save` wrote, compressed or not.
        limit: Maximum uncompressed size in bytes.

    Raises:
        RecordingVersionError: It was saved by a newer version.
        InvalidRecording: It is not a saved recording, damaged, or beyond *limit*.
        OSError: It cannot be read.
    """
    from torchrecorder.graph import saved_files

    return saved_files.load(path, limit=limit, make=Recording)
