"""How much work a call is, as the lines that it runs: the same number every time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], Any]) -> int:
    """The number of lines that *call* runs, those of loops once for each round.

    Finalizers of what ran before are not counted: garbage is collected first, and not meanwhile.
    """
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def growth(make: Callable[[int], Callable[[], Any]], size: int) -> float:
    """How much more the step from two to four times *size* takes than that from one to two.

    It is 2 for work in proportion to the size, and 4 for its square.

    Args:
        make: From a size to what is to be counted.
        size: The smallest of three sizes.
    """
    one, two, four = (lines_run(make(size * times)) for times in (1, 2, 4))
    return (four - two) / (two - one)
