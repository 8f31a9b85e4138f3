"""Shapes: random tensors from texts on the command line, such as ``ids=1,16:int64:0-1000``.

A shape has sizes separated by commas; then, after colons, a dtype and a range. A name and an equals
sign before it make it a keyword argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchrecorder.errors import InvalidArgument

_SHAPE = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*)=)?"
    r"\(?(?P<sizes>\d+(?:\s*[,x×]\s*\d+)*|scalar),?\)?"
    r"(?::(?P<dtype>(?:torch\.)?[a-z][a-z0-9_]*))?"
    r"(?::(?P<low>-?\d+(?:\.\d+)?)(?:-|\.\.)(?P<high>-?\d+(?:\.\d+)?))?"
)
_USUAL_RANGE = (0.0, 1.0)


@dataclass(frozen=True)
class InputShape:
    """One random input."""

    name: str | None  # None for a positional argument
    sizes: tuple[int, ...]
    dtype: str | None = None  # its name in PyTorch; None for that of the model
    low: float = _USUAL_RANGE[0]
    high: float = _USUAL_RANGE[1]  # included for integers


def parse_shape(text: str) -> InputShape:
    """Parse an input.

    Raises:
        InvalidArgument: It cannot be read.

    Example:
        >>> parse_shape("ids=1,16:int64:0-1000")
        InputShape(name='ids', sizes=(1, 16), dtype='int64', low=0.0, high=1000.0)
    """
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        raise InvalidArgument(
            f"cannot read the shape {text!r}: write sizes, then a type and a range if "
            "needed, as in 1,3,224,224 or 1,16:int64 or ids=1,16:int64:0-1000"
        )
    sizes = [] if found["sizes"] == "scalar" else re.split(r"[,x×]", found["sizes"])
    bounds = _USUAL_RANGE
    if found["low"] is not None:
        bounds = (float(found["low"]), float(found["high"]))
    if bounds[0] > bounds[1]:
        raise InvalidArgument(f"the range in {text!r} ends before it begins")
    return InputShape(found["name"], tuple(map(int, sizes)), found["dtype"], *bounds)


def tensors(
    shapes: Sequence[InputShape], model: Any, device: str | None
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Positional and keyword arguments with random values, the same in every run."""
    import torch

    from torchrecorder.capture.inputs import device_and_dtype, random_tensor

    generator = torch.Generator().manual_seed(0)
    where, precision = device_and_dtype(model)
    made = [
        random_tensor(
            shape.sizes,
            precision if shape.dtype is None else _dtype(shape.dtype),
            device or where,
            generator,
            shape.low,
            shape.high,
        )
        for shape in shapes
    ]
    positional = tuple(value for shape, value in zip(shapes, made) if shape.name is None)
    named = {shape.name: value for shape, value in zip(shapes, made) if shape.name is not None}
    return positional, named


def _dtype(name: str) -> Any:
    import torch

    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        known = "float32, bfloat16, float16, int64, int32, uint8, bool, complex64"
        raise InvalidArgument(f"{name!r} is not a dtype of PyTorch; examples are {known}")
    return found
