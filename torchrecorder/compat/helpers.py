"""``torchrecorder.helpers`` of 1.x."""

from torchrecorder.api import render_network
from torchrecorder.capture.record import record
from torchrecorder.drawing import make_dot

__all__ = ["make_dot", "record", "render_network"]
