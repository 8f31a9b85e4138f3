"""Whether a call of a module runs its hooks."""

from __future__ import annotations

import inspect
from types import CodeType
from weakref import WeakKeyDictionary

from torch.nn import Module

from torchrecorder.capture.internals.access import CALL_CODE, WRAPPED_CALL_CODE
from torchrecorder.capture.modes.python_functions import names_in

CALLERS = frozenset(
    (id(CALL_CODE), *(id(item) for item in CALL_CODE.co_consts if isinstance(item, CodeType)))
)
"""The ids of the code that runs the hooks of a module and calls its ``forward``."""

_CALLS = frozenset(("__call__", CALL_CODE.co_name, WRAPPED_CALL_CODE.co_name))

_known: WeakKeyDictionary[type[Module], bool] = WeakKeyDictionary()


def has_own_call(cls: type[Module]) -> bool:
    """Whether such a module overrides the ``__call__`` of PyTorch."""
    owner = next(base for base in cls.__mro__ if "__call__" in vars(base))
    return owner.__module__.partition(".")[0] != "torch"


def runs_hooks(cls: type[Module]) -> bool:
    """Whether calls of such a module run hooks.

    A ``__call__`` of its own may not: only if it mentions that of a base class, which then decides.
    """
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = _reaches_hooks(cls)
    return found


def _reaches_hooks(cls: type[Module]) -> bool:
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] == "torch":
            break
        own = vars(base).get("__call__")
        code = getattr(inspect.unwrap(own), "__code__", None) if own is not None else None
        if code is not None and _CALLS.isdisjoint(names_in(code)):
            return False
    return True
