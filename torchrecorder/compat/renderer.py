"""``torchrecorder.renderer`` of 1.x."""

from typing import NoReturn

from torchrecorder.compat import renamed
from torchrecorder.export.styler import GraphvizStyler

__all__ = ["GraphvizStyler"]


def __getattr__(name: str) -> NoReturn:
    renamed("renderer", name, "torchrecorder.make_dot(recording, styler_cls=...) gives a Digraph")
