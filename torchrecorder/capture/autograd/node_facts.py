"""Facts about a grad node: its name, and the outputs of its forward."""

from __future__ import annotations

import functools
import re
from math import prod
from typing import Any

import torch

from torchrecorder.capture.internals.access import output_forms
from torchrecorder.capture.tensors.describe import device_name, dtype_facts


def output_facts(node: Any) -> list[tuple[tuple[int, ...], str, str, int]]:
    """Shape, dtype, device and bytes of the outputs of a node's forward, from autograd's
    metadata."""
    facts = []
    for form in output_forms(node):
        shape = tuple(size if type(size) is int else -1 for size in form.shape)
        dtype, size = dtype_facts(form.dtype)
        facts.append((shape, dtype, device_name(form.device), abs(prod(shape)) * size))
    return facts


def name_of(node: Any) -> str:
    """The name of *node*, without namespace."""
    return str(node.name()).rpartition("::")[2]


_WORDS = (
    r"(?<=[a-z])(?=[A-Z])|(?<=\d[A-Z])(?=[A-Z])",  # AvgPool2D, Col2Im
    r"(?<=[a-z\d])(?=[A-Z][a-z\d])",  # SmoothL1Loss
    r"(?<=[a-z])(?=[A-Z\d])|(?<=\d[A-Z])(?=[A-Z])",  # GridSampler2D
)
"""Matches the starts of words. PyTorch capitalizes letters after a digit as after an underscore."""


@functools.cache
def op_name(node: str) -> str:
    """``"NativeLayerNormBackward0"`` -> ``"native_layer_norm"``; other names are unchanged."""
    match = re.fullmatch(r"(\w+?)Backward(?:AutogradNestedTensor)?\d+(_copy)?", node)
    if match is None:
        return node.removesuffix("Backward")
    names = [re.sub(words, "_", match[1]).lower() + (match[2] or "") for words in _WORDS]
    return next((name for name in names if hasattr(torch.ops.aten, name)), names[0])
