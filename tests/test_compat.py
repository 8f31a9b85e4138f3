"""What scripts written for torchrecorder 1.x import and look at."""

import subprocess
import sys

import pytest
import torch

import torchrecorder


def test_modules_of_version_1_are_found():
    """With the names that scripts took from them."""
    from torchrecorder.helpers import make_dot, record, render_network
    from torchrecorder.nodes import BaseNode, LayerNode, OpNode, ParamNode, TensorNode
    from torchrecorder.recorder import Recorder
    from torchrecorder.renderer import GraphvizStyler

    assert (make_dot, record) == (torchrecorder.make_dot, torchrecorder.record)
    assert (Recorder, GraphvizStyler) == (torchrecorder.Recorder, torchrecorder.GraphvizStyler)
    assert render_network is torchrecorder.render_network
    assert all(issubclass(node, BaseNode) for node in (LayerNode, OpNode, ParamNode, TensorNode))


@pytest.mark.parametrize(
    "line, advice",
    [
        ("from torchrecorder.renderer import GraphvizRenderer", "torchrecorder.make_dot"),
        ("from torchrecorder.recorder import prehook", "with torchrecorder.Recorder"),
    ],
)
def test_what_is_gone_names_its_replacement(line, advice):
    """An ImportError, as for any other name that is not there."""
    with pytest.raises(ImportError, match=advice):
        exec(line)


@pytest.mark.parametrize("name", ["nodes", "edges"])
def test_a_recording_shows_where_its_nodes_are(name):
    """In 1.x they were dictionaries of live objects."""
    recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(AttributeError, match=f"recording.graph.{name}"):
        getattr(recording, name)
    assert not hasattr(recording, name)


def test_importing_the_package_still_imports_nothing_heavy():
    """The search path costs nothing."""
    code = "import sys, torchrecorder; print('torch' in sys.modules, 'networkx' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False"]
