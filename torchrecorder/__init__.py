"""Record one run of a PyTorch model, draw it, and compute with it.

Names are imported when they are first used: loading and drawing a saved recording needs no torch.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from torchrecorder.errors import (
    ArgumentMismatch, DoesNotFit, InvalidArgument, InvalidRecording, LargerThanAPage, LayoutFailed,
    NothingFound, Notice, NotKept, NotThere, RecorderInUse, RecordingVersionError, SmallText,
    TorchRecorderError, UnknownAnnotation, UnknownFormat, UnsupportedTorch,
)
from torchrecorder.graph.gc_pause import without_gc

if TYPE_CHECKING:
    from torchrecorder.api import render_network, summary
    from torchrecorder.capture.failures import recording_of
    from torchrecorder.capture.gather import gather
    from torchrecorder.capture.record import record
    from torchrecorder.capture.recorder import Recorder
    from torchrecorder.comparison.compare import compare
    from torchrecorder.drawing import figure, make_dot, view
    from torchrecorder.export.styler import GraphvizStyler
    from torchrecorder.graph.saved_files import save
    from torchrecorder.planning.plan import plan
    from torchrecorder.ranks.merge import merge
    from torchrecorder.ranks.ranks import Ranks
    from torchrecorder.recording import Recording, load
    from torchrecorder.series import Series

__version__ = "2.0.0.dev0"

__path__.append(os.path.join(__path__[0], "compat"))

_HOMES = {
    name: f"torchrecorder.{module}"
    for module, names in {
        "api": "render_network summary",
        "capture.failures": "recording_of",
        "capture.gather": "gather",
        "capture.record": "record",
        "capture.recorder": "Recorder",
        "comparison.compare": "compare",
        "drawing": "figure make_dot view",
        "export.styler": "GraphvizStyler",
        "graph.saved_files": "save",
        "planning.plan": "plan",
        "ranks.merge": "merge",
        "ranks.ranks": "Ranks",
        "recording": "Recording load",
        "series": "Series",
    }.items()
    for name in names.split()
}
"""The module of each public name, which is imported when the name is used."""

__all__ = [
    "ArgumentMismatch",
    "DoesNotFit",
    "GraphvizStyler",
    "InvalidArgument",
    "InvalidRecording",
    "LargerThanAPage",
    "LayoutFailed",
    "NotKept",
    "NotThere",
    "NothingFound",
    "Notice",
    "Ranks",
    "Recorder",
    "RecorderInUse",
    "Recording",
    "RecordingVersionError",
    "Series",
    "SmallText",
    "TorchRecorderError",
    "UnknownAnnotation",
    "UnknownFormat",
    "UnsupportedTorch",
    "compare",
    "figure",
    "gather",
    "load",
    "make_dot",
    "merge",
    "plan",
    "record",
    "recording_of",
    "render_network",
    "save",
    "summary",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with without_gc():
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
