"""Call: the state of a torch function that is running."""

from __future__ import annotations

from torch import Tensor

from torchrecorder.capture.hooks.accumulation import Gradients
from torchrecorder.capture.hooks.python_calls import PythonCall
from torchrecorder.capture.modes.call_site import Caller
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.scope import OpenScope
from torchrecorder.capture.modes.mutation import RECEIVED, STATISTICS
from torchrecorder.events import OpId, Slot, SourceLine


class Call:
    """A torch function that is running."""

    __slots__ = (
        "op",
        "index",
        "facts",
        "place",
        "caller",
        "wrapped",
        "on_objects",
        "tensors",
        "added_to",
        "inputs",
        "arguments",
        "source",
        "function",
        "started",
    )

    op: OpId
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

    def writes(self, argument: str) -> bool:
        """Whether it writes this *argument*, one of those that its function can write."""
        if self.facts.name in STATISTICS:
            trains = ("training", "True") in self.arguments
            return trains or ("use_input_stats", "True") in self.arguments
        if argument.startswith("grads."):  # a fused optimizer divides gradients by a scale if given
            return any(name == "grad_scale" for name, _ in self.tensors)
        if self.facts.in_place or self.facts.name in RECEIVED:
            return True
        return "." in argument  # in a list: sort() writes only those
