"""ONNX files, against the graph that the onnx package itself reads."""

from __future__ import annotations

import sys
from functools import partial

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.work import growth
from torchrecorder.errors import InvalidArgument, InvalidRecording
from torchrecorder.events import Role
from torchrecorder.graph.codec import decode, encode
from torchrecorder.integrations import onnx as files
from torchrecorder.recording import Recording


class Block(nn.Module):
    """A residual block."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x) + x)


class Net(nn.Module):
    """Blocks, then one that runs twice."""

    def __init__(self):
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 4, 3), nn.Sequential(Block(), Block())
        self.fc = nn.Linear(4, 4)

    def forward(self, image):
        x = self.blocks(self.stem(image)).mean((2, 3))
        return self.fc(self.fc(x).relu()), x


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """An exported network."""
    pytest.importorskip("onnx")
    file = tmp_path_factory.mktemp("onnx") / "net.onnx"
    names = {"input_names": ["image"], "output_names": ["logits", "features"]}
    torch.onnx.export(Net().eval(), (torch.ones(1, 3, 8, 8),), str(file), dynamo=False, **names)
    return file


def test_every_node_and_edge_of_the_file(path):
    """Operations in order, what each reads and gives, and sizes as the package infers them."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
    recording = files.load(path)
    ops = list(recording.ops.values())
    assert [op.name for op in ops] == [node.op_type for node in graph.node]
    names = {}
    for op, node in zip(ops, graph.node):
        names.update(zip(op.outputs, node.output))
    names.update({each.id: each.names[0] for each in recording.values.values() if each.names})
    for op, node in zip(ops, graph.node):
        assert [names[slot.value] for slot in op.inputs] == list(node.input)
    shapes = {
        each.name: tuple(size.dim_value for size in each.type.tensor_type.shape.dim)
        for each in (*graph.value_info, *graph.output)
    }
    told = {names[value]: recording.values[value].shape for op in ops for value in op.outputs}
    assert {name: told[name] for name in shapes} == shapes
    assert [slot.name for slot in recording.inputs] == ["image"]
    assert [slot.name for slot in recording.outputs] == ["logits", "features"]
    stored = {each.name: tuple(each.dims) for each in graph.initializer}
    parameters = [each for each in recording.values.values() if each.role is Role.PARAMETER]
    assert {each.names[0]: each.shape for each in parameters} == stored


def test_scopes_are_those_of_the_model(path):
    """Modules as in a recording of the model itself, with their weights and what they give."""
    found, plain = files.load(path), tr.record(Net().eval(), torch.ones(1, 3, 8, 8))
    paths = [each.path for each in plain.scopes.values() if each.cls not in ("Net", "Sequential")]
    told = [each.path for each in found.scopes.values() if each.path not in ("", "blocks")]
    assert told == [*paths[:-1], "fc_1"]  # as the exporter calls the second call of fc
    assert found.annotations["parameters"].total() == plain.annotations["parameters"].total()
    for name in ("stem", "blocks.0", "blocks.1.conv"):
        outputs = (
            [each.values[slot.value].shape for slot in each[name].calls and each.scopes[
                each[name].calls[0]
            ].outputs]
            for each in (found, plain)
        )
        assert next(outputs) == next(outputs), name
    assert found.paths("image", "logits").total == plain.paths("image", "output 0").total == 4


def test_it_is_drawn_saved_and_listed_like_others(path, tmp_path):
    """Nothing ran, and the summary says so."""
    recording = files.load(path)
    assert decode(encode(recording), Recording) == recording
    assert "this is the graph of an ONNX file: nothing ran" in recording.summary()
    boxes = {each.id for each in tr.view(recording, depth=1).boxes.values()}
    assert len(boxes) > 4
    assert "blocks" in recording.render(tmp_path / "net.svg", depth=1).read_text()


