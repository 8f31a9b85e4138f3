"""``torchrecorder.helpers`` of 1.x."""

from torchrecorder.api import make_dot, render_network
from torchrecorder.capture.run import record

__all__ = ["make_dot", "record", "render_network"]
