"""OptimizerSteps: record the steps of optimizers as regions.

Like other regions, a step is recognized by its frame; after an exception it ends when code outside
runs. PyTorch's hooks around steps give the exact end, also if no op follows, and the optimizer,
whose state names tensors such as ``0.weight.exp_avg``, also those that its first step makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook, register_optimizer_step_pre_hook,
)

from torchrecorder.capture.hooks.attribute_names import AttributeNames
from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.internals.access import DisableTorchFunction, get_frame
from torchrecorder.capture.tape import Tape


def around_steps(before: Callable[..., None], after: Callable[..., None]) -> contextlib.ExitStack:
    """Register global pre- and post-hooks of optimizer steps; closing the stack removes them."""
    with contextlib.ExitStack() as stack:
        stack.callback(register_optimizer_step_pre_hook(before).remove)
        stack.callback(register_optimizer_step_post_hook(after).remove)
        return stack.pop_all()


def parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters that *optimizer* updates."""
    return [item for group in optimizer.param_groups for item in group["params"]]


class OptimizerSteps:
    """A context in which the optimizer steps of this thread are recorded."""

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
            self._paused(self._ends, get_frame(1), optimizer)

    def _begins(self, step: FrameType, optimizer: Any) -> None:
        self.names.step_of(optimizer)
        if self.tape.has_modes():  # else nothing in it is recorded
            self.regions.locate(step)

    def _ends(self, step: FrameType, optimizer: Any) -> None:
        self.regions.exit(step)
        self.names.step_ended(optimizer)

    def _paused(self, call: Callable[..., object], *given: Any) -> None:
        """Call *call* without function modes, while the user's clock is stopped."""
        if self.tape.is_elsewhere():
            return
        self.tape.pause()
        with DisableTorchFunction():
            call(*given)
        self.tape.resume()
