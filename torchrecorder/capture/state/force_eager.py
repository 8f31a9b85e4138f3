"""ForceEager: run compiled code eagerly while recording, so that its inside is recorded.

Setting the compiler's stance imports the compiler, which takes seconds. Before it is imported,
nothing is compiled; but the run itself may import it (``torch.cond`` does). Then the stance is set
right after the import.
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

_ABOUT_US = "Using `torch.compile\\(module\\)` when there are global hooks"
"""The warning of a compiled module about global hooks, which are usually the recorder's."""


@contextlib.contextmanager
def _eager() -> Iterator[None]:
    with torch.compiler.set_stance("force_eager"), compiled_calls_watched(begins, ended):
        yield


_stance: SharedPatch[ForceEager] = SharedPatch(_eager)


class ForceEager:
    """A context in which nothing is compiled by ``torch.compile`` and functions that use it, except
    recorded steps of optimizers; *loaded* is called when the program imports the compiler.
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
        self._stop_waiting()
        self._exit.close()
        _stance.remove(self)

    def _set_stance(self) -> None:
        _stance.add(self)
        if not self._hooked:
            warnings.filterwarnings("ignore", _ABOUT_US)
            self._exit.callback(_remove_filter, warnings.filters[0])

    def _stop_waiting(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    # The import of the compiler -----------------------------------------------------

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiler's module spec, with a loader that is followed; for the import system."""
        if name != _COMPILER:
            return None
        try:
            self._stop_waiting()
            spec = importlib.util.find_spec(name)
            if spec is not None:
                self._follow(spec.loader)
            return spec
        except Exception as error:
            self._record_error("compilers", error)
            return None

    def _follow(self, loader: Any) -> None:
        """Set the stance right after *loader* has executed the compiler."""
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
    """Remove a filter of warnings, and keep changes of others."""
    filters: Any = warnings.filters
    with contextlib.suppress(ValueError):
        filters.remove(entry)
