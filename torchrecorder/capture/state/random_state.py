"""Save and restore the state of random number generators."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """A context that restores the generators of PyTorch, Python and NumPy at its end."""
    with contextlib.ExitStack() as stack:
        stack.callback(torch.set_rng_state, torch.get_rng_state())
        stack.callback(random.setstate, random.getstate())
        numpy_random: Any = sys.modules.get("numpy.random")  # NumPy loads it at its first use
        if numpy_random is not None:
            stack.callback(numpy_random.set_state, numpy_random.get_state())
        if torch.cuda.is_initialized():
            stack.callback(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all())
        if torch.backends.mps.is_available():
            stack.callback(torch.mps.set_rng_state, torch.mps.get_rng_state())
        yield
