"""Tensors inside objects that a model is called with are its inputs."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import torchrecorder
from tests.structure import structure
from torchrecorder.capture.tensors import argument_objects
from torchrecorder.capture.tensors.argument_objects import MAX_DEPTH, ObjectPlaces, places_in
from torchrecorder.events import Role


class Slotted:
    """Keeps a tensor in a slot, and computes when it is asked for anything else."""

    __slots__ = ("x", "unset")

    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        raise RuntimeError("asked")


class Hidden:
    """Keeps its tensors as graph batches do: in a private mapping in a private attribute."""

    def __init__(self, **tensors):
        self._store = SimpleNamespace(_mapping=dict(tensors))

    @property
    def x(self):
        """One of them."""
        return self._store._mapping["x"]


class Reads(nn.Module):
    """Reads ``data.x`` in a child."""

    def __init__(self, get=lambda data: data.x):
        super().__init__()
        self.linear, self.get = nn.Linear(3, 3), get

    def forward(self, data, scale=None):
        """The child gets the tensor."""
        y = self.linear(self.get(data))
        return y if scale is None else y * scale.x


def inputs(recording):
    """Names of the inputs, all of which are values in that role."""
    assert structure(recording) == []
    for slot in recording.inputs:
        value = recording.values[slot.value]
        assert value.role == "input" and value.names == (slot.name,)
    return [slot.name for slot in recording.inputs]


@pytest.mark.parametrize("make", [Slotted, lambda x: SimpleNamespace(x=x), lambda x: Hidden(x=x)])
def test_a_tensor_in_an_attribute_is_an_input(make):
    """With its place as its name, and an edge to the op that reads it."""
    recording = torchrecorder.record(Reads(), make(torch.ones(2, 3)))
    assert inputs(recording) == ["data.x"]
    (linear,) = recording.ops.values()
    assert linear.inputs[0].value == recording.inputs[0].value


def test_nested_places_and_keyword_arguments():
    """Through mappings, lists and objects, each by its shortest way."""
    data = SimpleNamespace(parts=[SimpleNamespace(x={"a": torch.ones(2, 3)})])
    data.loop = data
    model = Reads(lambda data: data.parts[0].x["a"])
    scale = SimpleNamespace(x=torch.ones(3))
    recording = torchrecorder.record(model, (data,), {"scale": scale})
    assert inputs(recording) == ["data.parts.0.x.a", "scale.x"]


def test_what_is_not_read_is_no_input_and_what_the_run_made_stays_inner():
    """Only reads count, and a tensor that replaces one in the object is no input."""

    def get(data):
        data.x = data.x + 1
        return data.x

    data = SimpleNamespace(x=torch.ones(2, 3), y=torch.ones(1))
    assert inputs(torchrecorder.record(Reads(get), data)) == ["data.x"]


def test_functions_too():
    """A plain function is recorded like a module."""

    def double(data):
        return data.x * 2

    assert inputs(torchrecorder.record(double, SimpleNamespace(x=torch.ones(2)))) == ["data.x"]


def test_the_object_is_let_go_after_the_call():
    """Nothing holds the arguments once the run is over."""
    data = Hidden(x=torch.ones(2, 3), never_read=torch.ones(1))
    gone = [weakref.ref(data), weakref.ref(data.x)]
    with torchrecorder.Recorder() as recorder:
        Reads()(data)
        del data
        gc.collect()
        assert [reference() for reference in gone] == [None] * 2
    assert inputs(recorder.recording) == ["data.x"]


def test_backward_starts_from_tensors_in_a_result_object():
    """And the result's tensors are outputs."""

    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return SimpleNamespace(loss=self.linear(x).sum(), name="a result")

    model = Gives()
    recording = torchrecorder.record(model, torch.ones(2, 3), backward=True)
    assert [slot.name for slot in recording.outputs] == ["loss"]
    assert len(recording.backward_runs) == 1 and model.linear.weight.grad is None


def nested(depth, item):
    """*item* in so many lists."""
    return nested(depth - 1, [item]) if depth else item


def test_a_tensor_with_the_id_of_a_dead_one_is_another():
    """It is not in the object that held the other one."""
    data = SimpleNamespace(x=torch.ones(3))
    places = ObjectPlaces([("data", data)])
    assert places.of(data.x) == (Role.INPUT, "data.x")
    dead = id(data.x)
    del data.x
    others = [torch.ones(3) for _ in range(100)]
    found = [places.of(other) for other in others if id(other) == dead]
    if not found:
        pytest.skip("no other tensor has its id")
    assert found == [None]


def test_how_deep_places_are_searched():
    """Arguments to the sixth level, variables to the fourth; a tensor that is gone is nowhere."""
    near, far, held, lost = (torch.ones(1) for _ in range(4))
    places = ObjectPlaces(
        [("near", nested(6, near)), ("far", nested(7, far))],
        [("held", nested(4, held)), ("lost", nested(5, lost))],
    )
    assert places.of(near) == (Role.INPUT, "near" + 6 * ".0")
    assert places.of(held) == (Role.CONSTANT, "held.0.0.0.0")
    assert places.of(far) is None and places.of(lost) is None and places.of(torch.ones(1)) is None


def test_no_more_is_prepared_than_is_searched(monkeypatch):
    """Of a long container, only what the search reaches is named: here the key of each list in the
    first of two dicts, but not of all in the second."""
    keys = []
    monkeypatch.setattr(argument_objects, "_MAX_OBJECTS", 20)
    monkeypatch.setattr(argument_objects, "_key", lambda key: keys.append(key) or str(key))
    held = [{number: [] for number in places} for places in (range(5), range(5, 500))]
    assert [*places_in([("held", held)], MAX_DEPTH)] == []
    assert keys == [*range(17)]
