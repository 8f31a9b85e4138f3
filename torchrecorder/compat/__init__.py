"""Modules that torchrecorder 1.x had: scripts written for it import from them.

This folder is on the package's search path, so ``torchrecorder.nodes`` is found here.
"""

from __future__ import annotations

from typing import NoReturn


def renamed(module: str, name: str, use: str) -> NoReturn:
    """Raise an error with the replacement of a name of 1.x.

    Raises:
        ImportError: Always; or AttributeError for names that Python itself looks for.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(f"torchrecorder 2 has no {module}.{name}; {use}")
