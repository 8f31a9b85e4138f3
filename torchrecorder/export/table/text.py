"""Text: a table by scope for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Literal, Union

from torchrecorder.annotations import by_name, nan_origin, numbers_of
from torchrecorder.annotations.amounts import exact, of_bytes
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.compiled import COMPILED, graphs_among
from torchrecorder.annotations.memory import OUTPUT_BYTES
from torchrecorder.annotations.parameters import (
    BUFFER_BYTES, OWNED, PARAMETER_BYTES, PARAMETERS, TRAINABLE, in_no_module,
)
from torchrecorder.annotations.random_draws import drawing_functions
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.checks import FLAG, LIST, check_one, number_or, one_of, plural, whole_number
from torchrecorder.events import OF_WEIGHTS, UNFINISHED, OpId, ValueId
from torchrecorder.export.table.alignment import Column, table, tree
from torchrecorder.export.table.folded_rows import folded
from torchrecorder.export.table.rows import TableRow, closed, every_row, fitting
from torchrecorder.graph.flat import printable
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.query.failed_backward import why_backward_failed
from torchrecorder.select.compiled import without_wrappers
from torchrecorder.select.functions import WithFunctions
from torchrecorder.style import labels
from torchrecorder.style.merge_captions import first_to_last
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import FOLDS, OPS
from torchrecorder.views.view import View

DEFAULT = ("input", "output", "parameters")
"""The default columns of a table."""

GRAPHS = "graphs"
"""The column of the compiled graphs of a row."""

TENSORS = ("input", "output", GRAPHS)
"""Columns other than annotations."""


def numbers_in(columns: Sequence[Union[str, Annotation]]) -> list[Annotation]:
    """The annotations among these *columns*.

    Raises:
        UnknownAnnotation: A column is unknown.
    """
    chosen = (COMPILED if column == GRAPHS else column for column in columns)
    return [by_name(item, TENSORS) for item in chosen if item not in TENSORS]


WIDEST = 48
"""Maximum length of a text in a cell, without the lines of the tree."""


class Table(str):
    """A string that is its own repr, without quotes and escapes."""

    def __repr__(self) -> str:
        return str(self)


def check_listing(depth: Any, *, ops: Any, fold: Any) -> None:
    """Raise an error if an option of `summary` has no meaning."""
    check_one("depth", depth, number_or(whole_number(0), OPS).or_none())
    check_one("ops", ops, FLAG)
    check_one("fold", fold, one_of(*FOLDS))


@without_gc()
def summary(
    recording: RecordedRun,
    depth: Union[int, Literal["ops"], None] = None,
    columns: Sequence[Union[str, Annotation]] = DEFAULT,
    *,
    ops: bool = False,
    fold: Union[bool, Literal["similar"]] = True,
) -> Table:
    """A table by scope; see `torchrecorder.Recording.summary`.

    A tied parameter counts once in each line, also in those of the scopes around it. A
    module that is called again is listed again, and counted once. The direct operations of a
    large module are listed by Python function, as in figures.
    """
    check_listing(depth, ops=ops, fold=fold)
    recording = WithFunctions()(without_wrappers(recording))
    found = every_row(recording, ops=ops or depth == OPS)
    if fold:
        found = folded(recording, found, similar=fold == "similar")
    listed = closed(recording, found, fitting(found, sys.maxsize if depth == OPS else depth))
    filled = [_names(listed), *_Filler(recording, listed).columns(columns), *_notes(listed)]
    lines = list(table(filled))
    rule = lines[1]
    return Table("\n".join([*lines, rule, *_totals(recording), *_remarks(recording)]))


@dataclass(frozen=True)
class Txt:
    """The table by scope as a text file."""

    suffix: ClassVar[str] = ".txt"
    # levels of scopes that are listed; ``"ops"`` for all, and every op
    depth: Union[int, Literal["ops"], None] = None
    columns: tuple[Union[str, Annotation], ...] = DEFAULT  # the columns; see `summary`
    ops: bool = False  # list every op too
    fold: Union[bool, Literal["similar"]] = True  # one line for scopes that repeat

    def export(self, view: View, style: Style) -> str:
        recording, columns = view.recording, self.columns
        listed = summary(recording, self.depth, columns, ops=self.ops, fold=self.fold)
        return f"{printable(listed)}\n"


def _names(listed: Sequence[TableRow]) -> Column:
    marks = tree([row.depth for row in listed])
    titles = (labels.shorten(row.title, WIDEST) for row in listed)
    return Column("Scope", [mark + title for mark, title in zip(marks, titles)])


def _notes(listed: Sequence[TableRow]) -> Iterator[Column]:
    """The column of notes, if there are any."""
    if any(row.notes for row in listed):
        yield Column("Notes", [", ".join(row.notes) for row in listed])


class _Filler:
    """Fills columns for the rows of one recording."""

    def __init__(self, recording: RecordedRun, listed: Sequence[TableRow]) -> None:
        self.recording = recording
        self.listed = listed
        self.usual = labels.usual_dtype(recording)
        self.inside = ScopeMembers(recording)

    def columns(self, wanted: Sequence[Union[str, Annotation]]) -> Iterator[Column]:
        check_one("columns", wanted, LIST)
        for item in wanted:
            if item in ("input", "output"):
                tensors = attrgetter(f"{item}s")
                shown = [self._range(row, tensors) for row in self.listed]
                yield Column(str(item).capitalize(), shown)
            elif item == GRAPHS:
                numbers_of(self.recording, COMPILED)  # which warns if there are none
                members = (self.inside.of(row.ids) for row in self.listed)
                yield Column("Graphs", [graphs_among(self.recording, each) for each in members])
            else:
                yield self._numbers(by_name(item, TENSORS))

    def _range(self, row: TableRow, tensors: Callable[[TableRow], Sequence[ValueId]]) -> str:
        """The tensors of a row, and those of its last sibling."""
        rows = [row] if row.last is None else [row, row.last]
        return first_to_last([self._tensors(tensors(row)) for row in rows])

    def _tensors(self, values: Sequence[ValueId]) -> str:
        """The first two tensors, and the number of others."""
        shown = [labels.value(self.recording.values[value], self.usual) for value in values[:2]]
        more = f" +{len(values) - 2}" if len(values) > 2 else ""
        return labels.shorten(", ".join(shown), WIDEST) + more

    def _numbers(self, which: Annotation) -> Column:
        numbers = numbers_of(self.recording, which)
        stored = numbers.annotation in OWNED
        cells = []
        for row in self.listed:
            members = self.inside.of(row.ids)
            text = numbers.text(members)
            mean = numbers.mean(members, len(row.ids)) if not text else None
            if mean is not None:
                text = f"mean {numbers.annotation.show(mean)}"
            cells.append("(recurrent)" if text and stored and row.again else text)
        return Column(numbers.annotation.title, cells, right=True)


def _totals(recording: RecordedRun) -> Iterator[str]:
    parameters = PARAMETERS.on(recording)
    weights, loose = parameters.total(), in_no_module(parameters)
    trained = TRAINABLE.on(recording).total()
    buffers = BUFFER_BYTES.on(recording).total()
    taken = dict.fromkeys(slot.value for slot in recording.inputs)
    texts = {
        "Total params": exact(weights),
        **({"Params in no module": exact(loose)} if loose else {}),
        "Trainable params": exact(trained),
        "Non-trainable params": exact(weights - trained),
        "Input size": of_bytes(sum(recording.values[item].bytes for item in taken)),
        "Forward pass size": of_bytes(_forward_bytes(recording)),
        "Params size": of_bytes(PARAMETER_BYTES.on(recording).total()),
        **({"Buffers size": of_bytes(buffers)} if buffers else {}),
    }
    names, numbers = max(map(len, texts)), max(map(len, texts.values()))
    for name, number in texts.items():
        yield f"{name:<{names}}  {number:>{numbers}}"


def _forward_bytes(recording: RecordedRun) -> float:
    """Bytes of new tensors of ops, without the creation of weights."""
    apart = {
        scope
        for scope in recording.scopes
        if any(recording.scopes[outer].kind in OF_WEIGHTS for outer in recording.within(scope))
    }
    made = OUTPUT_BYTES.on(recording).by_node
    return sum(number for op, number in made.items() if recording.ops[OpId(op)].scope not in apart)


def _remarks(recording: RecordedRun) -> Iterator[str]:
    """Lines about the run: failure, lost facts, notes."""
    for failure in recording.run.failures:
        if failure.error == UNFINISHED:
            yield f"{UNFINISHED}: {failure.message}"
            continue
        place = recording.scopes.get(failure.scope) if failure.scope is not None else None
        where = f" in {place.path or place.name}" if place is not None else ""
        yield f"Failed{where}: {failure.text(labels.shorten(failure.message, 120))}"
    cause = why_backward_failed(recording)
    if cause is not None:
        yield f"Cause: {cause}"
    for text in nan_origin.describe(recording):
        yield f"Note: {text}"
    if drawing := drawing_functions(recording):
        yield f"Note: random numbers drawn by {labels.shorten(', '.join(drawing), 120)}"
    for note in recording.run.notes:
        yield f"Note: {note}"
    if recording.run.lost:
        yield f"Note: {plural(recording.run.lost, 'fact')} lost"
