"""Captions: the lines of text on boxes and clusters, and their tooltips."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from torchrecorder.annotations.places import module_path
from torchrecorder.events import (
    CONVERTED, FUNCTION, FunctionId, GradId, OpId, ScopeId, Slot, ValueId,
)
from torchrecorder.graph.end_names import end_title
from torchrecorder.graph.failed_places import error_in
from torchrecorder.graph.nodes import GradNode, Op, Scope, Value
from torchrecorder.graph.relations import step_of
from torchrecorder.graph.running_sums import sum_sign, sums_rounds
from torchrecorder.graph.structural_hash import is_inactive
from torchrecorder.query.failed_backward import BRIEF, why_backward_failed
from torchrecorder.style import labels
from torchrecorder.style.communications import CommunicationCaptions
from torchrecorder.style.composites import MAX_CAPTION_LENGTH, Composites
from torchrecorder.style.differences import Differences
from torchrecorder.style.figure import Text
from torchrecorder.style.gradients import GradCaptions
from torchrecorder.style.hyperparameters import SHOWN_BY_SHAPE, arguments, hyperparameters
from torchrecorder.style.merge_captions import first_to_last, times, together
from torchrecorder.style.region_captions import REGIONS, RegionCaptions, region_title
from torchrecorder.style.renaming import Renaming
from torchrecorder.style.style import Style
from torchrecorder.style.weights import Weights
from torchrecorder.views.auto_depth import UNITS
from torchrecorder.views.fold.blocks import is_block, op_key
from torchrecorder.views.view import Box, BoxKind, Cluster, View

ATTENTION = "scaled_dot_product_attention"

ROWS = 24
"""The maximum number of siblings listed in the tooltip of a fold."""


class Captions:
    """The captions of one view. Boxes in *repeated* clusters stand for several calls."""

    def __init__(self, view: View, style: Style, repeated: Collection[str] = ()) -> None:
        self.repeated = repeated
        self.drawn = view.boxes.keys()
        self.recording = recording = view.recording
        self.style = style
        self.weights = Weights(recording)
        self.usual = labels.usual_dtype(recording)
        self.sent = CommunicationCaptions(view)
        self.renamed = Renaming(style.rename)
        self.composites = Composites(recording, self.renamed.cls)

    @cached_property
    def differences(self) -> Differences:
        """The differences between siblings."""
        return Differences(self.recording)

    @cached_property
    def regions(self) -> RegionCaptions:
        """The captions of regions."""
        return RegionCaptions(self.recording)

    @cached_property
    def grads(self) -> GradCaptions:
        """The texts about grad nodes."""
        return GradCaptions(self.recording)

    def box(self, box: Box) -> tuple[Text, ...]:
        """The lines on a box, its title first."""
        return self._finished(self._lines(box), box)

    def _finished(self, lines: tuple[Text, ...], drawn: Box | Cluster) -> tuple[Text, ...]:
        """*lines* with wrapped names, and the number of repeats that have the box."""
        if self.style.rename:
            lines = tuple(item for line in lines for item in labels.wrapped(line))
        if drawn.share is None:
            return lines
        return *lines, Text(f"in {drawn.share[0]} of {drawn.share[1]}")

    def _short(self, title: str) -> str:
        return title if title in self.renamed.given else labels.shorten(title)

    def _lines(self, box: Box) -> tuple[Text, ...]:
        if is_block(box.id):
            counted = self.weights.block(box) if self.style.counts else ""
            return self._block(box), *map(Text, filter(None, [counted]))
        if box.kind in (BoxKind.MODULE, BoxKind.REGION):
            return self._closed(box)
        if box.kind in (BoxKind.OP, BoxKind.HIDDEN):
            return self._op(self.recording.ops[OpId(box.id)], box)
        if box.kind is BoxKind.GRAD:
            return self._grad(self.recording.grad_nodes[GradId(box.id)], box)
        if box.kind is BoxKind.OUTPUT:
            return self._output(box)
        if box.kind is BoxKind.TENSOR:
            return (Text(self._form(box)),)
        return self._value(box)

    def _grad(self, grad: GradNode, box: Box) -> tuple[Text, ...]:
        failed = self._failure(grad.id) if grad.failed else ()
        lines = [*self.grads.lines(grad, box.members), *failed]
        if grad.owner is None or grad.owner not in box.members:
            return tuple(lines)
        title, *details = self._op(self.recording.ops[grad.owner], box)
        return Text(f"{title.text}: {grad.name}", "title"), *details, *lines[1:]

    def cluster(self, cluster: Cluster) -> tuple[Text, ...]:
        """The lines in the corner of a cluster."""
        return self._finished(self._corner(cluster), cluster)

    def _corner(self, cluster: Cluster) -> tuple[Text, ...]:
        if op := self.recording.ops.get(OpId(cluster.id)):
            return (Text(self._op_title(op), "title"),)
        if is_block(cluster.id):
            return (self._block(cluster),)
        scope = self.recording.scopes[ScopeId(cluster.id)]
        title = Text(self.title(scope, cluster), "title")
        text = self._hyperparameters(scope, cluster.instances) if self.style.details else ()
        lines = [*(labels.filled(text, width=30) if text else ()), *self._differing(scope, cluster)]
        if self.style.counts:
            single = cluster.id not in self.repeated
            lines += filter(None, [self.weights.open(scope, self.drawn, single)])
        if self.style.details:
            lines += self.sent.open(cluster)
        raised = any((it.scope, it.op) == (scope.id, None) for it in self.recording.run.failures)
        return title, *map(Text, lines), *(self._failure(scope.id) if raised else ())

    def _block(self, drawn: Box | Cluster) -> Text:
        """The title of siblings that repeat as a block, or of the ops of a loop."""
        name = labels.shorten(labels.names(drawn.names) or "loop")
        return Text(name + labels.folded(drawn.count), "title")

    def _closed(self, box: Box) -> tuple[Text, ...]:
        scope = self.recording.scopes[ScopeId(box.id)]
        lines = [Text(self.title(scope, box), "title")]
        lines.extend(Text(line) for line in self._details(scope, box))
        if self.style.counts:
            single = box.count < 2 and box.cluster not in self.repeated
            lines.extend(Text(line) for line in self.weights.lines(scope, box, single))
        lines.extend(Text(line) for line in self._differing(scope, box))
        if self.style.details:
            lines.extend(map(Text, self.sent.closed(box.members)))
        if scope.failed:
            lines.extend(self._failure(scope.id))
        return tuple(lines)

    def _differing(self, scope: Scope, drawn: Box | Cluster) -> tuple[str, ...]:
        """The differences between the siblings of a fold, or between counterparts inside it."""
        if not self.style.details or len(drawn.instances) < 2:
            return ()
        plain = not any(isinstance(child, Scope) for child in self.recording.children[scope.id])
        if drawn.count < 2 and isinstance(drawn, Cluster):
            return ()  # the boxes in it show them
        kinds = ["part"]
        if drawn.count > 1:
            kinds += ["wiring"] if plain else ["size", "setting", "wiring"]
        elif not plain:
            kinds.append("setting")
        texts = self.differences.brief(drawn.instances, kinds)
        return tuple(labels.shorten(item, 40) for item in texts)

    def title(self, scope: Scope, drawn: Box | Cluster) -> str:
        """``name: Class``, with the range of names and ×N for a fold."""
        title = self._title(scope, drawn)
        if drawn.count < 2:
            return title
        return f"{title}  {times(self.recording, drawn.count, drawn.instances)}"

    def _title(self, scope: Scope, drawn: Box | Cluster) -> str:
        if scope.kind in REGIONS:
            return region_title(scope)
        function = scope.cls == FUNCTION
        cls = "" if function else self._short(self.renamed.cls(scope))
        title = self.renamed.scope(scope, self.recording)
        if title is None:
            name = labels.shorten(labels.names(drawn.names) or scope.name) + "()" * function
            name = cls if name == scope.cls else name
            title = name if not cls or cls == name else f"{name}: {cls}" if name else cls
            title += f" ({scope.kind.value})" if scope.kind in CONVERTED else ""
        return title or cls

    def _details(self, scope: Scope, box: Box) -> Iterator[str]:
        """The hyperparameters of a module, two to a line; without any, its contents."""
        if not self.style.details:
            return
        texts = self._hyperparameters(scope, box.instances)
        if scope.module is None:
            texts = self.regions.closed(scope, box.members)
        yield from labels.filled(texts, width=26) if texts else self._combined(scope, box.instances)

    def _combined(self, scope: Scope, instances: tuple[str, ...]) -> Iterator[str]:
        """The contents of a module in one line, if they are equal in all calls."""
        scopes = [self.recording.scopes[ScopeId(item)] for item in instances] or [scope]
        texts = list(map(self.composites.caption, scopes))
        merged = together([(text,) for text in texts]) if all(texts) else ()
        if len(merged) == 1:
            yield labels.shorten(merged[0], MAX_CAPTION_LENGTH)

    def _hyperparameters(self, scope: Scope, instances: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Hyperparameters, merged if there are several calls."""
        if len(instances) > 1:
            scopes = [self.recording.scopes[ScopeId(instance)] for instance in instances]
            return together([self._hyperparameters(scope) for scope in scopes])
        module = self.recording.module_of(scope)
        if module is None:
            return self.regions.details(scope)
        if is_inactive(module, self.recording.children[scope.id]):
            return ("off in eval mode",)
        return *hyperparameters(scope.cls, module.detail), *self._of_call(scope, module.qualname)

    def _of_call(self, scope: Scope, cls: str) -> tuple[str, ...]:
        """Flags of PyTorch's attention in one call, such as ``is causal``."""
        inside = self.recording.children[scope.id] if cls in UNITS else ()
        found = (item for item in inside if isinstance(item, Op) and item.name == ATTENTION)
        return tuple(text for op in found for text in arguments(op.name, op.arguments))

    def _failure(self, node: str) -> Iterator[Text]:
        cause = why_backward_failed(self.recording)
        other = "still running" if node in self.recording.run.running else "failed"
        text = error_in(self.recording, node, BRIEF[cause.reason] if cause else None) or other
        yield from map(Text, textwrap.wrap(labels.first_sentences(text, 240), 44))

    def _op(self, op: Op, box: Box) -> tuple[Text, ...]:
        is_sum = sums_rounds(op, box.members, self.recording.running_sums)
        title = self._op_title(op.replace(name=sum_sign(op)) if is_sum else op)
        lines = [Text(title + labels.folded(box.count), "title")]
        shown = is_sum or not op.arguments or op.name in SHOWN_BY_SHAPE or self._is_shown_around(op)
        if self.style.details and not shown:
            texts = labels.filled(arguments(op.name, self._given(op, box)), width=22)
            lines.extend(Text(line) for line in texts)
        lines.extend(map(Text, self.sent.op(op.id)))
        if op.failed:
            lines.extend(self._failure(op.id))
        return tuple(lines)

    def _op_title(self, op: Op) -> str:
        if not self.style.rename:
            return labels.shorten(op.name)
        return self._short(self.renamed.op(op, self.recording))

    def _given(self, op: Op, box: Box) -> tuple[tuple[str, str], ...]:
        """The arguments of an op, with ranges if it stands for all iterations of a loop."""
        ops = self.recording.ops
        if box.instances:  # of ops, or of the grad nodes of ops that have one each
            grads = self.recording.grad_nodes
            owners = [
                grads[GradId(one)].owner if one in grads else OpId(one) for one in box.instances
            ]
            return _spanned([ops[owner].arguments for owner in owners if owner is not None])
        alike = [ops[OpId(member)] for member in box.members if member in ops and member != op.id]
        alike = [item for item in alike if item.name == op.name]
        if not alike or all(item.arguments == op.arguments for item in alike):
            return op.arguments
        key = op_key(self.recording, op)
        rounds = [op, *(item for item in alike if op_key(self.recording, item) == key)]
        return _spanned([item.arguments for item in rounds])

    def _is_shown_around(self, op: Op) -> bool:
        """Whether the cluster around an op shows its arguments, as those of its module."""
        scope = self.composites.filled_by(op)
        module = self.recording.module_of(scope) if scope is not None else None
        return module is not None and bool(module.detail)

    def _value(self, box: Box) -> tuple[Text, ...]:
        value = self.recording.values[ValueId(box.id)]
        name = self._short(self._near(value, box))
        if box.is_group:
            return Text(name, "title"), Text(f"{box.count} tensors")
        return Text(name + labels.folded(box.count), "title"), Text(self._form(box))

    def _form(self, box: Box) -> str:
        """The shape of a tensor; if repeats differ, the first and the last shape."""
        values = map(self.recording.values.__getitem__, map(ValueId, box.instances or (box.id,)))
        return first_to_last([labels.value(value, self.usual) for value in values])

    def _near(self, value: Value, box: Box) -> str:
        """A parameter name relative to the cluster of its box, or the range of several."""
        renamed = self.renamed.tensor(value.names, box.kind.value, self.recording)
        if renamed is not None:
            return renamed
        names = box.names or (*value.names, box.kind.value)[:1]
        if names[0].isdigit():
            return end_title(box.kind.value, labels.names(names))
        cluster = ScopeId(box.cluster or "")
        path = module_path(self.recording, cluster if cluster in self.recording.scopes else None)
        return labels.names(tuple(name.removeprefix(f"{path}." * bool(path)) for name in names))

    def _output(self, box: Box) -> tuple[Text, ...]:
        numbers = (int(item.partition(":")[2]) for item in box.instances or (box.id,))
        slots = [self.recording.outputs[number] for number in numbers]
        shapes = [labels.value(self.recording.values[slot.value], self.usual) for slot in slots]
        name = labels.names(box.names) or slots[0].name
        title = end_title("output", name)
        renamed = self.renamed.find([title, "output"])
        title = labels.shorten(title) if renamed is None else renamed
        lines = labels.wrapped_at_dot(title + labels.folded(box.count))
        return *lines, Text(first_to_last(shapes))

    def full_name(self, node: str) -> str:
        """The full name of a scope, op, value or grad node, with its path."""
        recording = self.recording
        step = step_of(recording, node)
        if isinstance(step, Scope):
            return step.path or step.name
        if step is not None:
            around = recording.scopes[step.scope].path if step.scope is not None else ""
            return f"{around}.{step.name}" if around else step.name
        value, grad = recording.values.get(ValueId(node)), recording.grad_nodes.get(GradId(node))
        if grad is not None:
            return grad.name
        if value is not None:
            return value.names[0] if value.names else value.role.value
        return "repeated" if is_block(node) else node.replace("out:", "output ")

    def tooltip(self, box: Box) -> str:
        """Everything known about a box, line by line."""
        step = step_of(self.recording, box.id)
        if isinstance(step, Op):
            return self._about_op(step)
        if step is not None:
            return self.scope_tooltip(step, box)
        grad = self.recording.grad_nodes.get(GradId(box.id))
        if grad is not None:
            return "\n".join(self.grads.tooltip(grad))
        values = [self.recording.values[ValueId(item)] for item in box.members
                  if item in self.recording.values and not is_block(box.id)]
        if box.is_group:
            named = [(*value.names, value.role.value)[0] for value in values]
            return "\n".join(map("{}: {}".format, named, map(labels.value, values)))
        return "\n".join(_about_value(values[0])) if values else ""

    def scope_tooltip(self, scope: Scope, drawn: Box | Cluster) -> str:
        """Full name, class, inputs and outputs, source line, and differences of siblings."""
        module = self.recording.module_of(scope)
        about = [scope.path or scope.name, module.qualname if module else scope.cls]
        call = self.recording.function_calls.get(FunctionId(scope.id.partition(":")[0]))
        if call is not None:
            about[1:] = [f"{call.name}, defined at {labels.at(call.file, call.line)}"]
        if module is not None and module.detail:
            about.append(labels.shorten(module.detail, 200))
        about += self._flow(scope.inputs, [slot.value for slot in scope.outputs])
        about += [labels.source(scope.source), *self._each(drawn)]
        return "\n".join(filter(None, about))

    def _each(self, drawn: Box | Cluster) -> Iterator[str]:
        """The differences of each sibling of a fold."""
        if drawn.count > 1 and drawn.instances:
            rows = self.differences.table(drawn.instances)
            yield from (f"{name}: {text}" for name, text in islice(rows, ROWS))
            if len(drawn.instances) > ROWS:
                yield f"… and {len(drawn.instances) - ROWS} more"

    def _about_op(self, op: Op) -> str:
        about = [op.qualname or op.name]
        if op.arguments:
            message = ", ".join([f"{name}={text}" for name, text in op.arguments])
            about.append(labels.shorten(message, 200))
        about += self._flow(op.inputs, op.outputs)
        about += ["draws random numbers" if op.random else "", labels.source(op.source)]
        return "\n".join(filter(None, about))

    def _flow(self, inputs: Iterable[Slot], outputs: Iterable[ValueId]) -> list[str]:
        """The lines of inputs, by name, and outputs."""
        values = self.recording.values
        taken = [
            ("" if name.isdigit() or not name else f"{name} ") + labels.value(values[value])
            for name, value in inputs
        ]
        ends = ("in", taken), ("out", [labels.value(values[value]) for value in outputs])
        return [labels.shorten(f"{end}: {', '.join(forms)}", 200) for end, forms in ends if forms]


def _spanned(rounds: Sequence[tuple[tuple[str, str], ...]]) -> tuple[tuple[str, str], ...]:
    """The merged arguments of several calls; of the first call, if names differ."""
    first = rounds[0]
    if any([name for name, _ in item] != [name for name, _ in first] for item in rounds):
        return first
    return tuple(
        (name, labels.span([item[place][1] for item in rounds]))
        for place, (name, _) in enumerate(first)
    )


def _about_value(value: Value) -> Iterator[str]:
    yield ", ".join(value.names) or value.role.value
    yield f"{labels.form(value)} on {value.device}"
    if value.kind not in ("Tensor", "Parameter"):
        yield value.kind
    if value.requires_grad:
        yield "requires grad"
