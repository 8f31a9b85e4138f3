"""Exported programs: recorded from their own signature, with the modules that they had."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder as tr
from torchrecorder.errors import InvalidArgument


class Net(nn.Module):
    """A layer in another, a keyword argument, a mapping as result."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x, *, scale):
        return {"y": self.head(self.body(x)) * scale}


def exported(dynamic=False):
    shapes = {"x": {0: torch.export.Dim("rows", min=2, max=64)}, "scale": None}
    return torch.export.export(
        Net(), (torch.ones(3, 4),), {"scale": torch.ones(2)},
        dynamic_shapes=shapes if dynamic else None,
    )


def calls(recording):
    """Path and class of each module call, and what goes in and out."""
    values = recording.values
    return [
        (each.path, each.cls, [values[slot.value].shape for slot in each.outputs])
        for each in recording.scopes.values()
    ]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("saved", [False, True])
def test_it_has_the_modules_of_the_model(dynamic, saved, tmp_path):
    """Paths, classes, sizes, weights and results of the recorded model itself."""
    program = exported(dynamic)
    if saved:
        path = tmp_path / "net.pt2"
        torch.export.save(program, path)
        program = str(path) if dynamic else path
    found = tr.record(program)
    plain = tr.record(Net(), (torch.ones(3, 4),), {"scale": torch.ones(2)})
    assert calls(found) == calls(plain)
    assert found.name == "Net" and found.run.seconds is None
    for number in ("parameters", "parameter_bytes"):
        assert found.annotations[number].total() == plain.annotations[number].total()
    assert {name for each in found.modules.values() for name in each.names} >= {
        "", "body", "body.0", "body.1", "head"
    }
    assert found.outputs[0].name == plain.outputs[0].name
    kept = getattr(exported().module_call_graph[0].signature, "forward_arg_names", None)
    first = next(iter(found.scopes.values()))
    assert [slot.name for slot in found.inputs] == ["x" if kept else "0", "scale"]
    assert first.inputs == found.inputs
    assert found.values[found.inputs[0].value].names == (found.inputs[0].name,)
    assert not any(module.training for module in found.modules.values())
    assert [op.name for op in found.ops.values()] == ["linear", "relu", "linear", "mul"]


def test_arguments_without_names_have_numbers():
    """As in programs of older versions of PyTorch."""
    program = exported()
    program.module_call_graph[0].signature.forward_arg_names = None
    assert [slot.name for slot in tr.record(program).inputs] == ["0", "scale"]


class Twice(nn.Module):
    """Calls a module in two ways."""

    class Layer(nn.Module):
        """A linear layer and any function."""

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, function):
            return function(self.fc(x))

    def __init__(self):
        super().__init__()
        self.layer = Twice.Layer()

    def forward(self, x):
        return self.layer(self.layer(x, torch.sin), torch.cos)


def test_another_call_of_a_module_has_its_class():
    """PyTorch makes another module of it where it runs other operations."""
    found = tr.record(torch.export.export(Twice(), (torch.ones(3, 4),)))
    assert [each.cls for each in found.scopes.values()] == ["Twice", *("Layer", "Linear") * 2]
    own, torchs = f"{__name__}.Twice", "torch.nn.modules.linear.Linear"
    assert {each.qualname for each in found.modules.values()} == {own, f"{own}.Layer", torchs}


def test_it_runs_on_inputs_of_ones_own():
    """As any model does; then nothing is fake."""
    program = exported(dynamic=True)
    recording = tr.record(program, (torch.ones(7, 4),), {"scale": torch.ones(2)}, backward=True)
    assert recording.values[recording.outputs[0].value].shape == (7, 2)
    assert recording.run.seconds is not None and recording.grad_runs


def test_what_cannot_be_recorded_has_advice(tmp_path):
    """Files of other kinds, weights, inputs in the place of the model."""
    for given, said in {
        "weights.pth": "load_state_dict",
        "net.safetensors": "weights only",
        "net.onnx": "integrations.onnx.load",
        "run.json.gz": "torchrecorder.load",
        "net.h5": ".pt2",
    }.items():
        with pytest.raises(InvalidArgument, match=said):
            tr.record(given, torch.ones(1))
    with pytest.raises(InvalidArgument, match="load_state_dict"):
        tr.record(Net().state_dict(), torch.ones(1))
    with pytest.raises(InvalidArgument, match="model comes first"):
        tr.record(torch.ones(1), Net())
    with pytest.raises(FileNotFoundError, match="missing.pt2"):
        tr.record(tmp_path / "missing.pt2")
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"no archive")
    with pytest.raises(InvalidArgument, match="cannot read"):
        tr.record(broken)
