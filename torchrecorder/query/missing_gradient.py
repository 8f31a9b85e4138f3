"""Missing gradients: why a parameter has no gradient, with the op and line where it is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torchrecorder.annotations.parameter_owners import (
    assigned_gradients, before_writes, cleared_gradients, flat_parameters, leaf_gradients,
    run_again, with_gradient,
)
from torchrecorder.annotations.places import op_in_words
from torchrecorder.annotations.statistics import gradients
from torchrecorder.events import STORED, GradId, GradSwitch, OpId, OpKind, Role, ValueId
from torchrecorder.graph.end_names import end_names
from torchrecorder.graph.nodes import GradNode, Op, Value
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.query.autograd_paths import (
    forward_ops, leading_to, needed_for, roots_of, why_left,
)
from torchrecorder.query.find import tensor_named

MissingGradientReason = Literal[
    "frozen", "unused", "not in the loss", "left autograd", "no backward", "not propagated",
    "cleared", "zero", "empty",
]

FROZEN = "it does not require grad (requires_grad=False)"
"""The text about a tensor that does not require grad."""

_TO_PYTHON = frozenset(("item", "tolist", "numpy", "float()", "int()", "complex()", "bool()"))
"""Ops that convert tensors to Python or NumPy numbers, which autograd does not track."""


@dataclass(frozen=True)
class MissingGradient:
    """The reason why a tensor has no gradient. ``str()`` of it is a sentence.

    Attributes:
        name: The tensor.
        reason: ``"frozen"`` (it does not or did not require grad), ``"unused"`` (no op read it),
            ``"not in the loss"`` (no tensor computed from it reaches the loss), ``"left autograd"``
            (such a tensor reaches the loss, but without autograd history), ``"no backward"`` (no
            pass was recorded), ``"not propagated"`` (a pass ran without a gradient for it),
            ``"cleared"`` (a post-accumulate-grad hook set it to None, as optimizers in backward),
            ``"zero"`` (it has one, but of zeros only; recorded with ``stats=True``), ``"empty"``
            (it has no elements, as where all of a sharded parameter is on other ranks).
        text: The reason in words.
        ops: The operations where the gradient was lost, in run order; may be empty.
    """

    name: str
    reason: MissingGradientReason
    text: str
    ops: tuple[Op, ...] = ()

    def __str__(self) -> str:
        has = "has a gradient of zeros" if self.reason == "zero" else "has no gradient"
        return f"{self.name} {has}: {self.text}"


def why_no_gradient(recording: RecordedRun, name: str) -> MissingGradient | None:
    """See `torchrecorder.Recording.why_no_gradient`."""
    return _GradientSearch(recording, tensor_named(recording, name)).answer()


class _GradientSearch:
    """Follows one tensor: through the data, and through autograd."""

    def __init__(self, recording: RecordedRun, value: Value) -> None:
        self.recording = recording
        self.value = value
        self.name = value.names[0] if value.names else value.id
        self.forward = forward_ops(recording)

    def answer(self) -> MissingGradient | None:
        """The first reason that holds."""
        hooks = cleared_gradients(self.recording).get(self.value.id)
        if hooks is not None:
            return self._because("cleared", f"it received one, which {hooks} set to None")
        if self.value.id in with_gradient(self.recording) | run_again(self.recording):
            return self._zeros()
        if self.value.id in assigned_gradients(self.recording):
            return None
        if 0 in self.value.shape:
            return self._because("empty", "it has no elements in this process")
        reading = [*self._reading(self.same)]
        frozen = [op for op in reading if not self._requires_grad(op.index)]
        always = len(frozen) == len(reading) if reading else self._is_frozen
        if self.value.role in STORED and always:
            return self._frozen(frozen)
        if not reading:
            return self._because("unused", f"no operation read it{self._why_not_read()}")
        if self.value.role is Role.INPUT and always and self.live == self.same:
            return self._frozen(frozen)
        if not self.reached & self.loss:
            return self._outside_the_loss()
        if not self.live & self.loss:
            return self._left(self._cuts())
        if not self.recording.backward_runs:
            return self._because("no backward", "no backward pass was recorded")
        return self._not_propagated()

    def _words(self, op: OpId) -> str:
        return op_in_words(self.recording, op)

    def _because(
        self, reason: MissingGradientReason, text: str, ops: Iterable[Op] = ()
    ) -> MissingGradient:
        return MissingGradient(self.name, reason, text, tuple(ops))

    def _zeros(self) -> MissingGradient | None:
        """The reason if it got only zeros: the last node on the way that received other numbers."""
        grads, ran = self.recording.grad_nodes, self.recording.grad_runs
        measured = [*gradients(self.recording)]
        given = [one for one in measured if grads[GradId(one.node)].variable in self.same]
        if not given or any(one.norm for one in given):
            return None
        other = {(one.run, one.node) for one in measured if one.norm and one.node in self.nodes}
        last = [grads[run.grad] for run in ran if (run.run, run.grad) in other][-1:]
        if not last:
            return self._because("zero", "the backward pass began with zeros")
        (node,) = last
        hook = self._zero_from_hook(node)
        if hook is not None:
            text = f"{self._words(hook.id)}, in a hook, made zeros that replaced the gradient"
            return self._because("zero", text, [hook])
        owner = [self.recording.ops[node.owner]] if node.owner is not None else []
        of = f" of {self._words(node.owner)}" if node.owner is not None else ""
        text = f"{node.name}{of} returned only zeros for it{self._zeros_in_forward(owner)}"
        return self._because("zero", text, owner)

    def _zeros_in_forward(self, ops: Iterable[Op]) -> str:
        """That an op also computed zeros: of weights that start at zero, so do adapters."""
        zeros = {one.node for one in self.recording.statistics if not one.norm}
        for op in ops:
            if op.outputs and zeros.issuperset(op.outputs):
                roles = {self.recording.values[slot.value].role for slot in op.inputs}
                why = ", as with weights that are zeros" if Role.PARAMETER in roles else ""
                return f"; its result is only zeros, too{why}"
        return ""

    def _zero_from_hook(self, node: GradNode) -> Op | None:
        """The op of a hook whose result, of zeros, replaced a gradient that *node* returned."""
        following = {edge.grad for edge in node.next if edge is not None}
        shapes = {
            gradient.shape for run in self.recording.grad_runs if run.grad in following
            for gradient in run.given if gradient is not None
        }
        zeros = {one.node for one in self.recording.statistics if not one.norm}
        for run in self.recording.backward_runs:
            for value in map(self.recording.values.__getitem__, run.replacements):
                if value.id in zeros and value.shape in shapes and value.producer is not None:
                    return self.recording.ops[value.producer]
        return None

    # Frozen tensors --------------------------------------------------------------------

    @property
    def _is_frozen(self) -> bool:
        """Whether it did not require grad when the run began."""
        return not (self.value.trainable or self.value.requires_grad)

    @cached_property
    def _switches(self) -> list[GradSwitch]:
        return [item for item in self.recording.grad_switches if item.value in self.same]

    def _requires_grad(self, position: int) -> bool:
        """Whether it required grad at this position in run order."""
        earlier = [item for item in self._switches if item.position <= position]
        if earlier:
            return earlier[-1].requires_grad
        return not self._switches[0].requires_grad if self._switches else not self._is_frozen

    def _frozen(self, ops: Sequence[Op], did: str = "read it") -> MissingGradient:
        """The reason if *ops* read it, or ran, while it did not require grad."""
        if not self._switches or not ops:
            return self._because("frozen", FROZEN)
        position = ops[0].index
        off = [item for item in self._switches if item.position <= position][-1:]
        on = [item for item in self._switches if item.position > position][:1]
        changes = [
            f"{item.requires_grad}{f' at {item.source.place}' if item.source else ''}"
            for item in (*off, *on)
        ]
        only = "" if off else "only later "
        text = (
            f"{self._words(ops[0].id)} {did} while it was frozen: requires_grad was {only}set to "
            f"{', and to '.join(changes)}"
        )
        return self._because("frozen", text, ops)

    # Dependent tensors ---------------------------------------------------------------

    @cached_property
    def same(self) -> set[ValueId]:
        """The tensor before the run, its values after writes, and those of its flat parameter."""
        storage, values = self.value.storage, self.recording.values.values()
        named = {
            value.id for value in values
            if storage >= 0 and value.storage == storage and value.names == self.value.names
        }
        firsts = before_writes(self.recording).items()
        held = {self.value.id, *self._flat}
        return named | held | {value for value, first in firsts if first in held}

    @cached_property
    def _flat(self) -> tuple[ValueId, ...]:
        """The flat parameter that holds its memory, unless the run made one of it."""
        flat = flat_parameters(self.recording).get(self.value.id)
        if flat is None or self.recording.values[flat].producer is not None:
            return ()
        return (flat,)

    @cached_property
    def reached(self) -> set[ValueId]:
        """All values that depend on it, through any operation."""
        found = set(self.same)
        for op in self.forward:
            if any(slot.value in found for slot in op.inputs):
                found.update(op.outputs)
        return found

    @cached_property
    def live(self) -> set[ValueId]:
        """The values that depend on it in the autograd graph."""
        values, nodes = self.recording.values.values(), self.nodes
        return {value.id for value in values if value.grad and value.grad.grad in nodes} | self.same

    @cached_property
    def nodes(self) -> set[GradId]:
        """The grad nodes that depend on it."""
        grads = self.recording.grad_nodes.values()
        starts = [grad.id for grad in grads if grad.variable in self.same]
        if self.value.grad is not None:
            starts.append(self.value.grad.grad)
        return leading_to(self.recording, starts)

    @cached_property
    def loss(self) -> set[ValueId]:
        """The tensors at which backward passes started; the outputs of the run if none ran."""
        calls = [self.recording.ops[run.op] for run in self.recording.backward_runs]
        if not calls:
            return {slot.value for slot in self.recording.outputs}
        adding = [call for call in calls if call.name != "grad"]  # to ``.grad``
        return {root for call in adding or calls for root in roots_of(call)}

    # Reasons --------------------------------------------------------------------------

    def _why_not_read(self) -> str:
        """Its module was never called, or another tensor was used in its place; else empty."""
        for module in self.recording.modules.values():
            owns = any(slot.value in self.same for slot in module.stored)
            if owns and not module.calls and module.names and not module.is_parameter_list:
                return f": module {module.names[0]!r} was never called"
        named = {
            value.id for value in self.recording.values.values()
            if self.value.names and value.names == self.value.names
        }
        instead = next(self._reading(named), None)
        if instead is None:
            return ""
        return (
            f": {self._words(instead.id)} read another tensor in its place, as with "
            "torch.func.functional_call()"
        )

    def _outside_the_loss(self) -> MissingGradient:
        """The reason if no tensor that depends on it reaches the loss."""
        ends = [
            op for op in self._reading(self.reached)
            if not any(value in self._read for value in op.outputs) and op.outputs
        ]
        outputs = dict.fromkeys(
            "the output" if names[0] == "output" else f"output {names[0]}"
            for box, value, names in end_names(self.recording)
            if box.startswith("out:") and value in self.reached and names
        )
        target = "the loss" if self.recording.backward_runs else "an output"
        nothing = f"no tensor computed from it reaches {target}"
        to_python = [op for op in self._reading(self.reached) if op.name in _TO_PYTHON]
        if to_python and not outputs:
            text = f"{nothing}: {self._converted(to_python[0])}"
            return self._because("left autograd", text, to_python)
        failed = [op for op in self._reading(self.reached) if op.failed]
        if failed and not ends and not outputs:
            text = f"{nothing}: {self._words(failed[-1].id)} failed"
            return self._because("not in the loss", text, failed)
        if self.live == self.same and not outputs:
            return self._left(self._reading(self.same))
        last = f": nothing reads the result of {self._words(ends[-1].id)}" if ends else ""
        unused = f", only {' and '.join(outputs)}" if outputs else last
        return self._because("not in the loss", f"{nothing}{unused}", ends[-1:])

    @cached_property
    def _read(self) -> set[ValueId]:
        return {slot.value for op in self.forward for slot in op.inputs}

    def _reading(self, values: set[ValueId]) -> Iterator[Op]:
        """The forward ops that read any of *values*."""
        for op in self.forward:
            if any(slot.value in values for slot in op.inputs):
                yield op

    def _cuts(self) -> Iterator[Op]:
        """The ops that cut the autograd history, if all ways to the loss lead through them."""
        needed = needed_for(self.loss, self.forward)
        for op in self._reading(self.live):
            if any(value in needed and value not in self.live for value in op.outputs):
                yield op

    def _left(self, ops: Iterable[Op]) -> MissingGradient:
        cuts = list(ops)
        first = cuts[0]
        if any(slot.value in self.same for slot in first.inputs):
            if not self._requires_grad(first.index) and self._switches:
                return self._frozen(cuts)
        if first.name == "alias" and first.kind is OpKind.PASS:
            return self._left_unseen(first)
        more = f", and {len(cuts) - 1} more operation{'s' * (len(cuts) > 2)}" * (len(cuts) > 1)
        text = f"autograd is left in {self._words(first.id)}{more}"
        lost = [value for value in first.outputs if value not in self.live]
        why = why_left(self.recording, first, lost)
        return self._because("left autograd", f"{text}: {why}", cuts)

    def _left_unseen(self, alias: Op) -> MissingGradient:
        """The reason if no operation leaves autograd: the program creates an alias (``.data``)."""
        ops = self.forward[: self.forward.index(alias)]
        reading = [*self._reading(self.reached)]
        to_python = [op for op in reading if op.name in _TO_PYTHON and op in ops]
        if to_python:
            return self._because("left autograd", self._converted(to_python[-1]), to_python[-1:])
        made, (given,) = self.recording.values[alias.outputs[0]], alias.inputs
        maker = self.recording.values[given.value].producer
        reader = next(self._reading({made.id}), None)
        read = f", which {self._words(reader.id)} reads" if reader else ""
        of = "it" if maker is None else f"the result of {self._words(maker)}"
        if made.kind == "Parameter":
            text = f"nn.Parameter() makes a new leaf of {of}{read}"
        else:
            text = f"a tensor that autograd does not track has the memory of {of}{read}"
        return self._because("left autograd", text, [reader] if reader else [])

    def _converted(self, op: Op) -> str:
        return (
            f"{self._words(op.id)} converts it to a Python number or NumPy array, which autograd "
            "does not track"
        )

    def _not_propagated(self) -> MissingGradient | None:
        """The reason if the graph leads from the loss to it: the node that returned no gradient."""
        for flat in leaf_gradients(self.recording).keys() & {*self._flat}:
            name = next(iter(self.recording.values[flat].names), "a flat parameter")
            text = f"{name} received the gradient, which was not given to this part of it"
            return self._because("not propagated", text)
        grads, ops = self.recording.grad_nodes, self.recording.ops
        ran = [run for run in self.recording.grad_runs if run.grad in self.nodes]
        got_nothing = {run.grad for run in ran if not any(run.given)}
        for item in ran:
            node = grads[item.grad]
            own = not node.name[-1:].isdigit()  # of a custom function
            for number, edge in enumerate(node.next):
                if not own or edge is None or edge.grad not in self.nodes:
                    continue
                if item.gave[number] is None if item.gave else edge.grad in got_nothing:
                    owner = [ops[node.owner]] if node.owner is not None else []
                    made = f" of {self._words(node.owner)}" if node.owner else ""
                    text = f"{node.name}{made} returned no gradient for it"
                    return self._because("not propagated", text, owner)
        failure = self.recording.run.failure
        if failure is not None:
            return self._because("not propagated", f"the run failed before: {failure.message}")
        passes = [ops[run.op] for run in self.recording.backward_runs]
        if self._switches and not any(self._requires_grad(call.index) for call in passes):
            return self._frozen(passes, "ran")
        if {call.name for call in passes} == {"grad"}:
            text = "grad() returns gradients and does not set .grad"
        else:
            text = "the backward pass computed the gradients of other tensors only (inputs=)"
        return self._because("not propagated", text)
