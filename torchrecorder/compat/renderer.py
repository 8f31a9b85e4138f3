"""``torchrecorder.renderer`` of 1.x."""

from typing import NoReturn

from torchrecorder.export.styler import GraphvizStyler
from torchrecorder.compat import renamed

__all__ = ["GraphvizStyler"]


def __getattr__(name: str) -> NoReturn:
    renamed("renderer", name, "torchrecorder.make_dot(recording, styler_cls=...) gives a Digraph")
