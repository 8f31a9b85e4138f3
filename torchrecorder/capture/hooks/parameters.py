"""Registrations, TensorSwaps: what happens to parameters in functions that are no torch functions.

``Parameter(x)`` is none. If its registration were not seen, the parameter would be recorded in the
module that reads it first, and not in the one that registers it.

``torch.utils.swap_tensors`` exchanges the contents of tensors. Modules call it in ``to()`` and
``load_state_dict()`` if the program asks for it, and always for parameters that are tensor
subclasses. It refuses tensors with weak references, which the recorder has to all tensors. So while
a recorder is active, it does not see these, and its last step is recorded as an op.
"""

from __future__ import annotations

import contextlib
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook

from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import (
    PLAIN_TENSOR_TYPES, DisableTorchFunction, get_frame,
)
from torchrecorder.capture.internals.table import TENSOR_SWAPS
from torchrecorder.capture.internals.trials import find
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced
from torchrecorder.capture.tensors.entries import Entry
from torchrecorder.capture.tensors.tensor_table import TensorTable


class Registrations:
    """A context in which the parameters that modules register in this thread are recorded."""

    def __init__(self, regions: Regions, values: TensorTable) -> None:
        self.tape = regions.tape
        self.regions = regions
        self.values = values

    def __enter__(self) -> Registrations:
        self._remove = register_module_parameter_registration_hook(self._registered).remove
        return self

    def __exit__(self, *error: object) -> None:
        self._remove()

    def _registered(self, module: Module, name: str, parameter: Any) -> None:
        tape = self.tape
        if tape.is_elsewhere() or type(parameter) not in PLAIN_TENSOR_TYPES:
            return
        with tape.survives_errors("registrations"), DisableTorchFunction():
            if self.values.peek(parameter) is None:
                tape.pause()
                self._record(parameter, get_frame(1))
                tape.resume()

    def _record(self, parameter: Tensor, frame: FrameType) -> None:
        if self.values.storages.of(parameter).last is None:
            return  # it shares memory with no known tensor
        try:
            self.regions.locate(frame)
        except InternalWork:
            return
        around = self.regions.function
        self.tape.inside = around.inside if around is not None else None
        self.values.alias_of_known(parameter)
        self.tape.inside = None


_plain: Any = find(TENSOR_SWAPS.paths[0])

_FACTS = FunctionFacts(
    name="swap_tensors",
    qualname="torch.utils.swap_tensors",
    parameters=("t1", "t2"),
    reads_data=True,
    writes=("t1", "t2"),
    dispatched=True,
)


class TensorSwaps:
    """A context in which the swaps of one thread are recorded."""

    def __init__(self, functions: FunctionMode) -> None:
        self.functions = functions
        self.tape = functions.calls.tape

    def __enter__(self) -> TensorSwaps:
        _swaps.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _swaps.remove(self)

    def swap(self, plain: Callable[..., None], first: Any, second: Any) -> None:
        """Exchange the contents of two tensors by *plain*; recorded unless an op does it."""
        if self.tape.is_elsewhere() or self.tape.op is not None:
            plain(first, second)
        else:
            self.functions.calls.run_op(plain, _FACTS, True, (first, second), {})


def _swap(first: Any, second: Any) -> None:
    """Replaces the last step of ``swap_tensors``."""
    swap = _plain
    for item in _swaps.users:
        swap = functools.partial(item.swap, swap)
    swap(first, second)


def _references(tensor: Any) -> list[Any]:
    """The weak references to *tensor* that are not of the recorder.

    Those without a callback are left out too: Python shares them between all that create one.
    """
    return [
        item
        for item in weakref.getweakrefs(tensor)
        if type(item) is not Entry and (type(item), item.__callback__) != (weakref.ref, None)
    ]


@contextlib.contextmanager
def _patched() -> Iterator[None]:
    seen = types.SimpleNamespace(**{**vars(weakref), "getweakrefs": _references})
    with contextlib.ExitStack() as stack:
        for path, new in zip(TENSOR_SWAPS.paths if TENSOR_SWAPS.present else (), (_swap, seen)):
            home, _, name = path.rpartition(".")
            stack.enter_context(replaced(find(home), name, new))
        yield


_swaps: SharedPatch[TensorSwaps] = SharedPatch(_patched)
