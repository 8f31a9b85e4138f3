"""Call: the state of a running torch function, and the gradients that a backward pass accumulates
to."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.autograd.graph import GradientEdge

from torchrecorder.capture.hooks.python_calls import PythonCall
from torchrecorder.capture.internals.access import ACCUMULATION
from torchrecorder.capture.modes.call_site import Caller
from torchrecorder.capture.modes.op_schema import RECEIVED, STATISTICS, FunctionFacts
from torchrecorder.capture.modes.random_draws import draws_random
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import (
    BYTES_OF_GRADIENT, GRAD_SUFFIX, Measured, OpId, OpKind, Slot, SourceLine, ValueId,
)
from torchrecorder.graph.nodes import Op

GradientRefs = list[tuple[str, "weakref.ref[Tensor]"]]
"""Weak references to the gradients that a backward pass accumulates to, with their names."""


class Accumulation:
    """The gradients that a call of ``backward`` accumulates to: of all leaves, or *only* of these.

    No Python call writes ``x.grad``, so the ``AccumulateGrad`` nodes are found before the pass. If
    ``x.grad`` exists from an earlier pass or op of the run, the pass reads it, and writes it in
    place if PyTorch does.
    """

    def __init__(self, values: TensorTable, nodes: Iterable[Any], only: Any) -> None:
        self.values = values
        self.leaves: list[ValueId] = []
        self.gradients: list[tuple[str, Tensor]] = []
        wanted = None if only is None else _leaves(only)
        for node in nodes:
            if node.name() == ACCUMULATION:
                variable = node.variable
                if wanted is None or any(variable is item for item in wanted):
                    self._add(variable)

    def _add(self, variable: Tensor) -> None:
        of = self.values.peek(variable)
        if of is None:
            return
        self.leaves.append(of)
        gradient = variable.grad
        if gradient is None:
            return
        if self.values.gradients.last is not None or id(gradient) in self.values.entries:
            self.values.read_gradient(gradient, of)
            if self.values.entries[id(gradient)].producer is not None:
                self.gradients.append((f"{of}{GRAD_SUFFIX}", gradient))

    def left_by(self, op: OpId) -> GradientRefs:
        """Store *op* as the last pass of these leaves; returns their gradients before it."""
        self.values.gradients.left.update(dict.fromkeys(self.leaves, op))
        return [(name, weakref.ref(gradient)) for name, gradient in self.gradients]


def _leaves(only: Any) -> list[Any]:
    """The leaves in the argument ``inputs`` of ``backward``."""
    listed = [only] if isinstance(only, (Tensor, GradientEdge)) else list(only)
    return [getattr(item.node, "variable", None) if isinstance(item, GradientEdge) else item
            for item in listed]


Written = tuple[str, Tensor, "Entry"]
"""An argument that may be written in place: its name, the tensor, and its entry."""


@dataclass(init=False, eq=False, slots=True)
class Call:
    """A torch function that is running."""

    op: OpId
    outer: OpId | None  # the backward pass whose hook called the function
    index: int
    facts: FunctionFacts
    place: OpenScope | None
    caller: Caller
    wrapped: bool  # inside a transformation of torch.func
    on_objects: bool  # an argument with __torch_function__ is no tensor
    tensors: list[tuple[str, Tensor]]
    added_to: GradientRefs
    inputs: tuple[Slot, ...]
    arguments: tuple[tuple[str, str], ...]
    source: SourceLine | None
    function: PythonCall | None
    started: float

    def row(
        self,
        kind: OpKind,
        outputs: tuple[ValueId, ...],
        writes: tuple[ValueId, ...],
        seconds: float | None,
        *,
        failed: bool,
    ) -> Op:
        """The event of the call."""
        facts, place, random = self.facts, self.place, False
        if facts.random_switches is not None and kind is OpKind.CALLED and not failed:
            random = draws_random(facts.random_switches, self.arguments, self.inputs)
        return Op(
            self.op, place.scope if place is not None else None, self.index, kind,
            facts.name, facts.qualname, self.inputs, outputs,
            outputs if writes == outputs else writes,
            self.arguments, self.source, seconds, place is not None and place.recompute, failed,
            random,
        )

    def was_given(self, tensor: Tensor) -> bool:
        """Whether *tensor* is one of the arguments."""
        return any(tensor is item for _, item in self.tensors)

    def only_read(self, writes: Collection[int]) -> list[tuple[ValueId, Tensor]]:
        """The arguments that it has not written, with their values; none of a backward pass.
        *writes*: those that it has, by ``id()``."""
        pairs = () if self.facts.runs_backward else zip(self.inputs, self.tensors)
        return [(slot.value, tensor) for slot, (_, tensor) in pairs if id(tensor) not in writes]

    def writes(self, argument: str) -> bool:
        """Whether this call writes *argument*, which its function may write."""
        if self.facts.name in STATISTICS:
            trains = ("training", "True") in self.arguments
            return trains or ("use_input_stats", "True") in self.arguments
        if argument.startswith("grads."):  # fused optimizers unscale gradients in place
            return any(name == "grad_scale" for name, _ in self.tensors)
        if self.facts.in_place or self.facts.name in RECEIVED:
            return True
        return "." in argument  # in a list: sort() writes only those

    def wrote(self, name: str, tensor: Tensor, entry: Entry) -> bool:
        """Whether the call wrote the argument *name*, where ``_version`` is not sufficient."""
        first = tensor is self.tensors[0][1]
        if self.facts.rebinds and first:
            return True
        if name.partition(".")[0] in self.facts.writes:
            if self.facts.dispatched or self.writes(name):
                return True
        if entry.version < 0:
            writes = self.facts.in_place or _asks_for_in_place(self.arguments)
            return name.partition(".")[0] == "out" or first and writes
        return tensor._version != entry.version

    def own_writes(self, found: Collection[Written]) -> Collection[Written]:
        """The arguments that the call itself wrote, among those in *found* with a new version.

        Views of one storage share a version counter. If the function is known to write one of them,
        the others have a new version too; those that require grad have a new ``grad_fn``.
        """
        targets = [self._is_target(name, tensor) for name, tensor, _ in found]
        known = {id(entry.storage) for (*_, entry), is_target in zip(found, targets) if is_target}
        return [
            each
            for each, is_target in zip(found, targets)
            if is_target or each[1].requires_grad or id(each[2].storage) not in known
        ]

    def made_gradient(self, values: TensorTable) -> ValueId:
        """The value of the tensor that the call set as ``grad`` of a leaf, which it only reads."""
        (leaf, given), (_, (_, gradient)) = self.inputs, self.tensors
        self.inputs, size = (given,), gradient.numel() * gradient.element_size()
        if leaf.value not in values.gradients.assigned:
            values.gradients.assigned.add(leaf.value)
            values.tape.write(Measured(BYTES_OF_GRADIENT, leaf.value, size))
        return values.add_value(gradient, self.op, names=(f"{leaf.value}{GRAD_SUFFIX}",))

    def _is_target(self, name: str, tensor: Tensor) -> bool:
        """Whether the function is known to write this argument."""
        facts, argument = self.facts, name.partition(".")[0]
        if argument == "out" or argument in facts.writes or argument in facts.declared:
            return True
        return facts.in_place and not facts.declared and tensor is self.tensors[0][1]


def _asks_for_in_place(arguments: tuple[tuple[str, str], ...]) -> bool:
    """Whether ``inplace=True`` is passed; False for dropout in evaluation mode."""
    return ("inplace", "True") in arguments and ("training", "False") not in arguments


def is_new_gradient(leaf: Tensor, gradient: Tensor | None) -> bool:
    """Whether *gradient*, which is set as ``grad`` of *leaf*, is a tensor other than its ``grad``.
    """
    return gradient is not None and not (leaf.is_leaf and leaf.grad is gradient)


def is_gradient_known(values: TensorTable, leaf: Tensor) -> bool:
    """Whether ``grad`` of *leaf* is None or has a value, so that reading it adds nothing."""
    return leaf.is_leaf and (leaf.grad is None or id(leaf.grad) in values.entries)
