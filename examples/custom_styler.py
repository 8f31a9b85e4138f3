"""A custom styler: the kernel on every convolution, red arrows into tensors."""

import torch
from torch import nn

from torchrecorder import GraphvizStyler, make_dot, record


class ConvNet(nn.Module):
    """Two convolutions and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, 16, kernel_size=5, stride=2)
        self.conv_2 = nn.Conv2d(16, 32, kernel_size=3)
        self.classify = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Class scores for *image*, of shape (batch, 3, height, width)."""
        features = torch.relu(self.conv_2(torch.relu(self.conv_1(image))))
        return self.classify(features.mean(dim=(2, 3)))


class MyStyler(GraphvizStyler):
    """Looks decided node by node and edge by edge."""

    def style_node(self, node):
        """Graphviz attributes of one node."""
        styles = super().style_node(node)
        if isinstance(node.fn, torch.nn.Conv2d):
            kernel = "×".join(str(size) for size in node.fn.kernel_size)
            styles["label"] = f"{node.name}\\n{kernel} convolution"
            styles["fillcolor"] = "#ffe9b0"
        return styles

    def style_edge(self, from_node, to_node):
        """Graphviz attributes of one edge."""
        styles = super().style_edge(from_node, to_node)
        if isinstance(to_node.fn, torch.Tensor):
            styles["color"] = "#c0392b"
        return styles


if __name__ == "__main__":
    model = ConvNet()  # node.fn finds the model's parts for as long as it is alive
    recording = record(model, name="Conv Net", input_shapes=(1, 3, 32, 32))
    graph = make_dot(recording, render_depth=1, styler_cls=MyStyler, fontname="Lato")
    graph.format = "svg"
    graph.attr(label="Conv Net at depth 1", labelloc="t")
    graph.render("conv_net", directory="./", cleanup=True)
