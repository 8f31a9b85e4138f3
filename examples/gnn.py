"""A graph neural network: attention between neighbors, on a ring of twenty nodes."""

import torch
from torch import nn
from torch_geometric.nn import GATConv, global_mean_pool

import torchrecorder


class Molecules(nn.Module):
    """Two rounds of messages, then one number for each graph."""

    def __init__(self, features: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.first = GATConv(features, hidden, heads=4)
        self.second = GATConv(4 * hidden, hidden, heads=1)
        self.judge = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        """One number for each graph."""
        x = self.first(x, edges).relu()
        x = self.second(x, edges).relu()
        return self.judge(global_mean_pool(x, graph))


def gnn():
    """The network, and two rings of ten nodes."""
    nodes = torch.arange(20)
    edges = torch.stack([nodes, nodes // 10 * 10 + (nodes + 1) % 10])
    return Molecules(), (torch.rand(20, 8), edges, nodes // 10)


if __name__ == "__main__":
    model, inputs = gnn()
    recording = torchrecorder.record(model, inputs)
    print(recording.render("gnn.svg", depth=1))
    print(recording.render("gnn_messages.svg", focus="first", depth=2))
