"""Failed backward passes: the operation that overwrote or freed a tensor that the pass needed.

PyTorch raises the error in the node that needs the tensor. The recording also shows the operation
that wrote the tensor, the earlier pass that freed the graph, or the operation that cut the autograd
history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from torchrecorder.annotations.places import op_in_words
from torchrecorder.events import OpId, Role, ScopeKind, ValueId
from torchrecorder.graph.failed_places import failed_pass
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import maker_of
from torchrecorder.query.autograd_paths import (
    leading_to, needed_for, reached_from, roots_of, why_left,
)

BackwardFailureReason = Literal["modified in place", "graph freed", "no graph", "not in the graph"]

BRIEF: Mapping[BackwardFailureReason, str] = {
    "modified in place": "a tensor that it saved was modified in place",
    "graph freed": "an earlier pass freed what it had saved",
    "no graph": "the tensor has no autograd history",
    "not in the graph": "the result does not depend on a tensor",
}
"""Short texts for the reasons, for the box that failed."""

_SHAPE = re.compile(r"Tensor \[([\d, ]*)\]\]")
"""The shape in PyTorch's message about a tensor that was modified."""

_ELEMENT = re.compile(r"element (\d+) of tensors")


@dataclass(frozen=True)
class FailedBackward:
    """The reason why a backward pass failed. ``str()`` of it is a sentence.

    Attributes:
        reason: ``"modified in place"`` (a tensor that was saved for backward was overwritten),
            ``"graph freed"`` (an earlier backward pass freed the saved tensors), ``"no graph"``
            (the tensor on which ``backward()`` was called has no autograd history), ``"not in the
            graph"`` (the result does not depend on a tensor whose gradient was requested).
        text: The reason in words, with advice.
        ops: The operations that explain it, in run order: the one that saved the tensor and those
            that wrote it; or the earlier ``backward()`` and the operations that read results from
            before it; or those that cut the autograd history. May be empty.
        captions: The texts for these operations in figures, by id.
    """

    reason: BackwardFailureReason
    text: str
    ops: tuple[Op, ...] = ()
    captions: Mapping[OpId, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


def why_backward_failed(recording: RecordedRun) -> FailedBackward | None:
    """See `torchrecorder.Recording.why_backward_failed`; None if the pass was called elsewhere."""
    failure = recording.run.failure
    call = failed_pass(recording)
    if failure is None or call is None:
        return None
    search = _FailureSearch(recording, failure, call)
    for text, answer in (
        ("modified by an inplace operation", search.modified),
        ("through the graph a second time", search.freed),
        ("does not require grad and does not have a grad_fn", search.without_graph),
        ("not have been used in the graph", search.not_in_graph),
    ):
        if text in failure.message:
            return answer()
    return None


class _FailureSearch:
    """Searches the operations before the failure of *call* (``backward()``, ``grad()``)."""

    def __init__(self, recording: RecordedRun, failure: Failure, call: Op) -> None:
        self.recording = recording
        self.failure = failure
        self.call = call
        self.values = recording.values
        backward = {run.op for run in recording.backward_runs}
        self.forward = [
            op for op in recording.ops.values()
            if op.index < call.index and op.id not in backward and not op.recompute
        ]

    @cached_property
    def roots(self) -> list[ValueId]:
        """The tensors at which the pass started."""
        return roots_of(self.call)

    def _words(self, op: Op) -> str:
        return op_in_words(self.recording, op.id)

    # A saved tensor was written to ------------------------------------------------------

    def modified(self) -> FailedBackward | None:
        """The operation that saved the tensor, and the operations that wrote it before the pass."""
        op = self.recording.ops.get(self.failure.op or OpId(""))
        if op is None:
            return None
        saved = self._saved(op)
        storages = {self.values[value].storage: value for value in reversed(saved)}
        writers: list[tuple[Op, ValueId]] = []
        for later in self.forward:
            for value in later.writes if later.index > op.index else ():
                known = storages.get(self.values[value].storage)
                if known is not None and not self._without_version(later, value):
                    writers.append((later, known))
        if not writers:
            return None
        (first, value), others = writers[0], {later.id for later, _ in writers} - {writers[0][0].id}
        more = f" (and {len(others)} more)" if others else ""
        advice = "use an operation that is not in place, or write to a clone()"
        if self._around(first, ScopeKind.OPTIMIZER) is not None:
            advice = "run this backward pass before the step of the optimizer"
        text = (
            f"{self._saver(op)} saved {self._in_words(op, value)} for backward, and "
            f"{self._words(first)}{more} wrote to it afterwards: {advice}"
        )
        ops = {item.id: item for item in (op, *(later for later, _ in writers))}
        captions = {item: f"wrote to what {op.name} saved" for item in ops if item != op.id}
        return FailedBackward("modified in place", text, tuple(ops.values()), captions)

    def _saved(self, op: Op) -> list[ValueId]:
        """The tensors that *op*, or its custom function, may have saved; of a known shape."""
        found = [*(slot.value for slot in op.inputs), *op.outputs]
        function = self._around(op, ScopeKind.CUSTOM_FUNCTION)
        if function is not None:
            found += [slot.value for slot in (*function.inputs, *function.outputs)]
        found = [value for value in dict.fromkeys(found) if self.values[value].storage >= 0]
        sizes = _SHAPE.search(self.failure.message)
        if sizes is None:
            return found
        wanted = sorted(map(int, re.findall(r"\d+", sizes[1])))  # weights are saved transposed
        return [value for value in found if sorted(self.values[value].shape) == wanted] or found

    def _around(self, op: Op, kind: ScopeKind) -> Scope | None:
        """The innermost scope of a kind around *op*."""
        around = map(self.recording.scopes.__getitem__, self.recording.within(op.scope))
        return next((scope for scope in around if scope.kind is kind), None)

    def _saver(self, op: Op) -> str:
        """The custom function or operation that saved the tensor, in words."""
        function = self._around(op, ScopeKind.CUSTOM_FUNCTION)
        if function is None:
            return self._words(op)
        place = f" at {function.source.place}" if function.source is not None else ""
        return f"autograd.Function {function.name}{place}"

    def _without_version(self, op: Op, value: ValueId) -> bool:
        """Whether *op* wrote *value* through ``.data``, which autograd does not see."""
        storage = self.values[value].storage
        while True:
            same = [slot.value for slot in op.inputs if self.values[slot.value].storage == storage]
            maker = maker_of(self.recording, same[0]) if same else None
            if maker is None or same[0] in maker.writes:
                return False
            op = maker
            if op.name == "data":
                return True

    def _in_words(self, op: Op, value: ValueId) -> str:
        """The description of a tensor that *op* saved."""
        found = self.values[value]
        if found.names:
            return found.names[0]
        function = self._around(op, ScopeKind.CUSTOM_FUNCTION)
        inputs, outputs = op.inputs, op.outputs
        if function is not None:
            inputs, outputs = function.inputs, tuple(slot.value for slot in function.outputs)
        if value in outputs:
            return "its result"
        slot = next((slot.name for slot in inputs if slot.value == value), "")
        name = f"its argument {slot!r}" if slot and not slot.isdigit() else "its argument"
        return f"{name}{self._made(found)}"

    def _made(self, value: Value) -> str:
        maker = maker_of(self.recording, value.id)
        return f", the result of {self._words(maker)}," if maker is not None else ""

    # An earlier pass freed the graph ----------------------------------------------------

    def freed(self) -> FailedBackward | None:
        """The earlier pass that ran the node, and the ops that read results from before it."""
        runs = [
            run.run for run in self.recording.grad_runs
            if run.grad == self.failure.grad and not run.failed
        ]
        earlier = next((run for run in self.recording.backward_runs if run.run in runs), None)
        if earlier is None:
            return None
        first = self.recording.ops[earlier.op]
        text = f"{self._words(first)} ran on the same graph, and freed what it had saved"
        across, captions = [*self._across(first)], {first.id: "freed the graph"}
        if not across:
            advice = "call backward() once, on the sum; or pass retain_graph=True to the first call"
            return FailedBackward("graph freed", f"{text}: {advice}", (first,), captions)
        reader, value = across[0]
        slot = next(slot.name for slot in reader.inputs if slot.value == value)
        others = {op.id: op for op, _ in across}
        more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
        made = self.values[value]
        origin = f"{self._made(made)} from before that call"
        if made.producer == first.id:  # with create_graph=True
            origin = ", a result of that call"
        text = (
            f"{text}. Since then {self._words(reader)}{more} has read {slot!r}{origin}: "
            "detach() it, or pass retain_graph=True to the first call"
        )
        captions |= dict.fromkeys(others, "reads a result of the freed graph")
        return FailedBackward("graph freed", text, (first, *others.values()), captions)

    def _across(self, first: Op) -> Iterator[tuple[Op, ValueId]]:
        """The ops after *first* that read a tensor from before or its result, and led the pass to
        the failure. Those that read only its shape, as ``ones_like`` does, lead it nowhere."""
        needed = needed_for(self.roots, self.forward)
        failed = [self.failure.grad] if self.failure.grad is not None else []
        leading = leading_to(self.recording, failed)

        def leads(value: Value) -> bool:
            return value.grad is not None and value.grad.grad in leading

        for op in self.forward:
            made = (self.values[output] for output in needed.intersection(op.outputs))
            if op.index < first.index or not any(leads(value) for value in made):
                continue
            for slot in op.inputs:
                value = self.values[slot.value]
                maker = maker_of(self.recording, value.id)
                if maker is not None and maker.index <= first.index and leads(value):
                    yield op, slot.value
                    break

    # There is no graph ------------------------------------------------------------------

    def without_graph(self) -> FailedBackward:
        """The operations that cut the autograd history, the last one before the result first."""
        element = _ELEMENT.search(self.failure.message)
        number = int(element[1]) if element is not None else 0
        roots = self.roots[number:number + 1] or self.roots
        needed, cuts = set(roots), list[Op]()
        for op in reversed(self.forward):
            if needed.isdisjoint(op.outputs):
                continue
            if any(self.values[slot.value].requires_grad for slot in op.inputs):
                cuts.append(op)
            else:
                needed.update(slot.value for slot in op.inputs)
        if cuts:
            more = f" (and {len(cuts) - 1} more)" if len(cuts) > 1 else ""
            why = why_left(self.recording, cuts[0], needed)
            text = f"autograd is left in {self._words(cuts[0])}{more}: {why}"
            captions = dict.fromkeys((op.id for op in cuts), "autograd is left")
            return FailedBackward("no graph", text, tuple(reversed(cuts)), captions)
        return FailedBackward("no graph", self._without_grad(roots, needed))

    def _without_grad(self, roots: Sequence[ValueId], needed: set[ValueId]) -> str:
        """Why *roots*, which depend on all of *needed*, do not require grad."""
        maker = maker_of(self.recording, roots[0]) if roots else None
        if maker is not None and not maker.inputs:
            made = self._words(maker)
            return f"{made} made this tensor anew, from numbers and not from other tensors"
        passes = [
            run for run in self.recording.backward_runs
            if not needed.isdisjoint(self.recording.ops[run.op].outputs)
        ]
        for run in sorted(passes, key=lambda run: run.create_graph):
            gave = f"{self._words(self.recording.ops[run.op])} gave gradients without a graph"
            why = self._constant(run) if run.create_graph else "pass create_graph=True"
            return f"{gave}: {why}"
        text = "this tensor was computed only from tensors that do not require grad"
        frozen = sum(self.values[value].role is Role.PARAMETER for value in needed)
        if frozen:
            text += f", among them {frozen} frozen parameter{'s' * (frozen > 1)}"
        return text

    def _constant(self, run: BackwardRun) -> str:
        """Why gradients of a pass with ``create_graph=True`` do not require grad."""
        nodes = self.recording.grad_nodes
        ran = (nodes[item.grad].name for item in self.recording.grad_runs if item.run == run.run)
        custom = dict.fromkeys(
            name.removesuffix("Backward") for name in ran if name.endswith("Backward")
        )
        if not custom:
            return "what they were taken of is linear, so that they do not depend on its inputs"
        return (
            f"the backward of {' and '.join(custom)} made none, because it is marked as "
            "once_differentiable, leaves autograd, or does not depend on the inputs"
        )

    def not_in_graph(self) -> FailedBackward | None:
        """The tensors whose gradients were requested and that the graph does not reach."""
        edges = (self.values[root].grad for root in self.roots)
        reached = reached_from(self.recording, [edge.grad for edge in edges if edge is not None])
        leaves = {node.variable: node.id for node in self.recording.grad_nodes.values()}
        apart = []
        for slot in self.call.inputs:
            value = self.values[slot.value]
            node = value.grad.grad if value.grad is not None else leaves.get(slot.value)
            if slot.name.startswith("inputs") and node not in reached:
                apart.append(self._asked(slot.name, value))
        if not apart:
            return None
        names = " and ".join(apart)
        text = f"the result does not depend on {names}: allow_unused=True gives None for it"
        return FailedBackward("not in the graph", text, (self.call,))

    def _asked(self, slot: str, value: Value) -> str:
        """A tensor whose gradient was requested, by its name or its index among the arguments."""
        name, _, number = slot.partition(".")
        return value.names[0] if value.names else f"{name}[{number or 0}]"


MAX_TENSORS = 4
"""The maximum number of listed tensors."""


def failed_inputs(recording: RecordedRun) -> str:
    """The origin of each input of the failed operation, as text. Empty if no forward operation
    failed, or if none of its inputs was computed.

    Shapes that do not match are often caused by an earlier operation: ``"tensors.1 is the result of
    conv_transpose2d() in up at unet.py:30"``.
    """
    failure = recording.run.failure
    op = recording.ops.get(failure.op) if failure is not None and failure.op is not None else None
    if failure is None or op is None or failure.backward:
        return ""
    found = [*_made(recording, op)]
    more = [f"{len(found) - MAX_TENSORS} more"] if len(found) > MAX_TENSORS else []
    return "; ".join([*found[:MAX_TENSORS], *more])


def _made(recording: RecordedRun, op: Op) -> Iterator[str]:
    """One sentence for each input that an operation of the run computed."""
    for name, value in dict.fromkeys(op.inputs):
        maker = recording.values[value].producer
        if maker is not None:
            yield f"{name} is the result of {op_in_words(recording, maker)}"
