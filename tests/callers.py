"""Callers: which function of PyTorch makes a call that a mode of the tests hears."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint

ATTENTION = nn.functional.multi_head_attention_forward


def is_of_checkpoint() -> bool:
    """Whether checkpointing itself makes the call that is heard, and no function of the user's.

    In older versions it makes an empty tensor, to have its arguments saved.
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_code is not checkpoint.checkpoint.__code__:
        if frame.f_code is checkpoint._checkpoint_without_reentrant_generator.__code__:
            return True
        frame = frame.f_back
    return False


def is_of_attention() -> bool:
    """Whether PyTorch's module of attention makes the call that is heard."""
    return sys._getframe(4).f_code is nn.MultiheadAttention.forward.__code__


def called_inside(mode: TorchFunctionMode, args: Any, kwargs: Any) -> Any:
    """The result of attention, where *mode* hears what it calls instead of itself."""
    with mock.patch.object(nn.functional, "has_torch_function", lambda tensors: False):
        TorchFunctionMode.__enter__(mode)
        try:
            return ATTENTION(*args, **kwargs)
        finally:
            TorchFunctionMode.__exit__(mode, None, None, None)


def called(variable: str, other: str) -> str:
    """What a module or tensor is called if only the source of a call names it: before Python 3.11
    *other*, such as its class."""
    return variable if sys.version_info >= (3, 11) else other
