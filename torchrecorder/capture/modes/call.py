"""Call: the state of a torch function that is running."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from torchrecorder.capture.hooks.accumulation import Gradients
from torchrecorder.capture.hooks.python_calls import PythonCall
from torchrecorder.capture.modes.call_site import Caller
from torchrecorder.capture.modes.mutation import RECEIVED, STATISTICS
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.events import OpId, Slot, SourceLine

Written = tuple[str, Tensor, "Entry"]
"""An argument that seems to be written: its name, the tensor, and its entry in the table."""


@dataclass(init=False, eq=False, slots=True)
class Call:
    """A torch function that is running."""

    op: OpId
    outer: OpId | None  # the backward pass in which a hook called the function
    index: int
    facts: FunctionFacts
    place: OpenScope | None
    caller: Caller
    wrapped: bool  # inside a transformation of torch.func
    on_objects: bool  # called with objects with __torch_function__ that are not tensors
    tensors: list[tuple[str, Tensor]]
    added_to: Gradients  # gradients of leaves that a backward pass adds to
    inputs: tuple[Slot, ...]
    arguments: tuple[tuple[str, str], ...]
    source: SourceLine | None
    function: PythonCall | None
    started: float

    def was_given(self, tensor: Tensor) -> bool:
        """Whether *tensor* is one of the arguments."""
        return any(tensor is item for _, item in self.tensors)

    def writes(self, argument: str) -> bool:
        """Whether the call writes this *argument*, one of those that its function may write."""
        if self.facts.name in STATISTICS:
            trains = ("training", "True") in self.arguments
            return trains or ("use_input_stats", "True") in self.arguments
        if argument.startswith("grads."):  # a fused optimizer divides gradients by a scale if given
            return any(name == "grad_scale" for name, _ in self.tensors)
        if self.facts.in_place or self.facts.name in RECEIVED:
            return True
        return "." in argument  # in a list: sort() writes only those

    def wrote(self, name: str, tensor: Tensor, entry: Entry) -> bool:
        """Whether the call wrote the argument *name*, if the version of *tensor* cannot tell."""
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
        """The arguments that were written, of those in *found* whose version increased.

        All parts of one memory share a version. If the function is known to write one part, the
        version tells nothing about the others; autograd has new nodes for those it tracks.
        """
        targets = [self._is_target(name, tensor) for name, tensor, _ in found]
        known = {id(entry.storage) for (*_, entry), is_target in zip(found, targets) if is_target}
        return [
            each
            for each, is_target in zip(found, targets)
            if is_target or each[1].requires_grad or id(each[2].storage) not in known
        ]

    def _is_target(self, name: str, tensor: Tensor) -> bool:
        """Whether the function is known to write this argument."""
        facts, argument = self.facts, name.partition(".")[0]
        if argument == "out" or argument in facts.writes or argument in facts.declared:
            return True
        return facts.in_place and not facts.declared and tensor is self.tensors[0][1]


def _asks_for_in_place(arguments: tuple[tuple[str, str], ...]) -> bool:
    """Whether the arguments request an in-place write; False for dropout in evaluation mode."""
    return ("inplace", "True") in arguments and ("training", "False") not in arguments
