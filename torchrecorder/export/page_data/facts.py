"""Facts: all recorded data of a place or tensor, as rows of a title and a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice

from torchrecorder.annotations.compiled import breaks_at, kernels_of
from torchrecorder.annotations.parameters import PARAMETERS, in_no_module
from torchrecorder.checks import plural
from torchrecorder.events import (
    COMPILED_GRAPH, GradId, OpKind, ScopeId, Slot, ValueId, names_gradient,
)
from torchrecorder.graph.failed_places import error_in
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.query.failed_backward import why_backward_failed
from torchrecorder.style import labels
from torchrecorder.style.differences import Differences
from torchrecorder.style.gradients import GradCaptions
from torchrecorder.style.region_captions import RegionCaptions
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.tree import TreeNode
from torchrecorder.views.view import BoxKind, View

FactRow = tuple[str, str]

DRAWS_RANDOM: FactRow = ("draws", "random numbers")
"""The row of an op that draws from a random generator, which the search of the page finds."""

MAX_LISTED = 200
"""The maximum number of siblings of a fold that are listed in its panel."""


class Facts:
    """The recorded data of the places of one view with everything open, without annotations.

    *notes* are additional lines about scopes, modules, ops and values, by id; *similar*: folded
    siblings may differ.
    """

    def __init__(self, view: View, notes: Mapping[str, tuple[str, ...]], similar: bool) -> None:
        self.view = view
        self.recording: RecordedRun = view.recording
        self.notes = notes
        self.similar = similar
        self.differences = Differences(view.recording)
        self.grads = GradCaptions(view.recording)
        self.regions = RegionCaptions(view.recording)
        self.kernels = kernels_of(view.recording)
        self.breaks = breaks_at(view.recording)

    def rows(self, place: TreeNode) -> tuple[FactRow, ...]:
        """The rows of a place; for a fold, those of its first sibling."""
        noted = tuple(("note", text) for text in self._noted(place.id))
        return (*noted, *self._compiled(place.id), *self._rows(place))

    def _compiled(self, item: str) -> Iterator[FactRow]:
        """The compiled graph of an op, and PyTorch's explanation of a graph break there."""
        graph = self.recording.measured.get(COMPILED_GRAPH, {}).get(item)
        if graph is not None:
            total = len(self.recording.compiled_graphs)
            yield "compiled", f"graph {graph:.0f} of {total}" if graph else "no, runs in Python"
        for kernel in self.kernels.get(item, ()):
            ops = self.recording.ops
            others = [ops[op].name for op in kernel.ops if op != item]
            fused = f", fused with {', '.join(others)}" if others else ""
            code = f", code in {kernel.code}" if kernel.code else ""
            yield "kernel", f"{kernel.number}: {kernel.name}{fused}{code}"
        for entry in self.breaks.get(item, ()):
            line = f" at {labels.source(entry.source)}" if entry.source is not None else ""
            yield "graph break", f"{entry.reason}{line}"
            texts = [entry.explanation, *entry.hints, entry.link]
            yield from (("graph break", text) for text in texts if text)

    def _noted(self, item: str) -> tuple[str, ...]:
        scope = self.recording.scopes.get(ScopeId(item))
        module = scope.module if scope is not None else None
        weights = self.recording.modules[module].stored if module is not None else ()
        return (
            *self.notes.get(item, ()), *self.notes.get(module or "", ()),
            *(f"{name}: {text}" for name, value in weights for text in self.notes.get(value, ())),
        )

    def _rows(self, place: TreeNode) -> tuple[FactRow, ...]:
        step = step_of(self.recording, place.id)
        scope = self._scope(step) if isinstance(step, Scope) else ()
        if place.fold:
            alike = ("repeats", f"{len(place.fold)} times")
            return (alike, *self._differing(place), *scope)
        if is_block(place.id):
            return (("step", "one of several that repeat together"),)
        if isinstance(step, Op):
            return tuple(self._op(step))
        return tuple(scope if step is not None else self._other(place.id))

    def _differing(self, place: TreeNode) -> Iterator[FactRow]:
        """The differences between the siblings of a fold, as a summary and for each sibling."""
        if self.similar and place.fold[0] in self.recording.scopes:
            yield from (("differs", text) for text in self.differences.brief(place.fold))
            yield from islice(self.differences.table(place.fold), MAX_LISTED)

    def run(self) -> tuple[FactRow, ...]:
        """The data of the run as a whole."""
        run = self.recording.run
        rows: list[FactRow] = [("PyTorch", run.torch_version), ("grad mode", run.grad_mode)]
        loose = in_no_module(PARAMETERS.on(self.recording))
        rows += [("params in no module", PARAMETERS.show(loose))] if loose else []
        rows += self._graphs()
        rows += [("note", note) for note in run.notes]
        rows += [("failed", failure.text(folder=False)) for failure in run.failures]
        rows += self._cause()
        if run.lost:
            rows.append(("lost", f"{plural(run.lost, 'fact')} could not be recorded"))
        return tuple(rows)

    def _graphs(self) -> Iterator[FactRow]:
        """The compiled graphs, one row each."""
        graphs = self.recording.compiled_graphs
        for graph in graphs:
            texts = [f"graph {graph.number} of {len(graphs)}", plural(graph.calls, "call")]
            kinds = Counter(call.kind for call in graph.unmatched)
            texts += [f"{count} of them no op ({kind})" for kind, count in kinds.items()]
            texts += [plural(graph.guards, "guard")] if graph.guards is not None else []
            texts += [f"ran {graph.runs} times"] if graph.runs != 1 else []
            texts += ["compiled again"] if graph.recompiled else []
            texts += [labels.source(graph.source)] if graph.source is not None else []
            yield "compiled", ", ".join(texts)

    def tensor(self, value: ValueId | None) -> tuple[FactRow, ...]:
        """The recorded data of the tensor of an arrow."""
        seen = self.recording.values.get(value) if value else None
        return (("tensor", self.form(seen)),) if seen is not None else ()

    def form(self, value: Value) -> str:
        """Shape, dtype, device and other properties of a tensor."""
        return _form(value.shape, value.dtype, value.device, value.kind, value.requires_grad)

    def _scope(self, scope: Scope) -> Iterator[FactRow]:
        module = self.recording.module_of(scope)
        if module is not None:
            yield "class", module.qualname
            yield from self._module(module, scope)
        else:
            yield scope.kind.value, " ".join((scope.cls, *self.regions.details(scope)))
        yield from self._slots("in", scope.inputs)
        yield from self._slots("out", scope.outputs)
        if module is not None:
            yield from self._stored("parameter", module.parameters)
            yield from self._stored("buffer", module.buffers)
        yield from self._failure(scope)

    def _module(self, module: Module, scope: Scope) -> Iterator[FactRow]:
        if module.detail:
            yield "settings", module.detail
        yield "mode", "training" if module.training else "evaluation"
        if len(module.calls) > 1:
            yield "call", f"{scope.call + 1} of {len(module.calls)}"

    def _slots(self, title: str, slots: Iterable[Slot]) -> Iterator[FactRow]:
        for slot in slots:
            name = "" if slot.name.isdigit() else slot.name
            yield f"{title} {name}".strip(), self.form(self.recording.values[slot.value])

    def _stored(self, title: str, slots: Iterable[Slot]) -> Iterator[FactRow]:
        for slot in slots:
            value = self.recording.values[slot.value]
            tied = f", tied: {', '.join(value.names)}" if len(value.names) > 1 else ""
            yield f"{title} {slot.name}", self.form(value) + tied

    def _op(self, op: Op) -> Iterator[FactRow]:
        values = self.recording.values
        yield "function", op.qualname or op.name
        if op.kind is OpKind.HIDDEN:
            yield "seen by", "autograd, or the edge of a scope, only"
        if op.random:
            yield DRAWS_RANDOM
        yield from op.arguments
        for slot, (title, form) in zip(op.inputs, self._slots("in", op.inputs)):
            stored = slot.value in self._stored_values
            form += f", {values[slot.value].role.value}" if stored else ""
            former = (slot.value, op.id) in self.recording.former_reads
            yield title, f"{form}, removed" if former else form
        for value_id in op.outputs:
            yield "out", self._output(op, values[value_id])
        grads = self.recording.owned.get(op.id, ())
        if grads:
            yield "autograd", ", ".join(grad.name for grad in grads)
        yield from self._failure(op)

    def _output(self, op: Op, value: Value) -> str:
        """An output of an op; a gradient with its name, because a pass has many."""
        name = f"{value.names[0]}: " if names_gradient(value.names) else ""
        return f"{name}{self.form(value)}{', written in place' if value.id in op.writes else ''}"

    @cached_property
    def _stored_values(self) -> frozenset[ValueId]:
        modules = self.recording.modules.values()
        return frozenset(slot.value for module in modules for slot in module.stored)

    def _other(self, item: str) -> Iterator[FactRow]:
        grad = self.recording.grad_nodes.get(GradId(item))
        if grad is not None:
            yield from (("autograd", line) for line in self.grads.tooltip(grad))
            return
        box = self.view.boxes[item]
        if box.kind is BoxKind.OUTPUT:
            numbers = [int(each.partition(":")[2]) for each in box.instances or (item,)]
            slots = [self.recording.outputs[number] for number in numbers]
            forms = [self.form(self.recording.values[slot.value]) for slot in slots]
            alike = f"{box.count} tensors of " if box.count > len(forms) else ""  # of one shape
            yield from (("out", alike + form) for form in islice(forms, MAX_LISTED))
            return
        value = self.recording.values[ValueId(item)]
        if box.is_group:
            for each in islice(filter(self.recording.values.__contains__, box.members), MAX_LISTED):
                one = self.recording.values[ValueId(each)]
                yield (*one.names, one.role.value)[0], self.form(one)
            return
        yield "tensor", self.form(value)
        for name in value.names:
            yield "name", name
        if value.trainable:
            yield "trained", "yes"

    def _failure(self, step: Scope | Op) -> Iterator[FactRow]:
        if step.failed:
            error = error_in(self.recording, step.id)
            if step.id in self.recording.run.running:
                yield "running", error or "when the run was saved"
            else:
                yield "failed", error or "yes"
            yield from self._cause() if error else ()

    def _cause(self) -> Iterator[FactRow]:
        cause = why_backward_failed(self.recording)
        if cause is not None:
            yield "cause", str(cause)


@lru_cache(maxsize=4096)
def _form(shape: tuple[int, ...], dtype: str, device: str, kind: str, requires_grad: bool) -> str:
    texts = [f"{labels.shape(shape)} {dtype} on {device}"]
    texts += [kind] if kind not in ("Tensor", "Parameter") else []
    texts += ["requires grad"] if requires_grad else []
    return ", ".join(texts)
