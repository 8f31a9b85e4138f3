"""ForceEager: run compiled code eagerly while recording, so that its operations are recorded.

``torch.compiler.set_stance`` imports the compiler, which takes seconds. Before that, nothing is
compiled; but the run itself may import the compiler (``torch.cond`` does). Then the stance is set
directly after the import.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from torchrecorder.capture.internals.access import has_global_hooks
from torchrecorder.capture.internals.compiled_calls import compiled_calls_watched
from torchrecorder.capture.modes.compiled_steps import begins, ended
from torchrecorder.capture.state.shared_patch import SharedPatch

_COMPILER = "torch._dynamo"

_HOOKS_WARNING = "Using `torch.compile\\(module\\)` when there are global hooks"
"""PyTorch's warning about global hooks, which are usually those of the recorder."""


@contextlib.contextmanager
def _eager() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"), compiled_calls_watched(begins, ended):
        yield


_stance: SharedPatch[ForceEager] = SharedPatch(_eager)


class ForceEager:
    """A context in which ``torch.compile`` runs code eagerly, except optimizer steps.

    Args:
        record_error: Called with an instrument and its exception.
        loaded: Called when the program imports the compiler.
    """

    def __init__(
        self,
        record_error: Callable[[str, BaseException], None] = lambda *lost: None,
        loaded: Callable[[], None] = lambda: None,
    ) -> None:
        self._record_error = record_error
        self._loaded = loaded
        self._exit = contextlib.ExitStack()
        self._hooked: bool

    def __enter__(self) -> ForceEager:
        self._hooked = has_global_hooks()
        if _COMPILER in sys.modules:
            self._set_stance()
        else:
            sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error: object) -> None:
        self._remove_import_hook()
        self._exit.close()
        _stance.remove(self)

    def _set_stance(self) -> None:
        _stance.add(self)
        if not self._hooked:
            warnings.filterwarnings("ignore", _HOOKS_WARNING)
            self._exit.callback(_remove_filter, warnings.filters[0])

    def _remove_import_hook(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    # The import of the compiler -----------------------------------------------------

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the compiler, with a patched loader; Python's import system calls it."""
        if name != _COMPILER:
            return None
        try:
            self._remove_import_hook()
            spec = importlib.util.find_spec(name)
            if spec is not None:
                self._patch_loader(spec.loader)
            return spec
        except Exception as error:
            self._record_error("compilers", error)
            return None

    def _patch_loader(self, loader: Any) -> None:
        """Patch *loader* to set the stance after it has imported the compiler."""
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            load(module)
            try:
                self._set_stance()
                self._loaded()
            except Exception as error:
                self._record_error("compilers", error)

        loader.exec_module = exec_module


def _remove_filter(entry: Any) -> None:
    """Remove a warning filter; filters that others have added stay."""
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):
        filters.remove(entry)
