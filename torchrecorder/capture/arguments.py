"""Arguments of a call by name, and those that are no tensors as short text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torchrecorder.capture.names import FunctionFacts

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, slice, type(Ellipsis))
_LONGEST = 60


def named_arguments(
    facts: FunctionFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Positional arguments under the names of the signature, then keyword arguments."""
    names = facts.parameters
    known = len(names)
    for position, each in enumerate(args):
        yield names[position] if position < known else str(position), each
    yield from kwargs.items()


def plain_text(
    facts: FunctionFacts, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[str, str], ...]:
    """The arguments that are numbers, text and the like; others are left out."""
    return tuple(
        [
            (name, _text(each))
            for name, each in named_arguments(facts, args, kwargs)
            if not isinstance(each, Tensor) and _is_plain(each)
        ]
    )


def _is_plain(found: Any) -> bool:
    if isinstance(found, (tuple, list)):
        return len(found) <= 16 and all(isinstance(each, _PLAIN) or each is None for each in found)
    return isinstance(found, _PLAIN)


def _text(found: Any) -> str:
    if isinstance(found, (tuple, list)):
        text = "(" + ", ".join(_text(each) for each in found) + ")"
    elif isinstance(found, slice):
        ends = ["" if each is None else _text(each) for each in (found.start, found.stop)]
        text = ":".join(ends) + ("" if found.step is None else f":{_text(found.step)}")
    elif isinstance(found, (torch.dtype, torch.device)):
        text = str(found).removeprefix("torch.")
    elif isinstance(found, (Tensor, torch.nn.Module)):
        text = type(found).__name__
    else:
        text = "..." if found is Ellipsis else repr(found)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