def test_scopes_by_the_exporters_own_notes():
    """The newer exporter writes names and classes of modules beside each node."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    node = helper.make_node("Relu", ["x"], ["y"], name="node_relu")
    last = helper.make_node("Exp", ["y"], ["z"], name="node_exp")
    for each, key, value in (
        (node, "name_scopes", "['', 'layers', 'layers.0', 'relu']"),
        (node, "class_hierarchy", "['net.Net', 'torch.nn.Sequential', 'net.Block', 'aten.relu']"),
        (last, "name_scopes", "['', 'exp']"),
    ):
        each.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=value)
    ends = [helper.make_tensor_value_info(name, kind, ["n", 4]) for name in "xz"]
    model = helper.make_model(helper.make_graph([node, last], "net", ends[:1], ends[1:]))
    recording = files.load(model)
    assert [(each.name, each.path, each.cls) for each in recording.scopes.values()] == [
        ("net", "", "net"), ("layers", "layers", "Sequential"), ("0", "layers.0", "Block")
    ]
    assert recording.values[recording.inputs[0].value].shape == (-1, 4)
    assert recording["layers.0: Relu"].id != recording["net: Exp"].id


def test_weights_beside_the_file_are_not_read(path, tmp_path):
    """The file with them may be missing."""
    import onnx

    model = onnx.load(path)
    file = tmp_path / "net.onnx"
    onnx.save(model, file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    (tmp_path / "weights.bin").unlink()
    assert files.load(file).annotations["parameters"].total() == sum(
        torch.Size(each.dims).numel() for each in model.graph.initializer
    )


def test_what_is_no_onnx_model(tmp_path, monkeypatch):
    """Other files, an empty model, nothing; and without the package."""
    onnx = pytest.importorskip("onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\xff\xff no model")
    with pytest.raises(InvalidRecording, match="broken.onnx' is not an ONNX file"):
        files.load(broken)
    with pytest.raises(InvalidRecording, match="no nodes"):
        files.load(onnx.ModelProto())
    with pytest.raises(FileNotFoundError):
        files.load(tmp_path / "missing.onnx")
    with pytest.raises(InvalidArgument, match="source must be a path"):
        files.load(3)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(files.OnnxMissing, match=r"pip install torchrecorder\[onnx\]"):
        files.load(broken)


def model_of(nodes, inputs, outputs, stored=()):
    """A model of float tensors with two elements."""
    helper, kind = pytest.importorskip("onnx").helper, 1
    ends = [
        [helper.make_tensor_value_info(name, kind, [2]) for name in names]
        for names in (inputs, outputs)
    ]
    kept = [helper.make_tensor(name, kind, [2], [1, 2]) for name in stored]
    return helper.make_model(helper.make_graph(nodes, "net", *ends, kept))


def test_sizes_of_small_types():
    """A number in the name of a type that is no size is not taken for one."""
    onnx = pytest.importorskip("onnx")
    kinds = [onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.BFLOAT16, onnx.TensorProto.BOOL]
    nodes = [onnx.helper.make_node("Cast", ["x"], [f"y{to}"], to=to) for to in kinds]
    recording = files.load(model_of(nodes, ["x"], []))
    made = [recording.values[op.outputs[0]] for op in recording.ops.values()]
    assert [(each.dtype, each.bytes) for each in made] == [
        ("float8e4m3fn", 2), ("bfloat16", 4), ("bool", 2)
    ]


def test_branches_read_what_is_around_them():
    """A condition has an edge from every value that a branch reads, also in nested ones."""
    helper = pytest.importorskip("onnx").helper

    def branch(name, *nodes):
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, 1, [2])])

    inner = {
        "then_branch": branch("u", helper.make_node("Add", ["a", "w"], ["u"])),
        "else_branch": branch("v", helper.make_node("Neg", ["b"], ["v"])),
    }
    outer = {
        "then_branch": branch("s", helper.make_node("If", ["c"], ["s"], **inner)),
        "else_branch": branch("t", helper.make_node("Relu", ["a"], ["t"])),
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("If", ["c"], ["y"], **outer),
    ]
    recording = files.load(model_of(nodes, ["x", "c"], ["y"], ["w"]))
    relu, negative, condition = recording.ops.values()
    read = [recording.values[slot.value] for slot in condition.inputs]
    assert read[0].names == ("c",) and len(read) == 4
    assert {each.producer or each.names for each in read[1:]} == {relu.id, negative.id, ("w",)}


def test_outputs_that_no_node_makes():
    """A weight may be an output of the graph."""
    helper = pytest.importorskip("onnx").helper
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], ["x"], ["y", "w"], ["w"])
    recording = files.load(model)
    assert [slot.name for slot in recording.outputs] == ["y", "w"]
    assert recording.annotations["parameters"].total() == 2


def test_its_work_grows_with_the_graph():
    """Modules with a weight each, which are left one after the other."""
    helper = pytest.importorskip("onnx").helper

    def loading(count):
        nodes = [
            helper.make_node(
                "Add", [f"x{at}", f"layer{at}.weight"], [f"x{at + 1}"], name=f"/layer{at}/Add"
            )
            for at in range(count)
        ]
        stored = [f"layer{at}.weight" for at in range(count)]
        return partial(files.load, model_of(nodes, ["x0"], [f"x{count}"], stored))

    assert growth(loading, 50) < 2.5
