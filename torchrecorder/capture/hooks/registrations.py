"""Registrations: parameters that the run creates belong to the module that registers them.

``Parameter(x)`` is no torch function. Without this hook, the parameter would be recorded in the
module that reads it first.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook

from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import (
    PLAIN_TENSOR_TYPES, DisableTorchFunction, get_frame,
)  # fmt: skip
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
