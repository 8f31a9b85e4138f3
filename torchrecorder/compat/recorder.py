"""``torchrecorder.recorder`` of 1.x."""

from typing import NoReturn

from torchrecorder.capture.recorder import Recorder
from torchrecorder.compat import renamed

__all__ = ["Recorder"]


def __getattr__(name: str) -> NoReturn:
    renamed(
        "recorder", name, "`with torchrecorder.Recorder(model)` registers and removes its hooks"
    )
