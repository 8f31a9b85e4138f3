"""``torchrecorder.recorder`` of 1.x."""

from typing import NoReturn

from torchrecorder.capture.recorder import Recorder
from torchrecorder.compat import gone

__all__ = ["Recorder"]


def __getattr__(name: str) -> NoReturn:
    gone("recorder", name, "`with torchrecorder.Recorder(model)` registers and removes its hooks")
