"""Questions to a run that networkx answers in a few lines."""

import networkx as nx
import torch
from torch import nn

import torchrecorder


class Speller(nn.Module):
    """Reads letters through a narrow bottleneck and spells them again; a probe leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(30, 64)
        self.mix = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.squeeze = nn.Linear(64, 4)
        self.widen = nn.Sequential(nn.Linear(4, 64), nn.GELU())
        self.probe = nn.Linear(64, 2)
        self.spell = nn.Linear(64, 30, bias=False)
        self.spell.weight = self.letters.weight  # tied

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        h = self.mix(self.letters(letters))
        self.guess = self.probe(h).argmax(-1)  # looked at, but not part of the output
        return self.spell(self.widen(self.squeeze(h)))


def longest_path(graph: nx.DiGraph) -> list[str]:
    """The ops that no amount of parallel hardware can run side by side."""
    ops = graph.subgraph(node for node, kind in graph.nodes(data="type") if kind == "op")
    return [graph.nodes[op]["name"] for op in nx.dag_longest_path(nx.DiGraph(ops))]


def consumers(graph: nx.DiGraph, name: str) -> list[str]:
    """Where a parameter is used, under any of its names."""
    (value,) = (node for node, said in graph.nodes(data="name") if name in said.split(", "))
    return [f"{graph.nodes[op]['path']} ({graph.nodes[op]['name']})" for op in graph[value]]


def never_reach_the_output(graph: nx.DiGraph) -> list[str]:
    """Parameters that no output depends on: training will not change them."""
    outputs = [node for node, leaves in graph.nodes(data="output") if leaves]
    useful = set().union(*(nx.ancestors(graph, output) for output in outputs))
    parameters = {node for node, role in graph.nodes(data="role") if role == "parameter"}
    return sorted(graph.nodes[node]["name"] for node in parameters - useful)


def bottlenecks(graph: nx.DiGraph, start: str, end: str) -> list[str]:
    """Modules through which all data flows from input to output."""
    above = nx.immediate_dominators(graph, start)
    chain = [end]
    while above.get(chain[-1], start) != start:
        chain.append(above[chain[-1]])
    paths = [graph.nodes[node].get("path", "") for node in reversed(chain)]
    return list(dict.fromkeys(path for path in paths if path))


def cheapest_cut(graph: nx.DiGraph, start: str, end: str) -> tuple[int, list[str]]:
    """Where to split the run so that the fewest bytes cross: for pipelines and checkpoints."""
    flow = nx.DiGraph()
    for tail, head, said in graph.edges(data=True):
        node = graph.nodes[tail]
        if node["type"] == "op":
            flow.add_edge(tail, head, capacity=said["bytes"])
        elif tail == start or node["role"] == "inner":
            flow.add_edge(tail, head)  # to read a tensor once more costs nothing
    size, (left, _) = nx.minimum_cut(flow, start, end)
    crossing = [graph.nodes[a]["path"] for a, b in flow.edges if a in left and b not in left]
    return size, list(dict.fromkeys(crossing))


if __name__ == "__main__":
    torch.manual_seed(0)
    recording = torchrecorder.record(Speller(), torch.randint(0, 30, (1, 12)))
    graph = recording.to_networkx()
    start, end = recording.inputs[0].value, recording.outputs[0].value
    print("longest path:", " → ".join(longest_path(recording.to_networkx(values=False))))
    print("readers of letters.weight:", ", ".join(consumers(graph, "letters.weight")))
    print("never reach the output:", ", ".join(never_reach_the_output(graph)))
    print("everything passes:", ", ".join(bottlenecks(graph, start, end)))
    size, places = cheapest_cut(graph, start, end)
    print(f"cheapest cut: {size} bytes, after {', '.join(places)}")
