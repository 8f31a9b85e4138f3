"""Paths of the data, against those that networkx finds."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import networkx as nx
import pytest
import torch

import torchrecorder as tr
from tests.figures import network
from tests.graph.test_consistency import blank, keyed
from torchrecorder.errors import InvalidArgument, NotThere
from torchrecorder.events import FunctionCall
from torchrecorder.query.paths import Paths, paths
from torchrecorder.testing import Builder


class Block(torch.nn.Module):
    """A residual block."""

    def __init__(self, size=4):
        super().__init__()
        self.fc = torch.nn.Linear(size, size)

    def forward(self, x):
        return x + self.fc(x).relu()


class Net(torch.nn.Module):
    """Residual blocks, and in-place writes through a view."""

    def __init__(self, blocks=4):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(blocks)))

    def forward(self, x):
        x = self.blocks(x)
        x = x.clone()
        left, right = x[:, :2], x[:, 2:]
        left.mul_(2)
        return torch.cat([left, right], -1) * x


def by_networkx(recording, start, end):
    """All simple paths between two nodes of the data, as lists of ids."""
    grads = set(recording.grad_nodes)
    flow = nx.DiGraph(recording.graph.subgraph(set(recording.graph) - grads))
    return sorted(tuple(path) for path in nx.all_simple_paths(flow, start, end))


@pytest.mark.parametrize("model", [Net(), Net(1), torch.nn.LSTM(4, 4, 2)])
def test_paths_are_those_of_networkx(model):
    """From the input to the output: each one, once, the shortest first."""
    recording = tr.record(model, torch.ones(2, 4))
    start, end = recording.inputs[0].value, recording.outputs[0].value
    found = recording.paths(start, end, limit=10_000)
    expected = by_networkx(recording, start, end)
    ids = [tuple(node.id for node in path) for path in found]
    assert sorted(ids) == expected and found.total == len(found) == len(expected)
    assert [len(path) for path in ids] == sorted(map(len, ids))
    assert set(found.through) == {node for path in expected for node in path}


@pytest.mark.parametrize(("start", "end"), itertools.permutations(["blocks.0", "blocks.1.fc"], 2))
def test_paths_between_modules(start, end):
    """They leave the one and enter the other once; none leads back."""
    recording = tr.record(Net(), torch.ones(2, 4))
    found = recording.paths(start, end)
    assert bool(found) == (start == "blocks.0")
    if found:
        (path,) = found
        assert [node.name for node in (path[0], path[-1])] == ["add", "linear"]
        assert str(found) == "blocks.0: add → blocks.1.fc: linear"
    else:
        assert str(found) == "no path" and found.total == 0


def test_many_paths_are_counted_and_not_listed():
    """Each block doubles them: the number is exact, the list has the limit."""
    recording = tr.record(torch.nn.Sequential(*(Block() for _ in range(100))), torch.ones(1, 4))
    found = recording.paths(recording.inputs[0].value, "output", limit=3)
    assert found.total == 2**100 and len(found) == 3
    assert [len(path) for path in found] == [201, 205, 205]
    assert repr(found) == f"<{2**100} paths in Sequential, 3 listed>"
    assert str(found).endswith(f"and {2**100 - 3} more")


def test_many_long_paths_take_no_longer_than_their_lengths():
    """A thousand blocks: the shortest are found without trying all beginnings. Their number is
    too long to read."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(1000):
            x = run.op("add", x, run.op("sin", x))
    recording = run.recording()
    found = recording.paths("x", x)
    assert [len(path) for path in found] == [2001] + 99 * [2003]
    assert [path[1].name for path in found[1:4]] == ["sin", "add", "add"]
    assert [path[3].name for path in found[1:4]] == ["add", "sin", "add"]
    assert found.total == 2**1000
    assert repr(found) == "<more than 10^100 paths in Net, 100 listed>"
    assert str(found).endswith("and more than 10^100 more")


def test_paths_are_found_when_they_are_read():
    """A million of them, of a thousand nodes each, cost nothing before that; a copy has them too.
    """
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(400):
            x = run.op("add", x, run.op("sin", x))
    found = run.recording().paths("x", x, limit=10**6)
    assert (len(found), len(found[0])) == (10**6, 801)
    with pytest.raises(IndexError):
        found[10**6]
    few = tr.record(Net(), torch.ones(2, 4)).paths("x", "output")
    assert few[::-1] == tuple(reversed(few)) and few[-1] == few[len(few) - 1]
    copied = pickle.loads(pickle.dumps(few))
    assert copied == few and [*copied] == [*few] and copied[1:3] == few[1:3]


