"""Models that the recorder was not told of, and those that are made while it runs."""

from __future__ import annotations

import copy
import io
import json
from collections import Counter

import pytest
import torch
from torch import nn

import torchrecorder
from tests.callers import called
from tests.page.test_data import Page, data_of
from torchrecorder.annotations.parameters import PARAMETERS, TRAINABLE
from torchrecorder.events import STORED, ScopeKind
from torchrecorder.export.dot import dot_text
from torchrecorder.graph.codec import decode, encode
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style


class Net(nn.Module):
    """Two blocks that can be called alone."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(4, 3))

    def forward(self, x):
        return self.second(self.first(x))


class Holder:
    """Not a module, though it makes tensors when it is made."""

    def __init__(self):
        self.tensor = torch.ones(2, 3).exp()


def stored_names(recording):
    """The names of all parameters and buffers of a recording."""
    values = recording.values.values()
    return {name for value in values if value.role in STORED for name in value.names}


def names_of(model, prefix):
    """The names that PyTorch gives them."""
    return {f"{prefix}.{name}" for name in model.state_dict()}


def regions(recording, kind):
    """The names of the regions of this kind, and the operations directly in each."""
    return {
        scope.name: [op.name for op in recording.children[scope.id]]
        for scope in recording.scopes.values()
        if scope.kind is kind
    }


def test_names_in_models_that_the_recorder_was_not_given():
    """Each is named as it is called, a second one of that name with a number."""
    one, two, x = Net(), Net(), torch.ones(2, 3)
    with torchrecorder.Recorder() as recorder:
        one(x) + two(x)
    recording = recorder.recording
    first, second = called("one", "Net"), called("two", "Net_1")
    assert stored_names(recording) == names_of(one, first) | names_of(two, second)
    paths = [scope.path for scope in recording.scopes.values()]
    assert {first, f"{first}.first", f"{first}.first.0", second, f"{second}.second.1"} <= {*paths}
    children = [scope for scope in recording.scopes.values() if scope.path == f"{second}.second"]
    assert [scope.name for scope in children] == ["second"]


def test_names_in_models_that_a_function_creates():
    """They are those of its calls, too; inside a model, modules keep their places."""
    made = []

    def run(x):
        net = Wrapper(Net())
        made.append(net)
        return net(x)

    recording = torchrecorder.record(run, torch.ones(2, 3))
    name = called("net", "Wrapper")
    assert stored_names(recording) == names_of(made[0], name)
    paths = [scope.path for scope in recording.scopes.values()]
    assert {name, f"{name}.module", f"{name}.module.first.0", f"{name}.extra"} <= {*paths}


class Wrapper(nn.Module):
    """Calls another module, and one of its own."""

    def __init__(self, module):
        super().__init__()
        self.module, self.extra = module, nn.Linear(3, 2)

    def forward(self, x):
        return self.extra(self.module(x))


def test_names_in_models_that_a_function_creates_one_after_another():
    """Also where the weights of one have the memory of those of one that is gone."""

    def trial():
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        model(torch.ones(2, 3)).sum().backward()
        return names_of(model, name)

    name = called("model", "Sequential")
    with torchrecorder.Recorder() as recorder:
        wanted = {one.replace(name, f"{name}_{number}" if number else name)
                  for number in range(6) for one in trial()}
    assert stored_names(recorder.recording) == wanted


def test_a_wrapper_of_the_recorded_model():
    """The names in the model stay as they are, and its count is its own."""
    model, x = Net(), torch.ones(2, 3)
    wrapper = Wrapper(model)
    with torchrecorder.Recorder(model) as recorder:
        wrapper(x)
    recording = recorder.recording
    name = called("wrapper", "Wrapper")
    extra = {f"{name}.extra.weight", f"{name}.extra.bias"}
    assert stored_names(recording) == {*model.state_dict()} | extra
    paths = {scope.path: scope.id for scope in recording.scopes.values()}
    assert {"", "first.0", name, f"{name}.extra"} <= {*paths}
    count = sum(each.numel() for each in model.parameters())
    assert PARAMETERS.on(recording).of([paths[""]]) == count
    rows = [line.split() for line in str(recording.summary()).splitlines()]
    listed = {row[0]: row[-1] for row in rows if row and row[0] == name}
    listed.update((row[1], row[-1]) for row in rows if row[1:2] == ["Net"])
    whole = sum(each.numel() for each in wrapper.parameters())
    assert listed == {name: str(whole), "Net": str(count)}


def test_another_model_beside_the_recorded_one():
    """It does not count in that, also where it is called as a part of that is."""
    model, x = nn.ModuleDict({"Net": Net()}), torch.ones(2, 3)
    other = Net()
    model.forward = lambda x: model["Net"](x)
    with torchrecorder.Recorder(model) as recorder:
        other(model(x))
    recording = recorder.recording
    second = called("other", "Net_1")
    names = names_of(model["Net"], "Net") | names_of(other, second)
    assert stored_names(recording) == names
    calls = {scope.path: scope.id for scope in recording.scopes.values()}
    count = sum(each.numel() for each in other.parameters())
    for path in ("", "Net", second):
        assert PARAMETERS.on(recording).of([calls[path]]) == count
    assert load(recording).modules == recording.modules


def load(recording):
    """What is read from the file of a recording."""
    return decode(json.loads(json.dumps(encode(recording))), type(recording))


def test_parts_that_are_called_before_their_model():
    """A module is listed once, under all of its names."""
    model, x = Net(), torch.ones(2, 3)
    with torchrecorder.Recorder() as recorder:
        model.first(x)
        model(x)
    recording = recorder.recording
    assert Counter(module.cls for module in recording.modules.values()) == Counter(
        type(module).__name__ for module in model.modules()
    )
    paths = [scope.path for scope in recording.scopes.values() if scope.kind is ScopeKind.MODULE]
    part, whole = called("first", "Sequential"), called("model", "Net")
    assert paths.count(f"{part}.0") == 1 and paths.count(f"{whole}.first.0") == 1
    count = sum(each.numel() for each in model.parameters())
    assert PARAMETERS.on(recording).total() == count
    (call,) = [scope.id for scope in recording.scopes.values() if scope.path == whole]
    assert PARAMETERS.on(recording).of([call]) == count
    assert recording.find(f"{whole}.first.0.weight") == recording.find(f"{part}.0.weight")


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_model_that_is_made_while_it_is_recorded(lazy, moved):
    """It has the parameters, buffers and gradients that PyTorch says it has."""
    made = []

    def run():
        head = nn.LazyLinear(2) if lazy else nn.Linear(3, 2)
        made.append(nn.Sequential(Net(), head))
        made[0][0].first[0].bias.requires_grad = False
        x = torch.rand(4, 3)
        for kind in (torch.float32, torch.float64)[: 1 + moved]:
            made[0].to(kind)(x.to(kind)).sum().backward()

    recording = torchrecorder.record(run)
    (model,) = made
    assert stored_names(recording) == names_of(model, "made.0")
    weights = {name: weight for name, weight in model.named_parameters()}
    assert PARAMETERS.on(recording).total() == sum(each.numel() for each in weights.values())
    assert TRAINABLE.on(recording).total() == sum(
        each.numel() for each in weights.values() if each.requires_grad
    )
    for name, weight in weights.items():
        missing = recording.why_no_gradient(f"made.0.{name}")
        assert (missing is None) == (weight.grad is not None), name


def test_weights_without_a_shape_count_when_they_have_one():
    """Also if they are moved before."""
    model = nn.Sequential(nn.LazyLinear(2))
    with torchrecorder.Recorder(model) as recorder:
        model.double()(torch.ones(4, 3, dtype=torch.float64))
    count = PARAMETERS.on(recorder.recording).total()
    assert count == sum(each.numel() for each in model.parameters())


def test_buffers_that_a_call_writes_before_it_has_its_weights():
    """They belong to the module as they were before, like its other buffers."""
    recording = torchrecorder.record(nn.LazyBatchNorm1d(), torch.rand(4, 3), restore=False)
    (module,) = recording.modules.values()
    assert module.stored[-1].name == "num_batches_tracked"
    assert all(recording.values[slot.value].role in STORED for slot in module.stored)


def test_making_a_model_is_one_region():
    """Also that of the modules in it; what is no module has none."""

    def run():
        return Net()(Holder().tensor), nn.Linear(3, 3)

    made = regions(torchrecorder.record(run), ScopeKind.CONSTRUCTION)
    assert list(made) == ["Net.__init__", "Linear.__init__"]
    assert Counter(made["Linear.__init__"]) <= Counter(made["Net.__init__"])
    assert "exp" not in made["Net.__init__"]


def test_copies_and_loads_of_a_model_are_one_region_each():
    """What is copied of it feeds the copy."""
    model, x = Net(), torch.ones(2, 3)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)

    def run():
        file.seek(0)
        model.load_state_dict(torch.load(file))
        twin = copy.deepcopy(model)
        return twin(copy.deepcopy(x)), twin.state_dict()

    recording = torchrecorder.record(run)
    found = regions(recording, ScopeKind.TRANSFER)
    assert list(found) == ["load", "load_state_dict", "deepcopy", "state_dict"]
    assert found["load_state_dict"].count("copy_") == len(model.state_dict())
    assert "deepcopy" in [op.name for op in recording.ops.values()]  # of the input
    (linear, *_) = [op for op in recording.ops.values() if op.name == "linear"]
    makers = [recording.ops[recording.values[slot.value].producer] for slot in linear.inputs[1:]]
    copied = [recording.ops[recording.values[op.inputs[0].value].producer] for op in makers]
    assert {recording.scopes[op.scope].name for op in copied} == {"deepcopy"}


def test_the_weights_of_a_region_are_counted_behind_folds():
    """A box says how many weights it makes, however many of their readers are drawn.

    In a page, too, where all of them can be drawn but what counts batches.
    """

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            blocks = (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) for _ in range(5))
            self.blocks = nn.Sequential(*blocks)

        def forward(self, x):
            return self.blocks(x)

    recording = torchrecorder.record(lambda x: Outer()(x), torch.ones(2, 3))
    figure = dot_text(draw(torchrecorder.view(recording), Style()))
    assert "→ 20 weights, 15 buffers" in figure
    assert Page(data_of(recording)).box("Outer.__init__")[1:] == ["→ 20 weights, 15 buffers"]


def test_the_size_of_the_forward_pass_has_no_weights_in_it():
    """It is that of the same model, made before."""
    model, x = Net(), torch.ones(2, 3)
    line = "Forward pass size"
    before = torchrecorder.record(model, x).summary()
    made = torchrecorder.record(lambda x: Net()(x), x).summary()
    sizes = [
        row for text in (str(before), str(made)) for row in text.splitlines() if line in row
    ]
    assert len(sizes) == 2 and len({row.split(line)[1].strip() for row in sizes}) == 1


def test_what_makes_and_updates_weights_in_the_table():
    """The region of a model that is made is one row, and those of steps keep their title."""

    def run():
        model = Net()
        model.eval()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()

    recording = torchrecorder.record(run)
    lines = str(recording.summary()).splitlines()
    titles = [line.partition("  ")[0].strip("│├└─ ") for line in lines]
    title = "model (Net)" if called("model", "Net") == "model" else "Net"
    assert titles[2:5] == ["run()", "Net.__init__ (construction)", title]
    assert [title for title in titles if "SGD" in title] == ["optimizer SGD"]


def test_what_runs_while_a_model_is_made_is_in_its_row():
    """A module that tries out one of its own."""

    class Tried(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 4)
            self.size = self.body(torch.ones(1, 3)).shape[1]

    recording = torchrecorder.record(lambda: (Tried(), None)[1])
    assert ScopeKind.MODULE in {scope.kind for scope in recording.scopes.values()}
    text = str(recording.summary())
    assert "Tried.__init__ (construction)" in text and "Linear" not in text


class Around(nn.Module):
    """A model around one that exists already."""

    def __init__(self, inside):
        super().__init__()
        self.inside, self.head = inside, nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.inside(x))


@pytest.mark.parametrize("made", [True, False])
def test_a_trained_model_within_another(made):
    """It was trained before it became a part of another: that does not take its weights away."""
    before, x = nn.Linear(3, 2), torch.ones(2, 3)
    with torchrecorder.Recorder() as recorder:
        inside = nn.Linear(3, 2) if made else before
        optimizer = torch.optim.SGD(inside.parameters(), 0.1)
        inside(x).sum().backward()
        optimizer.step()
        Around(inside)(x).sum().backward()
    recording = recorder.recording
    numbers = PARAMETERS.on(recording)
    called = [scope.id for scope in recording.scopes.values() if scope.kind is ScopeKind.MODULE]
    assert [numbers.of([scope]) for scope in called] == [8, 11, 8, 3]


def test_a_weight_that_set_gives_other_memory():
    """``set_`` is not heard; parametrizations call it. The weight is what it was: it has a
    gradient."""
    with torchrecorder.Recorder() as recorder:
        model = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))
        model(torch.ones(2, 4)).sum().backward()
    recording = recorder.recording
    name = f"{called('model', 'ParametrizedLinear')}.parametrizations.weight.original"
    assert recording.why_no_gradient(name) is None
    assert "no gradient" not in recording.summary()


class Centered(nn.Module):
    """Each call computes another average."""

    def __init__(self):
        super().__init__()
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x):
        y = x - self.center
        self.center = self.center * 0.9 + x.detach().mean(0) * 0.1
        return y


@pytest.mark.parametrize("known", [True, False])
def test_buffers_that_each_call_computes_anew(known):
    """They have the name of those before, and are connected to what computed them; so has the last,
    which no call reads."""
    model = Centered()
    with torchrecorder.Recorder(model) if known else torchrecorder.Recorder() as recorder:
        for _ in range(3):
            model(torch.rand(2, 3))
    recording = recorder.recording
    (name,) = {value.names for value in recording.values.values() if "center" in str(value.names)}
    values = [value for value in recording.values.values() if value.names == name]
    assert [value.producer is None for value in values] == [True, False, False, False]
    assert {recording.stored[value.id] for value in values} == {values[0].role}
    calls = [scope for scope in recording.scopes.values() if scope.cls == "Centered"]
    assert len({recording.structures[scope.id] for scope in calls}) == 1
