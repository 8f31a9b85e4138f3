"""Loops: a short text for the values that one iteration passes to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torchrecorder.events import GradId, OpId, ScopeId, ScopeKind, ValueId
from torchrecorder.graph.nodes import Module, Op, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of, step_of
from torchrecorder.style import labels
from torchrecorder.views.bundles import FlowClassifier, FlowKind
from torchrecorder.views.fold.blocks import PREFIX, is_block
from torchrecorder.views.view import Arrow, Box, BoxKind, Cluster, View

PLAIN = frozenset("input inputs self other tensors tensor mat1 mat2 vec x src args".split())
"""Generic names of arguments."""

_STORED = BoxKind.PARAMETER, BoxKind.BUFFER

MAX_LENGTH = 44
"""The maximum number of characters of the names in a caption."""


def feedback(view: View, drawn: Box | Cluster) -> tuple[Arrow, ...]:
    """The arrows to the next iteration of the loop *drawn*; none for a chain of different modules,
    except an open one with a box that only the next of them reads.

    If one of them leads to what runs again, all are listed, also those to different modules.
    """
    arrows = [item for item in drawn.carried if _is_read(view, item.head)]
    heads = {item.head: None for item in arrows if _is_run(view.recording, item.head)}
    again = any(_runs_again(view.recording, drawn, head) for head in heads)
    if not again and isinstance(drawn, Cluster):
        again = any(item.tail not in view.tails for item in arrows)
    return tuple(arrows) if again else ()


def next_round(view: View, back: Iterable[Arrow]) -> str:
    """``carried over: h, c`` for a loop: the names or shapes of the values that it passes on."""
    names = [*dict.fromkeys(_names(view, back))]
    text = ", ".join(names)
    while len(text) > MAX_LENGTH and len(names) > 1:
        names.pop()
        text = ", ".join([*names, "…"])
    return f"carried over: {labels.shorten(text, MAX_LENGTH)}"


def _names(view: View, arrows: Iterable[Arrow]) -> Iterator[str]:
    """For each value the argument in the next iteration, or its shape, with the number of values
    that have it; then other kinds."""
    flows, kinds = FlowClassifier(view), set[FlowKind]()
    values, names = dict[object, Value](), dict[object, str]()
    for arrow in arrows:
        flow = flows.kind(arrow, is_between_rounds=True)
        if flow is not FlowKind.TENSOR or arrow.value is None:
            kinds.add(flow)
            continue
        maker = _maker(view.recording, arrow.value)
        values.setdefault(maker, view.recording.values[arrow.value])
        if names.get(maker):
            continue
        name, _, place = _argument(view, arrow).partition(".")
        if name in PLAIN or not name or name.isdigit():
            names.setdefault(maker, "")
        else:
            names[maker] = f"{name} {place}" if place else name
    shapes = {maker: labels.value(values[maker]) for maker, name in names.items() if not name}
    number = Counter(shapes.values())
    for maker, name in names.items():
        text = name or shapes[maker]
        yield labels.alike(text, number[text]) if not name and number[text] > 1 else text
    yield from (f"{flow.value}s" for flow in FlowKind if flow in kinds)


def _argument(view: View, arrow: Arrow) -> str:
    """The argument of the outermost call, else of the head, that receives the value of *arrow*."""
    recording = view.recording
    head = step_of(recording, arrow.head)
    if head is None:
        return arrow.slot
    values = {slot.value for slot in head.inputs if slot.name == arrow.slot} | {arrow.value}
    for scope in reversed(_in_round(view, arrow)):
        names = [slot.name for slot in recording.scopes[scope].inputs if slot.value in values]
        if len(names) == 1 and not names[0].isdigit():
            return names[0]
    return arrow.slot


def _in_round(view: View, arrow: Arrow) -> Sequence[ScopeId]:
    """The scopes around the head of *arrow* that are inside the loop, innermost first."""
    tail, head = (view.boxes[end].cluster for end in (arrow.tail, arrow.head))
    folds = (
        item for item in view.nesting.around(head)
        if view.clusters[item].count > 1 and item in view.nesting.around(tail)
    )
    fold = next(folds, None)
    with_tail = frozenset(_around(view.recording, arrow.tail))
    around = _around(view.recording, arrow.head)
    if fold is None:
        return [scope for scope in around if scope not in with_tail]
    return [
        scope for scope in around  # those that are no clusters are in the closed head
        if scope not in view.clusters or fold in view.nesting.around(scope)
    ]


def _around(recording: RecordedRun, item: str) -> Sequence[ScopeId]:
    """The scopes around an op or a scope, innermost first."""
    step = step_of(recording, item)
    return recording.within(step.scope if isinstance(step, Op) else step.parent if step else None)


def _maker(recording: RecordedRun, value: ValueId) -> object:
    """*value*; or the line of code that computed it, if each iteration computes another size."""
    op = maker_of(recording, value)
    varies = op is not None and op.id in recording.varying_sizes
    return (op.source, op.qualname, op.outputs.index(value)) if varies and op else value


def _is_read(view: View, head: str) -> bool:
    """Whether *head* runs, or is a weight or buffer that has a box of its own."""
    box = view.boxes.get(head)  # an input or constant may be in the box of a group
    return _is_run(view.recording, head) or box is not None and box.kind in _STORED


def _is_run(recording: RecordedRun, head: str) -> bool:
    """Whether *head* is a call or an operation, and not a tensor or a grad node."""
    return head in recording.ops or head in recording.scopes


def _runs_again(recording: RecordedRun, drawn: Box | Cluster, head: str) -> bool:
    """Whether *head* is the same module or line of code in each iteration of the fold *drawn*.

    Other calls of the module, as in another training step, do not count.
    """
    if head in recording.ops and is_block(drawn.id):
        return True
    module = _module_around(recording, head)
    if module is None:
        scope = recording.scopes.get(ScopeId(drawn.id))
        return is_block(drawn.id) or scope is not None and scope.kind is ScopeKind.FUNCTION
    return len(module.calls) >= drawn.count and _rounds(recording, drawn, module) >= drawn.count


def _module_around(recording: RecordedRun, head: str) -> Module | None:
    """The module of a call, or the module in which an op ran; None for other boxes."""
    step = step_of(recording, head)
    within = recording.within(step.scope if isinstance(step, Op) else step.id if step else None)
    modules = (recording.module_of(recording.scopes[scope]) for scope in within)
    return next((module for module in modules if module is not None), None)


def _rounds(recording: RecordedRun, drawn: Box | Cluster, module: Module) -> int:
    """The number of siblings of a fold that call *module*, unfolded ones included."""
    item = drawn.id
    while is_block(item):
        item = item.removeprefix(PREFIX)
    node = recording.ops.get(OpId(item)) or recording.grad_nodes.get(GradId(item))
    around = recording.scopes[ScopeId(item)].parent if node is None else node.scope
    beside = set()
    for call in module.calls:
        within = (*recording.within(call), None)
        if around in within[1:]:
            beside.add(within[within.index(around) - 1])
    return len(beside)
