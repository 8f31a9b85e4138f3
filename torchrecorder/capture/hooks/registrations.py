"""Registrations: parameters that the run makes of tensors belong to where their module gets them.

``Parameter(x)`` is no operation that PyTorch shows: it would be recorded where something reads the
parameter first, which may be another module.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook

from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES, DisableTorchFunction, get_frame
from torchrecorder.capture.tensors.tensor_table import TensorTable


class Registrations:
    """Records the parameters that modules get in this thread."""

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
                self._note(parameter, get_frame(1))
                tape.resume()

    def _note(self, parameter: Tensor, frame: FrameType) -> None:
        if self.values.storages.of(parameter).last is None:
            return  # nothing of it is known
        try:
            self.regions.locate(frame)
        except InternalWork:
            return
        around = self.regions.function
        self.tape.inside = around.inside if around is not None else None
        self.values.alias_of_known(parameter)
        self.tape.inside = None
