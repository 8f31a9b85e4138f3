"""KernelLaunches: record the launches of Triton kernels as ops.

``kernel[grid](...)`` is no torch function, and the versions of what the kernel writes do not
increase. So while a recorder is active, the class that all kernels of Triton share has a
``__getitem__`` whose launcher records. What a kernel writes is read from its source; see
`stored_parameters`.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

from torchrecorder.capture.internals.access import DisableTorchFunction
from torchrecorder.capture.modes.function_mode import FunctionCalls
from torchrecorder.capture.modes.kernel_source import function_of, stored_parameters
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.state.shared import Shared, replaced


class KernelLaunches:
    """A context in which launches in one thread are recorded, if Triton is imported before it."""

    def __init__(self, functions: FunctionCalls) -> None:
        self.functions = functions
        self.tape = functions.calls.tape
        self._facts: dict[Any, FunctionFacts] = {}

    def __enter__(self) -> KernelLaunches:
        _launches.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _launches.remove(self)
        self._facts.clear()

    def launch(self, kernel: Any, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Launch *kernel* by *plain* and record it, unless an operator launches it inside."""
        facts = None
        with self.tape.losing("kernels"):
            if not self.tape.is_elsewhere() and self.functions.records_kernel():
                facts = self._facts_of(kernel)
        if facts is None:
            return plain(*args, **kwargs)
        return self.functions.calls.around(_alone(plain), facts, True, args, kwargs)

    def _facts_of(self, kernel: Any) -> FunctionFacts:
        if kernel not in self._facts:
            function = function_of(kernel)
            self._facts[kernel] = FunctionFacts(
                name=function.__name__,
                qualname=f"{function.__module__}.{function.__qualname__}",
                parameters=tuple(kernel.arg_names),
                reads_data=True,
                writes=stored_parameters(function),
                dispatched=True,
            )
        return self._facts[kernel]


def _alone(plain: Callable[..., Any]) -> Callable[..., Any]:
    """*plain*, in which torch functions are not recorded: tuning calls kernels many times."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunction():
            return plain(*args, **kwargs)

    return call


def _watched() -> contextlib.AbstractContextManager[None]:
    interface: Any = getattr(sys.modules.get("triton.runtime.jit"), "KernelInterface", None)
    if interface is None:  # Triton is not imported
        return contextlib.nullcontext()
    plain = interface.__getitem__

    def getitem(kernel: Any, grid: Any) -> Any:
        launcher = plain(kernel, grid)
        for item in _launches.users:
            launcher = functools.partial(item.launch, kernel, launcher)
        return launcher

    return replaced(interface, "__getitem__", getitem)


_launches: Shared[KernelLaunches] = Shared(_watched)
