"""See a PyTorch model: record one run, draw it, compute with it."""

from torchrecorder.capture.recorder import Recorder

__all__ = ["Recorder"]
