"""FlopProbe: floating-point operations, by the formulas of ``torch.utils.flop_counter``.

The formulas are for operators with kernels, which only a dispatch mode sees, in forward and
backward. PyTorch has none for the fused attention on CPUs, which is counted like that on GPUs. The
tape knows the op of each kernel, autograd the node. Composite operators are decomposed as PyTorch
does; under inference mode, this is left to the dispatch mode.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.internals.access import (
    COMPOSED, DEVICE_KEYS, SHOWS_OPERATORS, HigherOrderOperator, current_node, leave_dispatch_mode,
)
from torchrecorder.capture.probes.kernels import RecorderDispatchMode
from torchrecorder.capture.tape import Tape
from torchrecorder.events import FLOPS_BACKWARD, FLOPS_FORWARD, Measured

_FORM = frozenset(
    "sym_is_contiguous is_contiguous is_strides_like_format is_non_overlapping_and_dense size "
    "sym_size stride sym_stride storage_offset sym_storage_offset numel sym_numel dim layout "
    "device".split()
)
"""Functions that read metadata; tensor subclasses send them through the dispatcher."""

_AS_IT_IS, _BY_ITS_CLASS, _COMPOSED = object(), object(), object()
"""How an operator runs: with its kernel; in the tensor subclass of an argument; decomposed."""


def _attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> int:
    """FLOPs of two matrix products: the scores, and their product with the values."""
    return 2 * _pairs(query, key) * (query.shape[-1] + value.shape[-1])


def _attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any
) -> int:
    """FLOPs of five matrix products: scores, and gradients of values, scores, query and key."""
    return 2 * _pairs(query, key) * (3 * query.shape[-1] + 2 * value.shape[-1])


def _pairs(query: Tensor, key: Tensor) -> int:
    """The number of scores, including masked ones, as in the formulas of PyTorch."""
    return int(math.prod(query.shape[:-1])) * key.shape[-2]


_ON_CPU = {
    getattr(torch.ops.aten, f"_scaled_dot_product_flash_attention_for_cpu{end}", None): formula
    for end, formula in (("", _attention), ("_backward", _attention_backward))
}
"""Formulas for kernels without one in PyTorch."""

UNCOUNTED = "floating-point operations inside higher-order operators were not counted"
"""The note of a run with higher-order operators, if PyTorch does not expose their inside."""


class FlopProbe(RecorderDispatchMode):
    """A dispatch mode that counts FLOPs."""

    def __init__(self, tape: Tape, backward: BackwardRuns) -> None:
        super().__init__(tape, backward)
        self._composed: dict[Any, bool] = {}

    def __exit__(self, *error: object) -> None:
        leave_dispatch_mode(self)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run *func* and count it."""
        kwargs = kwargs or {}
        if not SHOWS_OPERATORS and self.tape.ignores_calls:
            return self.run_operator(func, args, kwargs)
        if isinstance(func, HigherOrderOperator):
            return self._run_inside(func, args, kwargs)
        try:
            formula, way = self._way_to_run(func, args)
        except Exception as error:
            self.tape.record_error("flops", error)
            formula, way = None, _AS_IT_IS
        if way is _BY_ITS_CLASS:
            return NotImplemented
        if way is _COMPOSED:
            with self:
                return func._op_dk(COMPOSED, *args, **kwargs)
        result = self.run(func, args, kwargs)
        if formula is not None:
            self._count(formula, args, kwargs, result)
        return result

    def _way_to_run(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, object]:
        """The formula for *func*, or None, and how to run it."""
        if self.tape.task.is_left() or func._schema.name.split("::")[1] in _FORM:
            return None, _AS_IT_IS
        packet = func._overloadpacket
        formula = flop_registry.get(packet) or _ON_CPU.get(packet)
        if formula is None:
            nested = [
                argument
                for argument in args
                if isinstance(argument, Tensor) and argument.is_nested
            ]
            if any(type(item) is not Tensor for item in nested):
                return None, _BY_ITS_CLASS  # it decomposes the operator under this mode
            if not nested and self._is_composed(func):
                return None, _COMPOSED
        return formula, _AS_IT_IS

    def _run_inside(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a higher-order operator; for ``cond``, only the branch that runs is counted."""
        if func is torch.ops.higher_order.cond and type(args[0]) is Tensor:
            condition, yes, no, operands = args
            chosen = yes if condition else no
            with self:
                return chosen(*operands)
        return func(*args, **kwargs)

    def run_operator(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator in a function of a higher-order operator, uncounted: it may be traced."""
        if UNCOUNTED not in self.tape.notes:
            self.tape.notes.append(UNCOUNTED)
        return func(*args, **kwargs)

    def _is_composed(self, func: Any) -> bool:
        """Whether *func* is composite: PyTorch decomposes it, as it has no kernel."""
        found = self._composed.get(func)
        if found is None:
            found = self._composed[func] = func.has_kernel_for_dispatch_key(COMPOSED) and not any(
                func.has_kernel_for_dispatch_key(device) for device in DEVICE_KEYS
            )
        return found

    def _count(self, formula: Any, args: Any, kwargs: Any, result: Any) -> None:
        try:
            amount = formula(*args, **kwargs, out_val=result)
            if current_node() is not None:
                node = self.backward.current() or self.backward.last_started() or "run"
                self.tape.write(Measured(FLOPS_BACKWARD, node, amount))
            else:
                place = self.tape.op or self.tape.scope or "run"
                self.tape.write(Measured(FLOPS_FORWARD, place, amount))
        except Exception as error:  # some formulas accept only positional or only keyword arguments
            self.tape.record_error("flops", error)
