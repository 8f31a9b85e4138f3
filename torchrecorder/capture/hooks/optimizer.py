"""OptimizerSteps: record the steps of optimizers as regions.

The region is recognized by its frame, like others: if it raises, it ends when something else runs.
Hooks of PyTorch around steps give the exact time, also if no op follows, and the optimizer whose
state gives names to tensors, such as ``0.weight.exp_avg``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from torchrecorder.capture.hooks.attribute_names import AttributeNames
from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.internals.access import DisableTorchFunction, get_frame
from torchrecorder.capture.tape import Tape


def around_steps(before: Callable[..., None], after: Callable[..., None]) -> contextlib.ExitStack:
    """Call *before* and *after* around the steps of all optimizers, until the stack is closed."""
    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_pre_hook(before).remove)
        stack.callback(register_optimizer_step_post_hook(after).remove)
        return stack.pop_all()


def parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters that *optimizer* updates."""
    return [item for group in optimizer.param_groups for item in group["params"]]


class OptimizerSteps:
    """Records every optimizer step in this thread."""

    def __init__(self, tape: Tape, regions: Regions, names: AttributeNames) -> None:
        self.tape = tape
        self.regions = regions
        self.names = names

    def __enter__(self) -> OptimizerSteps:
        self._exit = around_steps(self._before, self._after)
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with self.tape.survives_errors("steps"):
            self._paused(self._begins, get_frame(1), optimizer)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        with self.tape.survives_errors("steps"):
            self._paused(self.regions.exit, get_frame(1))

    def _begins(self, step: FrameType, optimizer: Any) -> None:
        self.names.step_of(optimizer)
        self.regions.locate(step)

    def _paused(self, call: Callable[..., object], *given: Any) -> None:
        if self.tape.is_elsewhere():
            return
        self.tape.pause()
        with DisableTorchFunction():
            call(*given)
        self.tape.resume()
