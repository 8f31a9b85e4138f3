"""See a PyTorch model: record one run, draw it, compute with it."""

from torchrecorder.capture.failures import recording_of
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.run import record

__all__ = ["Recorder", "record", "recording_of"]
