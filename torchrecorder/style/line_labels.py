"""Line labels: the tensors on the lines of a figure, as short labels and as tooltips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import prod
from typing import Union

from torchrecorder.annotations.amounts import of_bytes
from torchrecorder.events import GRADIENT_MESSAGE, MESSAGE, NO_STORAGE, OpId, Slot, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import first_in_memory, maker_of
from torchrecorder.style import labels
from torchrecorder.style.captions import Captions
from torchrecorder.style.figure import Text
from torchrecorder.style.merge_captions import first_to_last, same
from torchrecorder.views.bundles import (
    FLOW_OF, MAX_SINGLE_ARROWS, Bundle, FlowKind, is_gradient, values_of,
)
from torchrecorder.views.tensors import in_each
from torchrecorder.views.view import Arrow, BoxKind, View

SYMBOLS = {"add": "+", "add_": "+", "iadd": "+", "mul": "×", "mul_": "×", "imul": "×"}
"""The symbol of each operation."""


def is_symbol(view: View, box: str) -> bool:
    """Whether a box is an operation that can be drawn as a circle."""
    op = view.recording.ops.get(OpId(box))
    return op is not None and op.name in SYMBOLS


def circles(view: View, captioned: Collection[str]) -> dict[str, str]:
    """The names of operations drawn as circles, by box; boxes in *captioned* show outputs."""
    reads = Counter(arrow.head for arrow in view.arrows)
    return {
        box.id: view.recording.ops[OpId(box.id)].name
        for box in view.boxes.values()
        if box.kind is BoxKind.OP and box.count == 1 and is_symbol(view, box.id)
        if box.id not in captioned and reads[box.id] == 2
    }


def symbol(name: str) -> Text:
    """The label of the circle for an operation."""
    return Text(SYMBOLS[name], "title")


WITH_SHAPE = (BoxKind.INPUT, BoxKind.PARAMETER, BoxKind.BUFFER, BoxKind.CONSTANT, BoxKind.TENSOR)
"""Kinds of boxes that show the shape of their tensor: lines do not repeat it."""

STORED_BOXES = (BoxKind.PARAMETER, BoxKind.BUFFER, BoxKind.CONSTANT)
"""Kinds of boxes without a computation; readers do not take a shape from them."""

_COUNTED = (*FLOW_OF.values(), FlowKind.GRADIENT)
"""Kinds of tensors that a line to repeats counts over all repeats."""

MAX_TENSORS = 12
"""Maximum number of tensors in the tooltip of a line."""


def line_labels(view: View, drawn: Sequence[Bundle], captions: Captions) -> dict[int, str]:
    """The labels of lines, by index: each tensor is labeled on its first line.

    Lines to outputs have none, because the box shows the shape, unless other lines of the same tail
    would seem to show all of its results. Gradients and updated weights are shown as counts.
    """
    found: dict[int, str] = {}
    shown: dict[str, set[object]] = {}
    numbers = _numbers(view, drawn)
    reads = cache(partial(_reads, view))
    for number, bundle in sorted(enumerate(drawn), key=lambda item: is_final(view, item[1].first)):
        tail, final = bundle.first.tail, is_final(view, bundle.first)
        before = shown.setdefault(tail, set())
        text = counted(bundle.flow, numbers.get((tail, bundle.flow), 0))
        several = bundle.trunk if len(bundle.arrows) > 1 else ""
        value: object = bundle.flow if text else same(view, bundle.first)
        carried = {value} if text else {several or value, value}
        if not before.isdisjoint(carried) or (final and not before):
            continue
        others: list[ValueId] = []
        if not text and captions.style.shapes:
            if bundle.flow not in FLOW_OF.values():  # one that is counted has no others
                read = _read_by_repeats(view, bundle, reads)
                others = [item for item in read if item not in before]
            text = _of_tensors(view, bundle, captions, others)
        if text:
            found[number] = text
            before |= {*carried, *others}
    if captions.style.shapes != "all" and not view.backward:
        for number in _repeated(view, drawn, captions, found):
            del found[number]
    return found


def _repeated(
    view: View, drawn: Sequence[Bundle], captions: Captions, texts: Mapping[int, str]
) -> list[int]:
    """The indices of labels that only repeat the shape of all inputs of their tail.

    A tensor that several boxes read keeps its label, unless it is a sum or product.
    """
    labeled = grouped((drawn[number].first.tail, number) for number in texts)
    readers: dict[str, set[str]] = {}
    read: dict[str, set[str]] = {}
    for arrow in view.arrows:
        readers.setdefault(arrow.tail, set()).add(arrow.head)
        if view.boxes[arrow.tail].kind not in STORED_BOXES:
            read.setdefault(arrow.head, set()).add(_shape_of(view, arrow, captions))
    return [
        numbers[0]
        for tail, numbers in labeled.items()
        if len(numbers) == 1 and read.get(tail) == {texts[numbers[0]]}
        if len(readers[tail]) == 1 or is_symbol(view, tail)
    ]


def counted(flow: FlowKind, number: int) -> str:
    """``62 gradients``; empty if the label is a shape."""
    few = MAX_SINGLE_ARROWS if flow is FlowKind.GRADIENT else 1
    return flow.counted(number) if flow is not FlowKind.TENSOR and number > few else ""


def _numbers(view: View, drawn: Iterable[Bundle]) -> dict[tuple[str, FlowKind], int]:
    """The number of values of each flow from one repeat of a box to all repeats of its readers."""
    found: dict[tuple[str, FlowKind], set[object]] = {}
    folded: set[tuple[str, FlowKind]] = set()
    for bundle in drawn:
        key = bundle.first.tail, bundle.flow
        carried = values_of(bundle.arrows)
        tail, head = view.boxes[bundle.first.tail], view.boxes[bundle.first.head]
        if tail.instances and tail.id in view.recording.weight_loops:
            continue  # each repeat has one, of its own shape
        items, is_counted = found.setdefault(key, set()), bundle.flow in _COUNTED
        items.update(_tensor_of(view.recording, item) if is_counted else item for item in carried)
        if bundle.flow in _COUNTED and view.copies(head) > view.copies(tail):
            folded.add(key)
    numbers = {key: len(items) for key, items in found.items()}
    for key in folded:
        box = view.boxes[key[0]]
        inside, readers = frozenset(box.members), view.recording.consumers
        given = set(_given(view.recording, box.members, key[1]))
        read = [value for value in given if not inside.issuperset(readers.get(value, ()))]
        numbers[key] = max(numbers[key], len(read) // view.copies(box))
    return numbers


def _tensor_of(recording: RecordedRun, item: ValueId) -> object:
    """The name of a weight or gradient, whose value changes with each write; else its memory."""
    value = recording.values[first_in_memory(recording, item)]
    return value.names or (value.storage if value.storage != NO_STORAGE else item)


def _given(recording: RecordedRun, members: Collection[str], flow: FlowKind) -> Iterator[ValueId]:
    """The weights or buffers among *members*, or the gradients that ops among them computed."""
    stored, values = recording.stored, recording.values
    for member in members:
        if flow is not FlowKind.GRADIENT:
            value = ValueId(member)
            if value in stored and FLOW_OF[stored[value]] is flow:
                yield value
        elif (op := recording.ops.get(OpId(member))) is not None:
            yield from (output for output in op.outputs if is_gradient(values[output]))


def _of_tensors(view: View, bundle: Bundle, captions: Captions, others: Iterable[ValueId]) -> str:
    """The shape on a line, with the number of tensors; repeats read the *others* instead."""
    by_value = {arrow.value: arrow for arrow in bundle.arrows}
    texts = [carried(view, arrow, captions) for arrow in by_value.values()]
    if texts[0]:
        values = view.recording.values
        more = [values[item] for item in others if item not in by_value]
        texts += [labels.value(value, captions.usual) for value in more]
    if len(texts) == 1 or not texts[0]:
        return texts[0]
    if all(text == texts[0] for text in texts):
        return labels.alike(texts[0], len(texts))
    return bundle.flow.counted(len(texts))


BoxReads = Callable[[str], Mapping[Union[str, None], Sequence[Slot]]]
"""Returns the arguments of all ops in a box, by the box that computed them."""


def _reads(view: View, head: str) -> Mapping[str | None, Sequence[Slot]]:
    """See `BoxReads`; of a box for siblings that differ, those of its instances."""
    ops, box = view.recording.ops, view.boxes[head]
    return grouped(
        (view.box_of.get(slot.value), slot)
        for item in box.instances or box.members
        if item in ops for slot in ops[OpId(item)].inputs
    )


def _read_by_repeats(view: View, bundle: Bundle, reads: BoxReads) -> Sequence[ValueId]:
    """The results that repeats at the head read, if these differ; of the first iteration."""
    tail, head = view.boxes[bundle.first.tail], view.boxes[bundle.first.head]
    copies = view.copies(tail)
    if not head.instances and view.copies(head) <= copies:
        return ()
    slots = reads(head.id).get(tail.id, ())
    arguments = {arrow.slot for arrow in bundle.arrows}
    same_arguments = [slot for slot in slots if slot.name in arguments]
    read = {slot.value for slot in same_arguments or slots}
    copies = min(copies, len({_call_of(view, tail.id, item) for item in read}))
    return sorted(read, key=partial(_made_at, view.recording))[:len(read) // max(copies, 1)]


def _call_of(view: View, box: str, item: ValueId) -> str | None:
    """The outermost call in *box* that returned a value."""
    recording = view.recording
    op = maker_of(recording, item)
    around = (op.id, *recording.within(op.scope)) if op is not None else ()
    return next((each for each in reversed(around) if view.box_of.get(each) == box), None)


def _made_at(recording: RecordedRun, value: ValueId) -> tuple[int, int]:
    """The run order of the op that computed *value*, and the index in its results."""
    op = maker_of(recording, value)
    return (op.index, op.outputs.index(value)) if op is not None else (-1, 0)


def is_final(view: View, arrow: Arrow) -> bool:
    """Whether the arrow leads to an output of the run."""
    return view.boxes[arrow.head].kind is BoxKind.OUTPUT


def carried(view: View, arrow: Arrow, captions: Captions) -> str:
    """The shape of the value that the tail of an arrow returns, unless one of its ends shows it."""
    boxes = view.boxes
    if boxes[arrow.tail].kind in WITH_SHAPE or boxes[arrow.head].kind in WITH_SHAPE:
        return ""
    shape = _shape_of(view, arrow, captions)
    return _message(view, arrow, shape) if arrow.slot in (MESSAGE, GRADIENT_MESSAGE) else shape


def _message(view: View, arrow: Arrow, shape: str) -> str:
    """A tensor that one process sends to another: ``gradient 4×16 (256 B) ×8``. As often as in one
    round of the folds around both ends."""
    amount = of_bytes(view.recording.values[arrow.value].bytes) if arrow.value else ""
    tail, head = view.boxes[arrow.tail], view.boxes[arrow.head]
    around = view.nesting.around(view.nesting.common((tail.cluster, head.cluster)))
    copies = view.copies(head) // prod(view.clusters[outer].count for outer in around)
    times = f" ×{copies}" if copies > 1 else ""
    what = "gradient " if arrow.slot == GRADIENT_MESSAGE else ""
    return f"{what}{shape} ({amount}){times}"


def _shape_of(view: View, arrow: Arrow, captions: Captions) -> str:
    """The shape of the value that the tail of an arrow returns."""
    value = view.given(arrow)
    if value is None:
        return ""
    values, instances = view.recording.values, view.boxes[arrow.tail].instances
    found = in_each(view.recording, instances, value)
    return first_to_last([labels.value(values[item], captions.usual) for item in found])


def line_tooltip(view: View, bundle: Bundle) -> str:
    """The tooltip of a line: a tensor and its source, or the first of several."""
    if len(bundle.arrows) == 1:
        return _about(view, bundle.first)
    listed = list(_listed(view, bundle))
    more = [f"… and {len(listed) - MAX_TENSORS} more"] if len(listed) > MAX_TENSORS else []
    return "\n".join([bundle.flow.counted(len(bundle.arrows)), *listed[:MAX_TENSORS], *more])


def _listed(view: View, bundle: Bundle) -> Iterator[str]:
    values = view.recording.values
    for arrow in bundle.arrows:
        if arrow.value is not None:
            value = values[arrow.value]
            name = value.names[0] if value.names else arrow.slot
            yield f"{name} {labels.form(value)}".strip()


def _about(view: View, arrow: Arrow) -> str:
    if arrow.value is None:
        return ""
    value = view.recording.values[ValueId(arrow.value)]
    name = f"{arrow.slot}: " if arrow.slot and not arrow.slot.isdigit() else ""
    producer = view.recording.ops.get(OpId(value.producer or ""))
    made = f"\nfrom {producer.name}" if producer else ""
    text = f"{name}{labels.form(value)}{made}"
    leaving = view.given(arrow)
    if leaving is None or leaving == arrow.value:
        return text
    return f"{labels.form(view.recording.values[leaving])}\nafter what is hidden: {text}"
