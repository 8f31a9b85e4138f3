"""WeightProbe: weights, gradients and updates of parameters in each optimizer step.

Weights are read directly before and after the step, and gradients after it, when they are clipped
and unscaled, also if the closure of the step does this. During the step, copies of the weights are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy

from torchrecorder.capture.hooks.optimizer import around_steps, parameters_of
from torchrecorder.capture.internals.access import DisableTorchFunction, without_dispatch_modes
from torchrecorder.capture.probes.statistics import flattened
from torchrecorder.checks import warn

BINS = 40
"""The number of bins of a histogram."""


@dataclass(frozen=True)
class Histogram:
    """A histogram of the finite elements of a tensor.

    Attributes:
        edges: The edges of the bins, increasing; one more than ``counts``.
        counts: The number of elements in each bin.
        total: The sum of the elements.
        squares: The sum of their squares.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    squares: float


@dataclass
class Weight:
    """One parameter in one step; None for missing numbers.

    Attributes:
        gradient: 2-norm of the gradient that the optimizer used; without an optimizer, of the
            gradient at the end.
        norm: 2-norm of the weight before the step.
        update: 2-norm of the difference that the step makes.
        histograms: Those of ``"weights"`` and ``"gradients"``, if requested.
    """

    gradient: float | None = None
    norm: float | None = None
    update: float | None = None
    histograms: dict[str, Histogram] = field(default_factory=dict)


class WeightProbe:
    """A context that measures the parameters of *model*, by dotted name."""

    def __init__(self, model: object, *, histograms: bool = False) -> None:
        self.weights: dict[str, Weight] = {}
        self._histograms = histograms
        self._names: dict[int, str] = {}
        self._parameters: list[Tensor] = []
        self._copies: dict[int, Tensor] = {}
        if isinstance(model, Module):
            for name, parameter in model.named_parameters():
                if not is_lazy(parameter):
                    self._names[id(parameter)] = name
                    self._parameters.append(parameter)

    def __enter__(self) -> WeightProbe:
        self._exit = around_steps(self._before, self._after)
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()
        left = [
            parameter
            for parameter in self._parameters
            if self._names[id(parameter)] not in self.weights
        ]
        self._without_raising(self._record_weight, left)
        self._without_raising(self._record_gradient, left)
        self._copies.clear()
        self._parameters.clear()

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._without_raising(self._keep, parameters_of(optimizer))

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._without_raising(self._compare, parameters_of(optimizer))

    def _without_raising(self, work: Callable[[Tensor], None], tensors: Iterable[Tensor]) -> None:
        """Call *work* on the model's parameters in *tensors*; exceptions become warnings."""
        try:
            with DisableTorchFunction(), torch.no_grad(), without_dispatch_modes():
                for item in tensors:
                    if id(item) in self._names:
                        work(item)
        except Exception as error:
            warn(f"weights of this step could not be followed: {type(error).__name__}: {error}")

    def _keep(self, parameter: Tensor) -> None:
        self._record_weight(parameter)
        self._copies[id(parameter)] = parameter.detach().clone()

    def _record_weight(self, parameter: Tensor) -> None:
        weight = self.weights.setdefault(self._names[id(parameter)], Weight())
        if not parameter.is_meta:
            weight.norm = _norm(parameter)
            if self._histograms:
                weight.histograms["weights"] = histogram(parameter)

    def _record_gradient(self, parameter: Tensor) -> None:
        weight = self.weights.setdefault(self._names[id(parameter)], Weight())
        gradient = parameter.grad
        if gradient is not None and not gradient.is_meta:
            weight.gradient = _norm(gradient)
            if self._histograms:
                weight.histograms["gradients"] = histogram(gradient)

    def _compare(self, parameter: Tensor) -> None:
        before = self._copies.pop(id(parameter), None)
        if before is not None:
            self._record_gradient(parameter)
            change = _norm(parameter.detach() - before)
            self.weights[self._names[id(parameter)]].update = change


def _flat(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return flattened(tensor if tensor.layout is torch.strided else tensor.to_dense())


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(_flat(tensor)))


def histogram(tensor: Tensor) -> Histogram:
    """The histogram of the finite elements of *tensor*."""
    flat = _flat(tensor)
    flat = flat[torch.isfinite(flat)].cpu()
    low, high = (float(flat.min()), float(flat.max())) if flat.numel() else (0.0, 0.0)
    counts, edges = torch.histogram(flat, BINS, range=(low, high))
    return Histogram(
        tuple(edges.tolist()),
        tuple(int(count) for count in counts.tolist()),
        float(flat.sum()),
        float(flat.square().sum()),
    )
