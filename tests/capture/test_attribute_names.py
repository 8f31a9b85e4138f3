"""Names of tensors that modules hold otherwise than as parameters and buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import torchrecorder
from torchrecorder.capture.tensors import argument_objects
from torchrecorder.events import Role
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind


class Rates(NamedTuple):
    """Constants of a neuron."""

    up: torch.Tensor
    down: torch.Tensor


class Table:
    """A plain object."""

    def __init__(self) -> None:
        self.rows = [torch.ones(3)]


class Neuron(nn.Module):
    """Holds tensors in a named tuple, a dict, an object and as such."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = Rates(torch.ones(()), torch.ones(3))
        self.limits = {"low": torch.zeros(3)}
        self._table = Table()
        self.plain = torch.ones(3)

    def forward(self, x):
        x = x * self.rates.up - self.rates.down
        return torch.maximum(x, self.limits["low"]) + self._table.rows[0] + self.plain


class Loop(nn.Module):
    """Calls a neuron twice, and reads one of its tensors itself."""

    def __init__(self, reads: bool = False) -> None:
        super().__init__()
        self.cell = Neuron()
        self.reads = reads

    def forward(self, x):
        x = self.cell(self.cell(x))
        return x + self.cell.plain if self.reads else x


def constants(recording):
    """The names of all constants."""
    return [one.names for one in recording.values.values() if one.role is Role.CONSTANT]


def test_they_are_named_by_their_place() -> None:
    recording = torchrecorder.record(Loop(), torch.ones(3))
    names = "rates.up", "rates.down", "limits.low", "_table.rows.0", "plain"
    assert constants(recording) == [(f"cell.{name}",) for name in names]


def test_the_search_has_an_end(monkeypatch) -> None:
    """A model with many tensors in lists is not searched for each of them for ever."""
    monkeypatch.setattr(argument_objects, "_MAX_OBJECTS", 5)
    recording = torchrecorder.record(Loop(), torch.ones(3))
    assert constants(recording)[0] == ("cell.rates.up",)
    assert constants(recording)[3:] == [(), ("cell.plain",)]


