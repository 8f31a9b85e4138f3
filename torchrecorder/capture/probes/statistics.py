"""StatisticsProbe: statistics of tensors and gradients.

If a result is not finite, the arguments of its op that were not computed in the run, such as inputs
and weights, have statistics, too. They are computed immediately, in float64, on separate tensors
and without modes of the user; only the results are kept. Fake and meta tensors have none. The
statistics of a DTensor are those of its local tensor, which needs no communication.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import (
    DisableTorchFunction, FakeTensor, without_dispatch_modes,
)
from torchrecorder.capture.internals.processes import is_pending, local_part
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.scope import Choice, Gradients, Observer, chosen
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import on_inside
from torchrecorder.capture.tensors.storage import Storages
from torchrecorder.events import GradId, OpId, Statistics, ValueId


class StatisticsProbe(Observer):
    """Computes statistics of outputs of ops, of gradients that autograd nodes receive, and of other
    tensors where they may be the origin of NaN and infinities."""

    def __init__(
        self, tape: Tape, running: RunningModules, storages: Storages, choice: Choice
    ) -> None:
        self.tape = tape
        self.running = running
        self.storages = storages
        self.choice = choice
        self._measured: set[str] = set()
        self._made_bad = False  # the op that has just run

    def op_made(self, op: OpId, name: str, made: list[tuple[ValueId, Tensor]]) -> None:
        self._made_bad = False
        if self.choice is True or chosen(self.choice, self.running.all_paths(self.tape.scope)):
            for value, tensor in made:
                take = functools.partial(self._take, value, 0, -1)
                self.storages.when_arrived(tensor, take)

    def op_read(self, op: OpId, read: list[tuple[ValueId, Tensor]]) -> None:
        for value, tensor in read if self._made_bad else ():
            if value not in self._measured and not is_pending(tensor):
                self._take(value, 0, -1, tensor)

    def node_begins(self, grad: GradId, run: int, given: Gradients) -> None:
        running = self.running
        if self.choice is True or chosen(self.choice, running.all_paths(running.home(grad))):
            for index, tensor in enumerate(given):
                if isinstance(tensor, Tensor):
                    take = functools.partial(self._take, grad, index, run)
                    self.storages.when_arrived(tensor, take)

    node_runs_inside = node_begins

    def _take(self, node: str, index: int, run: int, tensor: Tensor) -> None:
        try:
            with DisableTorchFunction(), torch.no_grad(), without_dispatch_modes():
                found = on_inside(numbers, tensor)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            self.tape.record_error("statistics", error)
            return
        self._measured.add(node)
        if found is not None:
            measured = Statistics(node, index, run, *found)
            self.tape.write(measured)
            self._made_bad = self._made_bad or bool(measured.nans or measured.infs)


Sums = tuple[int, float, float, float, float, float, int, int, int]
"""Count; mean, std, min and max of the finite elements, or 0; norm; zeros, NaNs, infinities.

The norm is that of all elements: NaN or infinite if one of them is.
"""


def numbers(tensor: Tensor) -> Sums | None:
    """The statistics of *tensor*; None if it has no floating-point data."""
    tensor = local_part(tensor)
    if tensor.is_meta or isinstance(tensor, FakeTensor) or tensor.numel() == 0:
        return None
    if not tensor.is_floating_point() and not tensor.is_complex():
        return None
    flat = flattened(tensor.detach())
    finite = torch.isfinite(flat)
    nans = int(torch.isnan(flat).sum())
    count = flat.numel()
    norm = torch.linalg.vector_norm(flat)
    left = int(finite.sum())
    if left < count:
        flat = flat[finite]
    zeros = int((flat == 0).sum())
    if left == 0:
        return count, 0.0, 0.0, 0.0, 0.0, float(norm), 0, nans, count - nans
    deviation, mean = torch.std_mean(flat, correction=0)
    low, high = torch.aminmax(flat)
    figures = torch.stack((mean, deviation, low, high, norm)).tolist()
    return (count, *figures, zeros, nans, count - left - nans)


def flattened(tensor: Tensor) -> Tensor:
    """The elements of *tensor* in one dimension and in float64; absolute values of complex ones."""
    if tensor.is_nested:
        tensor = tensor.values()
    elif tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = tensor.abs()
    wide = torch.float32 if tensor.device.type == "mps" else torch.float64
    return tensor.reshape(-1).to(wide)
