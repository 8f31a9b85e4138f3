"""Parameters and buffers that a block reads before it calls their model."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import torchrecorder
from tests.callers import called
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.entries import EarlyReads, Entry
from torchrecorder.events import Role, ScopeId, ScopeLeft, ValueId
from torchrecorder.graph.nodes import Value

SHORT = {
    Role.PARAMETER: ["0.weight", "0.bias", "1.weight", "1.bias"],
    Role.BUFFER: ["1.running_mean", "1.running_var", "1.num_batches_tracked"],
}
MODEL = called("model", "Sequential")
"""What a call in a function calls the model."""


def full(model: str = MODEL) -> dict[Role, list[str]]:
    """The names of all tensors of a model of this name."""
    return {role: [f"{model}.{name}" for name in names] for role, names in SHORT.items()}


def built() -> nn.Module:
    """A model with parameters, of which one is frozen, and buffers."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[0].bias.requires_grad_(False)
    return model


def moved(model: nn.Module) -> None:
    """A transfer, which reads every tensor."""
    model.to("cpu")


def filled(model: nn.Module) -> None:
    """Writes in place, into each tensor."""
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(1)


def summed(model: nn.Module) -> None:
    """A penalty on the parameters, and their buffers beside it."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.sum()


def before_the_run(recording: torchrecorder.Recording) -> dict[Role, list[str]]:
    """The names of tensors from before the run, by role."""
    return {
        role: [
            name
            for value in recording.values.values()
            if value.role is role and value.producer is None
            for name in value.names
        ]
        for role in SHORT
    }


@pytest.mark.parametrize("read", [moved, filled, summed])
def test_a_model_names_what_was_read_before_its_call(read: Callable[[nn.Module], None]) -> None:
    """Each module holds the first values, as if it had been known when they were read."""
    model = built()
    with torchrecorder.Recorder() as recorder:
        read(model)
        model(torch.ones(4, 3, dtype=next(model.parameters()).dtype))
    recording = recorder.recording
    assert before_the_run(recording) == full()
    held = [
        recording.values[slot.value]
        for module in recording.modules.values()
        for slot in (*module.parameters, *module.buffers)
    ]
    assert [value.producer for value in held] == [None] * 7
    assert [value.trainable for value in held] == [True, False, True, True, False, False, False]
    assert not any(value.role is Role.CONSTANT for value in recording.values.values())


def test_what_is_written_later_has_the_name_too() -> None:
    """An update of a weight that was read before the call is still that weight."""
    model = built()
    with torchrecorder.Recorder() as recorder:
        summed(model)
        model(torch.ones(4, 3))
        with torch.no_grad():
            model[0].weight.mul_(2)
            model[1].running_mean.mul_(2)
    recording = recorder.recording
    written = [op.outputs[0] for op in recording.ops.values() if op.name == "mul_"]
    assert [recording.values[value].names for value in written] == [
        (f"{MODEL}.0.weight",), (f"{MODEL}.1.running_mean",),
    ]


def test_other_events_of_the_time_stay_what_they_are() -> None:
    """Another thread may write its own between the first read and its value."""
    held = torch.ones(2)
    entry = Entry(held, lambda entry: None)
    entry.key, entry.value, entry.names, entry.role = id(held), ValueId("v1"), (), Role.CONSTANT
    facts = (2,), "float32", "cpu", Role.CONSTANT, (), None, False, None, 8, "Tensor", False, 0
    other, first = Value(ValueId("v0"), *facts), Value(ValueId("v1"), *facts)
    tape = Tape()
    early = EarlyReads(tape, {entry.key: entry})
    early.add(entry, 0)
    tape.write(ScopeLeft(ScopeId("s0"), (), (), 0.0, False))
    tape.write(other)
    tape.write(first)
    assert early.name(held, Role.BUFFER, ("m.x",)) == "v1"
    assert tape.events[1:] == [other, first, first.replace(role=Role.BUFFER, names=("m.x",))]


def test_the_first_value_keeps_its_dtype() -> None:
    """A name that comes later changes nothing else; a buffer is another tensor after that."""
    model = built()
    with torchrecorder.Recorder() as recorder:
        model.double()
        model(torch.ones(4, 3, dtype=torch.float64))
    recording = recorder.recording
    found = {value.names[0]: value for value in reversed(recording.values.values()) if value.names}
    first = found[f"{MODEL}.0.weight"]
    assert (first.dtype, first.shape, first.bytes) == ("float32", (3, 3), 36)
    buffers = found["1.running_mean"], found[f"{MODEL}.1.running_mean"]
    assert [(value.role, value.dtype) for value in buffers] == [
        (Role.BUFFER, "float32"), (Role.BUFFER, "float64"),
    ]


@pytest.mark.parametrize("convert", [copy.deepcopy, nn.Module.state_dict, nn.Module.cpu])
def test_a_model_that_is_copied_or_saved(convert: Callable[[nn.Module], Any]) -> None:
    """A model that is never called has names for its tensors; only the caller knows its own."""
    model = built()
    with torchrecorder.Recorder() as recorder:
        convert(model)
    assert before_the_run(recorder.recording) == SHORT


class Copies(nn.Module):
    """Copies a model that somebody else has."""

    def __init__(self, give: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.give = give

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        copy.deepcopy(self.give())
        return x + 1


def test_a_model_that_is_copied_while_another_one_runs() -> None:
    """The innermost of the calls is asked for the names."""
    model = Copies([built()].pop)
    with torchrecorder.Recorder() as recorder:
        model(torch.ones(3))
    assert before_the_run(recorder.recording) == SHORT


def test_variables_of_a_script_name_the_tensors_of_a_model_that_is_not_called() -> None:
    """With the roles that they have there; a model that is created later is found as well."""
    lines = """
with tr.Recorder() as recorder:
    norms = [tensor.sum() for tensor in (*model.parameters(), *model.buffers())]
    other = type(model)(type(model[0])(2, 2))
    other[0].weight.sum()
"""
    held = {"tr": torchrecorder, "model": built()}
    exec(compile(lines, "script.py", "exec"), held)
    recording = held["recorder"].recording
    assert before_the_run(recording) == full("model")


def test_a_name_that_a_module_gives_is_better_than_that_of_a_variable() -> None:
    """The call says what the parameter is called in the model that is drawn."""
    lines = """
with tr.Recorder() as recorder:
    layer.weight.sum()
    model(x)
"""
    model = built()
    held = {"tr": torchrecorder, "layer": model[0], "model": model, "x": torch.ones(4, 3)}
    exec(compile(lines, "script.py", "exec"), held)
    named = before_the_run(held["recorder"].recording)[Role.PARAMETER]
    assert named[0].endswith(".0.weight")


@torch.no_grad()
def halved(model: nn.Module) -> None:
    """A loop names several weights by the same variable."""
    for weight in model.parameters():
        weight.mul_(0.5)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_weights_written_in_a_loop_count_once() -> None:
    """Each is a parameter before it is written; what the loop makes of it has its name, too."""
    model = nn.Linear(3, 2)
    with torchrecorder.Recorder() as recorder:
        halved(model)
        model(torch.ones(1, 3))
    recording = recorder.recording
    name = called("model", "Linear")
    rows = [value for value in recording.values.values() if value.names]
    assert [(value.names[0], value.role.value, value.producer) for value in rows] == [
        (f"{name}.weight", "parameter", None), (f"{name}.weight", "inner", "o0"),
        (f"{name}.bias", "parameter", None), (f"{name}.bias", "inner", "o1"),
    ]
    assert "Total params             8" in recording.summary()
