"""``torchrecorder.nodes`` of 1.x: the nodes that a styler gets."""

from torchrecorder.export.styler import BaseNode, LayerNode, OpNode, ParamNode, TensorNode

__all__ = ["BaseNode", "LayerNode", "OpNode", "ParamNode", "TensorNode"]
