"""Inputs: draw many tensors as one box. Such tensors are the parts of one argument, arguments that
differ only in a number, constants that a loop over weights reads (masks), one kind of optimizer
state (``exp_avg``), the items of a list (averaged weights), and the samples of a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from string import digits

from torchrecorder.events import OpId, ScopeId, ScopeKind, SourceLine, ValueId
from torchrecorder.views.view import Arrow, Box, BoxKind, View

MIN_GROUPED = 6
"""The minimum number of grouped inputs; a few are clearer with their own names."""

MIN_CONSTANTS = 3
"""The minimum number of grouped constants, equal to that of a folded loop over weights."""

InputGroup = tuple[str, list[Box]]
"""The name of a group, and the boxes in it."""


def group_inputs(view: View, apart: Collection[str] = ()) -> View:
    """Draw several tensors as one box if the same boxes read them: the parts of one argument (a
    ``BlockMask``), numbered arguments, items of a list, or optimizer state of several weights.
    Constants that a loop over weights reads are one box, too. Boxes in *apart* stay as they are.
    """
    done = {*apart, *(box.id for box in view.boxes.values() if box.is_group)}
    groups = [
        *_read_together(view, BoxKind.INPUT, _by_argument, done),
        *_read_together(view, BoxKind.CONSTANT, _by_place, done),
        *_constants(view, done),
    ]
    return _grouped(view, groups)


def group_samples(view: View) -> View:
    """Draw the samples that only data loaders read as one box for each of their parts, such as
    ``dataset.*.labels``. Which batch a sample is in is a matter of chance; a few of one batch are
    clearer with their own names. Samples of loops that have none in common, such as training and
    validation, stay apart."""
    recording, samples = view.recording, list[tuple[Box, str, frozenset[ScopeId]]]()
    loaders = {s.id: s.source for s in recording.scopes.values() if s.kind is ScopeKind.DATA_LOADER}
    for box in view.boxes.values() if loaders else ():
        value = recording.values.get(ValueId(box.id))
        if box.kind is BoxKind.CONSTANT and value is not None and value.names:
            around = [[scope for scope in recording.within(recording.ops[op].scope)
                       if scope in loaders] for op in recording.consumers.get(value.id, ())]
            name = ".".join("*" if part.isdigit() else part for part in value.names[0].split("."))
            if "*" in name and all(around):
                calls = frozenset(scope for scopes in around for scope in scopes)
                samples.append((box, name.removesuffix(".*"), calls))
    lines_of = {calls: frozenset(map(loaders.__getitem__, calls)) for *_, calls in samples}
    loops = list[frozenset[SourceLine | None]]()
    for lines in dict.fromkeys(lines_of.values()):
        apart = [loop for loop in loops if loop.isdisjoint(lines)]
        loops = [*apart, lines.union(*(loop for loop in loops if loop not in apart))]
    found: dict[tuple[str, Hashable], dict[Box, frozenset[ScopeId]]] = {}
    for box, name, calls in samples:
        loop = next(loop for loop in loops if lines_of[calls] <= loop)
        place = box.cluster, recording.differences.get(box.id), loop
        found.setdefault((name, place), {})[box] = calls
    return _grouped(view, [
        (name, [*group]) for (name, _), group in found.items()
        if len(group) >= MIN_GROUPED or len({*group.values()}) > 1
    ])


def _grouped(view: View, groups: Sequence[InputGroup]) -> View:
    """*view* with each of *groups* as one box."""
    if not groups:
        return view
    first = {box.id: group[0].id for _, group in groups for box in group}
    boxes = {name: box for name, box in view.boxes.items() if first.get(name, name) == name}
    for name, group in groups:
        members = tuple(member for box in group for member in box.members)
        boxes[group[0].id] = group[0].replace(members=members, count=len(group), names=(name,))
    arrows: dict[Hashable, Arrow] = {}
    for arrow in view.arrows:
        tail = first.get(arrow.tail)
        if tail is None:
            arrows[arrow] = arrow
        else:
            arrows.setdefault((tail, arrow.head), arrow.replace(tail=tail, value=ValueId(tail)))
    return replace(view, boxes=boxes, arrows=tuple(arrows.values()))


def _read_together(
    view: View, kind: BoxKind, groups_of: Callable[[str], Sequence[str]], done: set[str]
) -> Iterator[InputGroup]:
    """The tensors of *kind* that the same boxes read and whose names belong to one group. A tensor
    is in the largest of its groups. None of *done* is in any; what is in one is added to them."""
    readers: dict[str, set[str]] = {
        box.id: set() for box in view.boxes.values() if box.kind is kind and box.id not in done
    }
    for arrow in view.arrows if readers else ():
        if arrow.tail in readers:
            readers[arrow.tail].add(arrow.head)
    found: dict[tuple[str, Hashable], list[Box]] = {}
    for box_id, heads in readers.items():
        box, names = view.boxes[box_id], view.recording.values[ValueId(box_id)].names
        differs = view.recording.differences.get(box_id)
        place = box.cluster, box.count, frozenset(heads), differs
        for group in groups_of(names[0]) if names else ():
            found.setdefault((group, place), []).append(box)
    for (group, _), boxes in sorted(found.items(), key=lambda each: -len(each[1])):
        rest = [box for box in boxes if box.id not in done]
        if len(rest) >= MIN_GROUPED:
            done.update(box.id for box in rest)
            yield group, rest


def _by_argument(name: str) -> Sequence[str]:
    """The argument that contains *name*; for a numbered argument its name with a placeholder
    (``feature_*`` for ``feature_3``), and for one that is only numbered, ``inputs``."""
    if name.isdigit():
        return ("inputs",)
    stem = name.rstrip(digits)
    return tuple(filter(None, [argument_of(name) or f"{stem}*" * (stem != name)]))


def _by_place(name: str) -> Sequence[str]:
    """*name* with a placeholder for the index in a list (``batches.*.0`` for ``batches.3.0``) or
    for the weight (``*.exp_avg`` for ``fc.weight.exp_avg``)."""
    parts = name.split(".")
    numbered = [place for place, part in enumerate(parts) if place and part.isdigit()]
    last = [f"*.{parts[-1]}"] if len(parts) > 1 and not parts[-1].isdigit() else []
    return [*(_any_item(parts, place) for place in numbered), *last]


def _any_item(parts: Sequence[str], place: int) -> str:
    """The name of any item of a list, of which *place* is that of its number; the list itself."""
    return ".".join((*parts[:place], "*", *parts[place + 1:])).removesuffix(".*")


def argument_of(name: str) -> str:
    """The argument that contains the tensor called *name*."""
    argument, _, part = name.partition(".")
    return argument if part else ""


def list_of(names: Sequence[str]) -> str:
    """The list that contains all *names*, at the same place of its items; empty if there is none.

    ``batches.*.0`` for ``batches.0.0`` and ``batches.1.0``.
    """
    parts = [name.split(".") for name in names]
    columns = [{*column} for column in zip(*parts)]
    differ = [place for place, column in enumerate(columns) if len(column) > 1]
    if len({*map(len, parts)}) > 1 or len(differ) != 1:
        return ""
    (place,) = differ
    return _any_item(parts[0], place) if all(map(str.isdigit, columns[place])) else ""


def _constants(view: View, done: Collection[str]) -> Iterator[InputGroup]:
    """The constants that only the same loops over weights read, without those in *done*."""
    loops, ops = view.recording.weight_loops, view.recording.ops
    lines: dict[str, set[Hashable]] = {
        box.id: set() for box in (view.boxes.values() if loops else ())
        if box.kind is BoxKind.CONSTANT and box.count == 1 and box.id not in done
    }
    for arrow in view.arrows if lines else ():
        if arrow.tail in lines:
            head = ops[OpId(arrow.head)] if arrow.head in loops else None
            lines[arrow.tail].add((head.source, head.qualname) if head else None)
    found: dict[Hashable, list[Box]] = {}
    for name, read in lines.items():
        if read and None not in read:
            box = view.boxes[name]
            place = box.cluster, frozenset(read), view.recording.differences.get(name)
            found.setdefault(place, []).append(box)
    for group in found.values():
        if len(group) >= MIN_CONSTANTS:
            yield "constants", group
