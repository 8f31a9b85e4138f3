"""Below: hear operators as the dispatcher calls them, where no torch function is called.

A dispatch mode hears what runs one level below the function mode. What it is told lies below
autograd too: the grad node of an operator is there before it is called, and is put behind its
result afterwards, when its version is settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.call_site import DirectCalls
from torchrecorder.capture.modes.function_mode import Calls
from torchrecorder.capture.internals.access import (
    DisableTorchFunction,
    TorchDispatchMode,
    current_function_mode,
    next_node_number,
)
from torchrecorder.capture.modes.op_schema import FunctionFacts, operator_facts
from torchrecorder.capture.tensors.describe import UNSETTLED, innermost, tensors_in

if TYPE_CHECKING:
    from torchrecorder.capture.autograd.walk import AutogradWalk
    from torchrecorder.capture.modes.function_mode import FunctionCalls

_DETACH = torch.ops.aten.detach.default


class Below:
    """Listens below the torch functions, for a while."""

    def __init__(self, heard: FunctionCalls) -> None:
        self.heard = heard
        self.mode: DispatchCalls | None = None
        self.alone = False

    def listen(self, *, alone: bool, detaches: bool = False) -> bool:
        """Listen below from here on; False where modes of the program are in the way.

        Args:
            alone: Take off the function mode: here is all that can be heard.
            detaches: Else, that the program may detach tensors, and not only autograd.
        """
        if alone and current_function_mode() is not self.heard:
            return False
        mode = DispatchCalls(self.heard.calls, alone, detaches)
        mode.__enter__()  # type: ignore[no-untyped-call]
        self.alone, self.mode = False, mode
        if alone:
            try:
                self.heard.__exit__(None, None, None)
            except Exception:
                self.cease()
                raise
            self.alone = True
        return True

    def cease(self) -> DispatchCalls | None:
        """Listen as ever; gives the mode that listened meanwhile, if one did."""
        below, self.mode = self.mode, None
        if below is None:
            return None
        below.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        if self.alone:
            self.heard.__enter__()
        return below


class DispatchCalls(TorchDispatchMode):
    """Hears every operator that is dispatched in this thread."""

    def __init__(self, calls: Calls, alone: bool, detaches: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = _CallsBelow(calls)
        self.alone = alone
        self.detaches = detaches
        self.facts: dict[Any, FunctionFacts] = {}
        self.raised: str | None = None
        self.interrupted = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by PyTorch; to skip it would import the compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func* and note it."""
        try:
            with DisableTorchFunction():  # modes of others hear no operators
                return self._run(func, args, kwargs or {})
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        except Exception as error:
            self.raised = str(error)
            raise

    def _run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tape, facts = self.calls.tape, None
        try:
            facts = self._facts_of(func, args)
        except Exception as error:
            tape.lose("operators", error)
        if facts is None:
            return func(*args, **kwargs)
        if func is _DETACH and not self.alone:
            detached = func(*args, **kwargs)
            with tape.losing("operators"):
                self._set_aside(detached, args[0])
            return detached
        return self.calls.around(func, facts, False, args, kwargs)

    def _facts_of(self, func: Any, args: tuple[Any, ...]) -> FunctionFacts | None:
        """What is known of *func*; None if this call of it is no op of its own."""
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = operator_facts(func)
        tape = self.calls.tape
        if facts.ignored or tape.op is not None or tape.is_elsewhere():
            return None  # nothing, part of a torch function, or not of this run
        return None if facts.name == "equal" and self._compiles(args) else facts

    def _set_aside(self, detached: Tensor, tensor: Tensor) -> None:
        """Autograd sets a tensor aside, or the interpreter before it differentiates itself."""
        values = self.calls.values
        (values.expect_alias if self.detaches else values.equate)(detached, tensor)

    def _compiles(self, args: tuple[Any, ...]) -> bool:
        """Whether it is the interpreter that looks for equal constants in what it will run."""
        return all(self.calls.values.peek(argument) is None for argument in args)


class _CallsBelow(Calls):
    """What happens before and after a call that lies below autograd."""

    def __init__(self, above: Calls) -> None:
        grads: Any = _GradsBelow(above.autograd)
        super().__init__(above.tape, above.values, grads, above.regions, above.backward)
        self.sites = DirectCalls()

    def end(self, call: Call, result: Any) -> None:
        """Note what the call made and wrote; autograd has not come to it yet."""
        super().end(call, result)
        with self.tape.losing("operators"):
            for _, tensor in (*tensors_in(result), *call.tensors):
                entry = self.values.entries.get(id(innermost(tensor)))
                if entry is not None and entry.producer == call.op and entry.version >= 0:
                    entry.version, entry.requires_grad = UNSETTLED, False


class _GradsBelow:
    """Whose the grad nodes are: an op's begin where the op before it ended."""

    def __init__(self, walk: AutogradWalk) -> None:
        self.walk = walk
        self.start = next_node_number()
        self.end = walk.end

    def begin(self) -> None:
        """An op begins, and its node is already there."""
        spans = self.walk.spans
        self.walk.since = max(self.start, spans[-1][0] if spans else 0)