def test_what_cannot_be_an_end():
    """Names that nothing has, autograd nodes, modules that did not run, one in the other."""
    recording = tr.record(Net(), torch.ones(2, 4), backward=True)
    with pytest.raises(NotThere, match="called 'nowhere'"):
        recording.paths("nowhere", "output")
    with pytest.raises(InvalidArgument, match="autograd graph"):
        recording.paths("x", "g0")
    with pytest.raises(InvalidArgument, match="share"):
        recording.paths("blocks", "blocks.1")
    with pytest.raises(InvalidArgument, match="limit must be"):
        recording.paths("x", "output", limit=-1)
    model = torch.nn.Sequential(torch.nn.ReLU())
    model.idle = torch.nn.ReLU()
    recording = tr.record(lambda x: model[0](x), torch.ones(1))
    run = Builder("Net")
    with run.scope("Net"):
        run.op("add", run.input("x"))
        with run.scope("idle"):
            pass
    with pytest.raises(InvalidArgument, match="no operation ran in 'idle'"):
        run.recording().paths("x", "idle")


def test_views_of_a_recording_have_paths_too():
    """The function takes any recording; no limit lists none and still counts."""
    found = paths(network(), "x", "output", limit=0)
    assert found.total == len(by_networkx(network(), "v0", network().outputs[0].value))
    assert list(found) == []


def test_long_numbers_are_not_written():
    """Up to a googol they are."""
    recording = network()
    for total, text in ((10**100, f"{10**100}"), (10**100 + 1, "more than 10^100")):
        found = Paths(recording, (), total, ())
        assert repr(found) == f"<{text} paths in {recording.name}, 0 listed>"
        assert str(found) == f"and {text} more"


def test_tensors_at_the_ends_are_named():
    """By their role if they have no name; results of ops are not."""
    run = Builder()
    with run.scope("Net"):
        x, constant = run.input("x"), run.constant()
        first = run.op("exp", x)
        last = run.op("add", first, run.parameter("scale"), constant)
    recording = run.recording()
    assert str(recording.paths("x", last)) == "x → Net: exp → Net: add"
    assert str(recording.paths("scale", last)) == "scale → Net: add"
    assert str(recording.paths(constant, last)) == "constant → Net: add"
    assert str(recording.paths(first, last)) == "Net: add"


def test_what_lies_on_paths_from_several_ops_is_in_one_order():
    """Each after what it reads, and always the same."""
    run = Builder()
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("many"):
            made = [run.op("exp", x) for _ in range(9)]
        run.op("cat", *made)
    recording = run.recording()
    many = [node for op, value in zip(range(8, -1, -1), made[::-1]) for node in (f"o{op}", value)]
    assert [*recording.paths("many", "cat").through] == [*many, "o9"]


def test_paths_of_a_function_are_those_of_what_it_calls():
    """At any depth; and of no other function."""
    run = Builder()
    with run.scope("Net"):
        x = run.input("x")
        for name in ("sin", "cos", "tan", "exp"):
            x = run.op(name, x)
        run.op("abs", x)
    parents = {"other": None, "helper": None, "inner": "helper", "deeper": "inner"}
    calls = [
        blank(FunctionCall, id=name, name=name, ops=(f"o{number}",), parent=parent, scopes=())
        for number, (name, parent) in enumerate(parents.items())
    ]
    recording = replace(run.recording(), function_calls=keyed(calls))
    found = [[each.name for each in path if each.id in recording.ops] for path in
             (recording.paths("helper", "abs")[0], recording.paths("sin", "helper")[0])]
    assert found == [["exp", "abs"], ["sin", "cos"]]
    assert recording.paths("helper", "abs").total == 1


@pytest.mark.parametrize("limit", [None, 128, 127, 0])
def test_as_many_paths_are_listed_as_wanted(limit):
    """A hundred if nothing is said; all are counted."""
    run = Builder()
    with run.scope("Net"):
        x = y = run.input("x")
        for _ in range(7):
            y = run.op("add", y, run.op("exp", y))
    recording = run.recording()
    found = recording.paths(x, y) if limit is None else recording.paths(x, y, limit=limit)
    assert (len(found), found.total) == (100 if limit is None else limit, 2**7)
