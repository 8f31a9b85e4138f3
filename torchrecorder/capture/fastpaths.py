"""FastPaths: step aside where being heard would change which kernels run.

In evaluation, ``nn.TransformerEncoder``, its layers and ``nn.MultiheadAttention`` hand their
work to fused kernels, but not while a function mode listens: the results would differ in
their last bits. Around such a module the function mode is taken off, and a dispatch mode,
which they do not mind, hears the operators below instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode

from torchrecorder.capture.names import FunctionFacts, operator_facts

if TYPE_CHECKING:
    from torchrecorder.capture.functions import Calls, FunctionCalls
    from torchrecorder.capture.tape import Tape

_MODULES = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
NOTE = "fused kernels of nn.TransformerEncoder and nn.MultiheadAttention are shown as they ran"


class FastPaths:
    """Takes the function mode off around modules that would not be themselves under it."""

    def __init__(self, tape: Tape, heard: FunctionCalls) -> None:
        self.tape = tape
        self.heard = heard
        self.inside: int | None = None
        self.modes: tuple[TorchDispatchMode, FunctionCalls] | None = None

    def enter(self, module: nn.Module, inputs: list[tuple[str, Tensor]]) -> None:
        """*module* begins: step aside, if it can take a fast path."""
        if not isinstance(module, _MODULES) or self.inside is not None:
            return
        if _plausible(module, [tensor for _, tensor in inputs]):
            if _get_current_function_mode() is self.heard:
                self.heard.__exit__(None, None, None)
                below = DispatchCalls(self.heard.calls)
                below.__enter__()  # type: ignore[no-untyped-call]
                self.inside, self.modes = id(module), (below, self.heard)
                self.tape.notes.append(NOTE)

    def leave(self, module: nn.Module) -> None:
        """*module* ends."""
        if self.inside == id(module):
            self.restore()

    def restore(self) -> None:
        """Listen as ever; also after a module that was left without a word."""
        if self.modes is not None:
            below, heard = self.modes
            self.inside = self.modes = None
            below.__exit__(None, None, None)
            heard.__enter__()


def _plausible(module: nn.Module, inputs: list[Tensor]) -> bool:
    """Whether *module* may use its fused kernel: in evaluation, with no gradient to come."""
    if module.training or not torch.backends.mha.get_fastpath_enabled():
        return False
    if isinstance(module, nn.MultiheadAttention):
        if len(inputs) > 2 and not inputs[0] is inputs[1] is inputs[2]:
            return False
    if not torch.is_grad_enabled():
        return True
    return not any(each.requires_grad for each in (*inputs, *module.parameters()))


class DispatchCalls(TorchDispatchMode):
    """Hears every operator that is dispatched, one level below the torch functions."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = calls
        self.facts: dict[Any, FunctionFacts] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by PyTorch; to skip it would import the compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func* and note it."""
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = operator_facts(func)
        if facts.ignored:
            return func(*args, **(kwargs or {}))
        return self.calls.around(func, facts, True, args, kwargs or {})
