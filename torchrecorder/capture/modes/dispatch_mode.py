"""DispatchMode: record operators at the dispatcher, where Python calls no torch function.

A dispatch mode works below function modes and below autograd: the autograd node of an operator
exists before the mode is called; ``grad_fn`` and the version of the result are set afterwards.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchrecorder.capture.autograd.walk import AutogradWalk
from torchrecorder.capture.internals.access import (
    DisableTorchFunction,
    TorchDispatchMode,
    next_node_number,
)
from torchrecorder.capture.modes.call import Call
from torchrecorder.capture.modes.call_site import direct
from torchrecorder.capture.modes.function_mode import OpRecorder
from torchrecorder.capture.modes.op_schema import FunctionFacts, operator_facts
from torchrecorder.capture.tensors.describe import VERSION_PENDING, innermost, tensors_in

_DETACH = torch.ops.aten.detach.default


class DispatchMode(TorchDispatchMode):
    """Records every operator that is dispatched in this thread.

    Args:
        calls: The recorder of the function mode.
        alone: Whether the function mode is inactive; then every call is recorded here.
        detaches: Whether the program may call ``detach``, and not only autograd.
    """

    def __init__(self, calls: OpRecorder, alone: bool, detaches: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = _DispatchedOps(calls)
        self.alone = alone
        self.detaches = detaches
        self.facts: dict[Any, FunctionFacts] = {}
        self.raised: str | None = None
        self.interrupted = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Called by PyTorch; after True it would import the compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func* and record it."""
        try:
            with DisableTorchFunction():  # function modes must not see operators
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
            tape.record_error("operators", error)
        if facts is None:
            return func(*args, **kwargs)
        if func is _DETACH and not self.alone:
            detached = func(*args, **kwargs)
            with tape.survives_errors("operators"):
                self._detached(detached, args[0])
            return detached
        return self.calls.run_op(func, facts, False, args, kwargs)

    def _facts_of(self, func: Any, args: tuple[Any, ...]) -> FunctionFacts | None:
        """The facts about *func*; None if this call is no op of its own."""
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = operator_facts(func)
        tape = self.calls.tape
        if facts.ignored or tape.op is not None or tape.is_elsewhere():
            return None  # not an op, part of a torch function, or not of this run
        return None if facts.name == "equal" and self._is_compiling(args) else facts

    def _detached(self, detached: Tensor, tensor: Tensor) -> None:
        """Store that autograd, or the TorchScript interpreter, has detached *tensor*."""
        values = self.calls.values
        (values.expect_alias if self.detaches else values.equate)(detached, tensor)

    def _is_compiling(self, args: tuple[Any, ...]) -> bool:
        """Whether the TorchScript interpreter compares constants while it compiles."""
        return all(self.calls.values.peek(argument) is None for argument in args)


class _DispatchedOps(OpRecorder):
    """Records the beginning and end of a call below autograd."""

    def __init__(self, above: OpRecorder) -> None:
        super().__init__(above.regions, above.backward)
        grads: Any = _DispatchedGrads(above.autograd)
        self.autograd = grads
        self.caller_at = direct

    def end(self, call: Call, result: Any) -> None:
        """Record the outputs and writes of the call, before autograd sets version and ``grad_fn``.
        """
        super().end(call, result)
        with self.tape.survives_errors("operators"):
            for _, tensor in (*tensors_in(result), *call.tensors):
                entry = self.values.entries.get(id(innermost(tensor)))
                if entry is not None and entry.producer == call.op and entry.version >= 0:
                    entry.version, entry.requires_grad = VERSION_PENDING, False


class _DispatchedGrads:
    """Finds the autograd nodes of dispatched ops, which are numbered before the op begins."""

    def __init__(self, walk: AutogradWalk) -> None:
        self.walk = walk
        self.start = next_node_number()
        self.end = walk.end

    def begin(self) -> None:
        """An op begins: it owns the nodes numbered since the previous op."""
        spans = self.walk.spans
        self.walk.since = max(self.start, spans[-1][0]) if spans else self.start
