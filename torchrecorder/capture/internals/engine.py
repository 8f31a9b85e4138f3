"""The function of PyTorch that calls the autograd engine, and the files around hooks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from torchrecorder.capture.internals.table import ENGINE_CALLS
from torchrecorder.capture.internals.trials import find
from torchrecorder.capture.state.shared_patch import replaced

COMPILED_BACKWARD = "CompiledFunctionBackward"
"""The node of a compiled graph, whose backward may be compiled when it runs."""

BUCKET = "GradBucket"
"""The class of the argument of communication hooks of ``DistributedDataParallel``."""

_TORCH = os.path.dirname(torch.__file__)

AROUND_HOOKS = frozenset(
    os.path.join(_TORCH, *path) for path in (("utils", "hooks.py"), ("autograd", "graph.py"))
)
"""Files of PyTorch with functions that the engine calls and that call hooks of the user."""

OPTIMIZERS_IN_BACKWARD = os.path.join(
    _TORCH, "distributed", "optim", "apply_optimizer_in_backward.py"
)
"""The file with hooks that run an optimizer for each parameter in backward."""


def post_accumulate_hooks(leaf: torch.Tensor) -> list[Any]:
    """The hooks that run after a gradient was added to ``grad`` of *leaf*."""
    return [*(getattr(leaf, "_post_accumulate_grad_hooks", None) or {}).values()]


_PATH = ENGINE_CALLS.paths[0]

run_engine: Any = find(_PATH)
"""PyTorch's function that runs a backward pass; None if there is none."""

ENGINE_CODE: CodeType | None = getattr(run_engine, "__code__", None)
"""The code of the last Python function before the engine; calls inside it belong to the pass."""


@contextlib.contextmanager
def engine_replaced(run: Callable[..., Any]) -> Iterator[None]:
    """A context in which *run* is called instead of `run_engine`."""
    name = _PATH.rpartition(".")[2]
    with contextlib.ExitStack() as stack:
        for home in (torch.autograd, torch.autograd.graph):
            if run_engine is not None and vars(home).get(name) is run_engine:
                stack.enter_context(replaced(home, name, run))
        yield