class Bank(nn.Module):
    """Reads a list of tensors, one of which is replaced meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.bank = [torch.ones(3) for _ in range(20)]

    def forward(self, x):
        for number in range(20):
            if number == 10:
                self.bank[15] = x.new_tensor([1.0, 2.0, 3.0])
            x = x + self.bank[number]
        return x


def test_a_list_is_searched_once_for_all_that_is_read_from_it(monkeypatch) -> None:
    monkeypatch.setattr(argument_objects, "_MAX_OBJECTS", 60)
    names = constants(torchrecorder.record(Bank(), torch.ones(3)))
    assert names == [(f"bank.{number}",) for number in range(20) if number != 15]


def drawn(recording, depth, functions=False):
    """The names of the constants that a figure has boxes for."""
    view = make_view(recording, ViewOptions(depth=depth, fold=False, functions=functions))
    boxes = [box.id for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    return [recording.values[box].names[0] for box in boxes]


def test_a_closed_module_has_them_inside() -> None:
    """As it has its buffers; what is read elsewhere, or by its operations, has a box."""
    assert drawn(torchrecorder.record(Loop(), torch.ones(3)), 1) == []
    assert len(drawn(torchrecorder.record(Loop(), torch.ones(3)), 2)) == 5
    assert drawn(torchrecorder.record(Loop(reads=True), torch.ones(3)), 1) == ["cell.plain"]
    assert drawn(torchrecorder.record(Loop(reads=True), torch.ones(3)), 0) == []


def twice(module, x):
    """A function between the model and the module that holds the tensors."""
    return module(module(x).sin())


class Twice(Loop):
    """Calls its neuron in a function, after which it reads nothing."""

    def forward(self, x):
        return twice(self.cell, x).cos()


def test_a_closed_function_has_those_of_its_modules_inside() -> None:
    assert drawn(torchrecorder.record(Twice(), torch.ones(3)), 1, functions=True) == []


class Gradients(nn.Module):
    """Hands one of its tensors to a function."""

    def __init__(self) -> None:
        super().__init__()
        self.table = {"row": torch.ones(3)}

    def forward(self, x):
        return added(x, self.table["row"]).cos()


def added(x, row):
    """Two operations."""
    return x.sin() + row


def test_what_only_a_function_reads_is_in_it() -> None:
    """As what only a module reads is in the module."""
    recording = torchrecorder.record(Gradients(), torch.ones(3))
    assert drawn(recording, 1, functions=True) == []
    assert drawn(recording, 2, functions=True) == ["table.row"]


def executed(lines: str, **variables):
    """The recording of a script, or of a cell of a notebook."""
    held = {"tr": torchrecorder, "torch": torch, **variables}
    exec(compile(f"with tr.Recorder() as recorder:\n    {lines}", "script.py", "exec"), held)
    return held["recorder"].recording


def test_variables_of_a_script() -> None:
    """Tensors around the block that nobody was given: a variable is an input, and what is inside
    an object a constant; what IPython keeps has no name."""
    x, y = torch.ones(3), torch.zeros(3)
    held = {"y": y, "batch": {"z": torch.ones(3)}, "weight": nn.Parameter(torch.ones(3))}
    hidden = {"_": x, "Out": [x], "_x": x}
    recording = executed("(_ * y + batch['z']) * weight", **hidden, **held)
    assert constants(recording) == [(), ("batch.z",)]
    assert [slot.name for slot in recording.inputs] == ["y"]
    named = [one.names for one in recording.values.values() if one.role is Role.PARAMETER]
    assert named == [("weight",)]


def test_places_of_other_objects_count_in_the_search(monkeypatch) -> None:
    """A list of samples is not searched again for each of them; a plain variable is found, and
    models that were found before."""
    monkeypatch.setattr(argument_objects, "_MAX_OBJECTS", 20)
    held = {"net": nn.Linear(3, 3), "rows": [[number] for number in range(30)], "x": torch.ones(3)}
    line = "x + net.weight + batch['a'] + x + net.bias"
    recording = executed(line, **held, batch={"a": torch.ones(3)})
    assert constants(recording) == [()]
    assert [slot.name for slot in recording.inputs] == ["x"]
    named = [one.names for one in recording.values.values() if one.role is Role.PARAMETER]
    assert named == [("net.weight",), ("net.bias",)]


def test_long_lists_of_numbers_do_not_end_the_search() -> None:
    """After 1,000 tokens or words in a row, no more of them are looked at."""
    words = {str(number): number for number in range(150_000)}
    mixed = [*range(900), torch.ones(3)]
    held = {"tokens": [*range(150_000)], "words": words, "mixed": mixed}
    held |= {"x": torch.ones(3), "batch": {"a": torch.ones(3)}}
    recording = executed("x + batch['a'] + mixed[900]", **held)
    assert constants(recording) == [("batch.a",), ("mixed.900",)]


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """A dataset that keeps its rows and a scale for all of them in attributes."""

    def __init__(self) -> None:
        self.rows = [torch.ones(3), torch.zeros(3)]
        self._scale = torch.ones(3)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: int) -> torch.Tensor:
        return self.rows[place] * self._scale


@pytest.mark.parametrize(
    "dataset, names",
    [
        (Rows(), ["dataset.rows.0", "dataset", "dataset.rows.1"]),
        ([torch.ones(3), torch.zeros(3)], ["dataset.0", "dataset.1"]),
        (torch.utils.data.TensorDataset(torch.ones(2, 3)), ["dataset.tensors.0"]),
    ],
)
def test_what_a_data_loader_reads_is_in_its_dataset(dataset: Any, names: list[str]) -> None:
    """A function alone knows the variable of the loader, and that is not looked up."""
    loader = torch.utils.data.DataLoader(dataset, 2)
    with torchrecorder.Recorder() as recorder:
        assert len(list(loader)) == 1
    assert constants(recorder.recording) == [(name,) for name in names]


def test_samples_are_named_by_their_dataset_although_a_variable_holds_it() -> None:
    """All of them, however many there are; a variable that is the tensor itself comes first."""
    tensors = [torch.ones(3), torch.zeros(3)]
    loader = torch.utils.data.DataLoader(tensors, 2)  # type: ignore[arg-type]
    recording = executed("for batch in loader: model(batch)", model=nn.Linear(3, 3), loader=loader,
                         mine=tensors[1])
    assert constants(recording) == [("dataset.0",), ("mine",)]


def test_a_variable_of_the_script_is_an_input_by_its_name() -> None:
    recording = executed("model(images)", model=nn.Linear(3, 3), images=torch.ones(3))
    assert [slot.name for slot in recording.inputs] == ["images"]


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer) -> torchrecorder.Recording:
    """The recording of the second step; the first made the state."""
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    with torchrecorder.Recorder(model) as recorder:
        optimizer.step()
    return recorder.recording


def test_the_state_of_an_optimizer_belongs_to_weights() -> None:
    """Each tensor has the names of its weight and of its place; without a name, its place alone."""
    model, free = nn.Linear(2, 3), nn.Parameter(torch.ones(3))
    optimizer = torch.optim.RMSprop([*model.parameters(), free], momentum=0.9)
    free.grad = torch.ones(3)
    found = {names[0] for names in constants(stepped(model, optimizer)) if names}
    kinds = {"step", "square_avg", "momentum_buffer"}
    named = {f"{weight}.{kind}" for weight in ("weight", "bias") for kind in kinds}
    assert {name for name in found if not name.endswith(".grad")} == named | kinds


def test_the_state_is_of_the_optimizer_that_steps() -> None:
    """One after the other; what a tensor of a former one was called is no longer known."""
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)
    optimizers = [
        torch.optim.SGD(first.parameters(), momentum=0.9),
        torch.optim.Adagrad(second.parameters()),
    ]
    model = nn.ModuleList([first, second])
    for optimizer in optimizers:
        stepped(model, optimizer)
    with torchrecorder.Recorder(model) as recorder:
        for optimizer in optimizers:
            optimizer.step()
    found = {names[0] for names in constants(recorder.recording) if names}
    assert {"0.weight.momentum_buffer", "0.bias.momentum_buffer"} < found
    assert {"1.weight.sum", "1.bias.sum", "1.weight.step", "1.bias.step"} < found


def weights(recording: torchrecorder.Recording) -> list[str]:
    """The names of the parameters."""
    values = recording.values.values()
    return [".".join(one.names) for one in values if one.role is Role.PARAMETER]


class Flow(nn.Module):
    """Its program calls a method that is not `forward`."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def density(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_modules_are_named_by_the_model_of_the_script_that_has_them() -> None:
    """Also if the program calls them by another name; one with a variable of its own has that."""
    flow, x = Flow(), torch.ones(3)
    recording = executed("flow.density(x)", flow=flow, x=x)
    assert [scope.path for scope in recording.scopes.values()] == ["flow.layers.0", "flow.layers.1"]
    assert set(weights(recording)) == {f"flow.layers.{number}.{name}" for number in range(2)
                                       for name in ("weight", "bias")}
    head = flow.layers[1]
    recording = executed("flow.layers[0](head(x))", flow=flow, head=head, x=x)
    assert [scope.path for scope in recording.scopes.values()] == ["head", "flow.layers.0"]
    recording = executed("other(x)", other=nn.Linear(3, 3), x=x, flow=flow)
    assert [scope.path for scope in recording.scopes.values()] == ["other"]


def test_variables_of_a_script_name_modules_that_a_library_calls() -> None:
    """As ``functional_call`` does."""
    net = nn.Linear(3, 3)
    line = "torch.func.functional_call(net, dict(net.named_parameters()), (x,))"
    recording = executed(line, net=net, x=torch.ones(3))
    assert [scope.path for scope in recording.scopes.values()] == ["net"]
    assert weights(recording) == ["net.weight", "net.bias"]
