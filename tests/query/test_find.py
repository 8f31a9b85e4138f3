"""Parts of a recording by name, line, class and id."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import torchrecorder as tr
from tests.figures import network, view_of
from torchrecorder.errors import InvalidArgument, NotThere
from torchrecorder.events import Slot
from torchrecorder.graph.nodes import Module, Op, Scope, Value
from torchrecorder.testing import Builder


class Net(torch.nn.Module):
    """Calls one layer twice, and ends in two outputs."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.unused = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.fc(self.fc(x))
        y = y.relu()
        return y, {"aux": y.relu()}


@pytest.fixture(scope="module")
def recording():
    """A recording of `Net`."""
    return tr.record(Net(), torch.ones(2, 4), backward=True)


def test_a_path_is_a_module_and_its_calls(recording):
    """The module first; the item is the module."""
    module, *calls = recording.find("fc")
    assert isinstance(module, Module) and recording["fc"] == module
    assert [call.id for call in calls] == list(module.calls) and len(calls) == 2
    assert all(isinstance(call, Scope) for call in calls)
    assert recording["unused"].calls == ()


def test_parts_of_a_shared_module_by_each_of_its_paths():
    """They are named by the first one; a layer of it that is shared as well has more."""
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
            self.blocks = torch.nn.ModuleList([self.block, self.block, Net()])
            self.blocks[2].fc = self.block[0]

        def forward(self, x):
            return self.blocks[1](self.blocks[0](x))

    model = Shared()
    recording = tr.record(model, torch.ones(2, 4), backward=True, restore=False)
    for name, weight in model.named_parameters(remove_duplicate=False):
        assert recording[name].shape == tuple(weight.shape)
        assert (recording.why_no_gradient(name) is None) is (weight.grad is not None)
    for path, module in model.named_modules(remove_duplicate=False):
        assert not path or recording[path].cls == type(module).__name__
    assert recording["blocks.1.0.weight"] == recording["block.0.weight"]
    for option in ("focus", "since"):
        for path, first in (("blocks.1", "block"), ("blocks.1.1", "block.1")):
            found = (tr.view(recording, **{option: name}).boxes for name in (path, first))
            assert next(found) == next(found)
    with pytest.raises(NotThere, match="is called 'blocks.1.2'"):
        recording["blocks.1.2"]


def test_tensors_by_the_names_that_are_shown(recording):
    """Parameters by dotted name, inputs and outputs as figures call them."""
    assert recording["fc.weight"].names == ("fc.weight",)
    assert recording["x"].role.value == "input"
    assert recording["output 0"] == recording["0"] == recording.node(recording.outputs[0].value)
    assert recording["1.aux"].id == recording["output 1.aux"].id == recording.outputs[1].value
    single = tr.record(torch.nn.ReLU(), torch.ones(2))
    assert single["output"] == single["out"] == single.node(single.outputs[0].value)


def test_ops_by_name_place_and_line(recording):
    """As rankings show them, as figures do, and by the line of the user's code."""
    ranked = [each.name for each in recording.top("forward_time", by="op")]
    for name in ranked:
        assert all(isinstance(part, Op) for part in recording.find(name)), name
    first, second = recording.find("Net: relu")
    line = first.source.line
    assert second.source.line == line + 1
    assert recording[f"test_find.py:{line}"] == first
    assert recording.find(f"find.py:{line}") == []
    assert [op.name for op in recording.find(f"test_find.py:{line}")] == ["relu"]


def test_classes_regions_ids_and_patterns(recording):
    """What else has a name."""
    assert [part.names[0] for part in recording.find("Linear") if isinstance(part, Module)] == [
        "fc", "unused"
    ]
    assert recording[""].cls == recording["Net"].cls == "Net"
    assert recording["o1"] == recording.ops["o1"]
    assert recording["g1"] == recording.grad_nodes["g1"]
    assert [each.names for each in recording.find("*.bias") if isinstance(each, Value)] == [
        ("fc.bias",), ("unused.bias",)
    ]
    assert {each.name for each in recording.find("Relu*Backward*")} == {"ReluBackward0"}


def test_a_pattern_is_taken_by_its_letters_first():
    """A name with brackets stands for itself."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("add", run.input("data[0]"), run.input("data0"))
    found = run.recording().find("data[0]")
    assert [part.names for part in found] == [("data[0]",)]


def test_nothing_and_several(recording):
    """`find` gives a list in any case; the item is one, or an error that says what to ask for."""
    assert recording.find("unsed") == [] and "unsed" not in recording and "fc" in recording
    with pytest.raises(NotThere, match="did you mean 'unused'"):
        recording["unsed"]
    several = r"is ambiguous: o\d is relu\(\) in Net at .*recording\.find\("
    with pytest.raises(NotThere, match=several):
        recording["relu"]
    with pytest.raises(InvalidArgument, match="a name must be a string"):
        recording[0]
    assert 0 not in recording
    with pytest.raises(TypeError, match="not iterable"):
        iter(recording)


def test_a_weight_is_the_one_before_optimizer_steps():
    """Its values after steps have its name too, and are listed."""
    layer = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    with tr.Recorder(layer) as recorder:
        for _ in range(2):
            layer(torch.ones(1, 4)).sum().backward()
            optimizer.step()
    recording = recorder.recording
    first, *later = recording.find("weight")
    assert recording["weight"] == first and first.producer is None and len(later) == 2
    with pytest.raises(NotThere, match="ambiguous"):
        recording["w*t"]


def test_names_of_outputs_are_accepted_by_views():
    """What a figure calls an output can be asked for, unless a module has this name."""
    recording = network()
    assert "out:0" not in view_of(recording, hide="output").boxes
    assert view_of(recording, until="output").boxes == view_of(recording).boxes
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("output"):
            run.op("relu", run.input("x"))
        run.op("exp", "v1")
    view = view_of(run.recording(), hide="output")
    assert "out:0" in view.boxes and "s1" not in view.boxes
    assert [part.cls for part in run.recording().find("output") if isinstance(part, Module)]


def test_parts_without_a_name_are_described():
    """The model itself by its class, a tensor by the operation that made it."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("a"):
            run.op("exp", run.op("relu", run.input("x")))
    recording = run.recording()
    with pytest.raises(NotThere, match="m0 is Net"):
        recording["*"]
    two = tr.record(lambda x: (x + 1, x * 2), torch.ones(2))
    two = replace(two, outputs=tuple(Slot("y", value) for _, value in two.outputs))
    with pytest.raises(NotThere, match=r"is the result of add\(\) .*is the result of mul\(\)"):
        two["y"]


def test_nothing_has_no_name():
    """The message of a run of nothing lists no names."""
    with pytest.raises(NotThere, match="nothing in this recording is called 'x': it is empty$"):
        Builder("Net").recording()["x"]
