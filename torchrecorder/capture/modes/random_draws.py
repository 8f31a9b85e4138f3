"""Random draws: whether a call of a torch function draws from a random generator.

PyTorch tags the operators that can. Whether a call does follows from its arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from torchrecorder.events import Slot

_IN_PYTHON = frozenset(
    "dropout1d dropout2d dropout3d fractional_max_pool2d fractional_max_pool2d_with_indices "
    "fractional_max_pool3d fractional_max_pool3d_with_indices gumbel_softmax kaiming_uniform_ "
    "lobpcg multi_head_attention_forward pca_lowrank svd_lowrank".split()
)
"""Functions in Python that can draw, and whose names are not those of operators."""

_TENSOR = "a tensor"
_NEVER_OR_ALWAYS = frozenset(("0", "0.0", "1", "1.0"))

_OFF = {
    "training": frozenset(("False",)),
    "train": frozenset(("False",)),
    "p": _NEVER_OR_ALWAYS,  # of dropout
    "dropout": _NEVER_OR_ALWAYS,
    "dropout_p": _NEVER_OR_ALWAYS,
    "num_layers": frozenset(("1",)),  # recurrent layers have dropout between them
    "n": frozenset(("0", "1")),  # of a permutation
    "X": frozenset((_TENSOR,)),  # where `lobpcg` starts
}
"""Arguments of functions that can draw, and the texts with which they draw nothing."""

_ALWAYS = ("bernoulli", "bernoulli_", "native_dropout")
"""Functions that draw whatever their argument ``p`` is."""


def switches_of(
    func: Callable[..., Any], name: str, operator: Any, schemas: Iterable[Any]
) -> Mapping[str, str] | None:
    """The arguments that decide whether a call of *func* draws, with the texts of their defaults;
    None if it never draws. *operator*: the one of this *name*, if any, with its *schemas*."""
    if name not in _IN_PYTHON and not _is_tagged(operator):
        return None
    if inspect.isfunction(func):
        parameters = inspect.signature(func).parameters.values()
        defaults = {item.name: repr(item.default) for item in parameters}
    else:
        arguments = (item for schema in schemas for item in schema.arguments)
        defaults = {item.name: repr(item.default_value) for item in arguments}
    if name in _ALWAYS:
        defaults.pop("p", None)
    return {name: text for name, text in defaults.items() if name in _OFF}


def _is_tagged(operator: Any) -> bool:
    """Whether an operator has the tag; all of its overloads have it or none."""
    if hasattr(operator, "overloads"):
        operator = next((getattr(operator, name) for name in operator.overloads()), None)
    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def draws_random(
    switches: Mapping[str, str], arguments: Iterable[tuple[str, str]], inputs: Iterable[Slot]
) -> bool:
    """Whether a call with these *arguments* and *inputs* draws, if its results have elements."""
    given = {**switches, **dict(arguments), **{slot.name: _TENSOR for slot in inputs}}
    return all(given[name] not in _OFF[name] for name in switches)
