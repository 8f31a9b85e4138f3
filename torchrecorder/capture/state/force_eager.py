"""RunEagerly: compiled code runs eagerly while we look, so that its inside shows.

Setting the compiler's stance imports the compiler, which takes seconds. Where nothing has
imported it yet, nothing is compiled yet; but the run itself may be the first to (``torch.cond``
does). So the stance is set then, right after that import.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

from torchrecorder.capture.internals.access import has_global_hooks
from torchrecorder.capture.internals.compiled_calls import compiled_calls_watched
from torchrecorder.capture.modes.compiled_steps import begins, ended

_COMPILER = "torch._dynamo"

_ABOUT_US = "Using `torch.compile\\(module\\)` when there are global hooks"
"""What a compiled module says when it is called: the hooks are ours, unless some were there."""

_lock = threading.Lock()
_resting: list[RunEagerly] = []
_stance = contextlib.ExitStack()
"""The stance is that of all threads: the first recorder sets it, the last puts it back."""


class RunEagerly(MetaPathFinder, Loader):
    """A context in which ``torch.compile`` and what is built on it compile nothing, but for
    steps of optimizers that are recorded.

    Args:
        lose: Called with what goes wrong here.
        loaded: Called when the program imports the compiler.
    """

    def __init__(
        self,
        lose: Callable[[str, BaseException], None] = lambda *lost: None,
        loaded: Callable[[], None] = lambda: None,
    ) -> None:
        self._lose = lose
        self._loaded = loaded
        self._exit = contextlib.ExitStack()
        self._hooked = False
        self._spec: ModuleSpec | None = None

    def __enter__(self) -> RunEagerly:
        self._hooked = has_global_hooks()
        if _COMPILER in sys.modules:
            self._set_stance()
        else:
            sys.meta_path.insert(0, self)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop_waiting()
        self._exit.close()
        with _lock:
            if self in _resting:
                _resting.remove(self)
                if not _resting:
                    _stance.close()

    def _set_stance(self) -> None:
        with _lock:
            if not _resting:
                _stance.enter_context(torch.compiler.set_stance("force_eager"))
                _stance.enter_context(compiled_calls_watched(begins, ended))
            _resting.append(self)
        if not self._hooked:
            self._exit.enter_context(_unsaid(_ABOUT_US))

    def _stop_waiting(self) -> None:
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self)

    # The import of the compiler -----------------------------------------------------

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Stand between the import system and the compiler's own loader."""
        if name != _COMPILER:
            return None
        try:
            self._stop_waiting()
            return self._own_spec(name)
        except Exception as error:
            self._lose("compilers", error)
            return None

    def _own_spec(self, name: str) -> ModuleSpec | None:
        """The compiler's own specification, but loaded by us."""
        self._spec = importlib.util.find_spec(name)
        if self._spec is None or self._spec.loader is None:
            return None
        spec = importlib.util.spec_from_loader(name, self, origin=self._spec.origin)
        if spec is not None:
            spec.submodule_search_locations = self._spec.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the import system does it."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Let the compiler load as ever, then tell it to rest."""
        assert self._spec is not None and self._spec.loader is not None
        module.__spec__, module.__loader__ = self._spec, self._spec.loader
        module.__file__ = self._spec.origin
        self._spec.loader.exec_module(module)
        try:
            self._set_stance()
            self._loaded()
        except Exception as error:
            self._lose("compilers", error)


@contextlib.contextmanager
def _unsaid(message: str) -> Iterator[None]:
    """Without the warnings that begin like this; other filters may come and go meanwhile."""
    warnings.filterwarnings("ignore", message)
    entry = warnings.filters[0]
    try:
        yield
    finally:
        filters: Any = warnings.filters
        with contextlib.suppress(ValueError):
            filters.remove(entry)
