"""Sizes: the elements and bytes of a tensor, also of one that consists of others."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from torchrecorder.capture.internals.access import PLAIN_TENSOR_TYPES, without_dispatch_modes
from torchrecorder.capture.internals.processes import is_dtensor
from torchrecorder.capture.tensors.describe import device_name, dtype_facts, inside, shape_of
from torchrecorder.events import Gradient

_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),  # public ones need a coalesced tensor
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def elements_of(tensor: Tensor, shape: tuple[int, ...]) -> int:
    """The number of elements of *tensor*, also for ragged shapes."""
    if -1 in shape:
        number = tensor.numel()
        return number if type(number) is int else abs(prod(shape))
    return prod(shape)


def bytes_of(tensor: Tensor, elements: int) -> int:
    """The bytes of *tensor*, which has so many *elements*: of a sparse one, those of indices and
    values; of a wrapper subclass, such as a quantized weight, those of the tensors inside. Those of
    a DTensor are of all shards."""
    parts = _SPARSE_PARTS.get(tensor.layout)
    if parts is not None:
        with without_dispatch_modes():
            return sum([getattr(tensor, part)().nbytes for part in parts])
    inner = dict[str, Tensor]()
    if type(tensor) not in PLAIN_TENSOR_TYPES and hasattr(type(tensor), "__tensor_flatten__"):
        inner = {} if tensor.is_nested or is_dtensor(tensor) else inside(tensor)
    found = [bytes_of(part, elements_of(part, shape_of(part))) for part in inner.values()]
    return sum(found) if found else elements * dtype_facts(tensor.dtype)[1]


def gradient_facts(gradient: Tensor) -> Gradient:
    """Shape, dtype, device and bytes of a gradient."""
    dtype, shape = dtype_facts(gradient.dtype)[0], shape_of(gradient)
    number = bytes_of(gradient, abs(prod(shape)))
    return Gradient(shape, dtype, device_name(gradient.device), number)
