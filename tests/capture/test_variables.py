"""What a recorded function reads without being given it has the names of its variables."""

from __future__ import annotations

import copy
import functools
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

import torchrecorder
from torchrecorder.events import Role

X = torch.ones(2, 3)
SHIFT = torch.zeros(3)
MODEL = nn.Sequential(nn.Linear(3, 3), nn.ReLU())


def paths(recording):
    """The paths of all calls of modules, without the root."""
    return [scope.path for scope in recording.scopes.values() if scope.path]


def names(recording, *roles):
    """The names of all values with these roles."""
    return [
        name for value in recording.values.values() if value.role in roles for name in value.names
    ]


def shifted(x):
    """Reads global variables."""
    return MODEL(x) + SHIFT


def through_helper(x):
    """Reads the variables of another function."""
    return shifted(x)


@torch.no_grad()
def decorated(x):
    """Reads global variables, in a wrapper of another file."""
    return MODEL(x) + SHIFT


def through_decorated(x):
    """Reads the variables of a decorated function."""
    return decorated(x)


def inside(x):
    """Reads a global variable in a function of its own."""
    return (lambda: MODEL(x))()


def recursive(x, times=2):
    """Reads a variable in which it is itself."""
    return recursive(MODEL(x), times - 1) if times else x


class Proxy:
    """Stands for something that is not there yet."""

    @property
    def __class__(self):
        raise RuntimeError("outside of a request")


def with_proxy(x):
    """Mentions a global variable that holds one."""
    return shifted(x) if x is not None else PROXY  # noqa: F821


def test_closures():
    """Also of the functions in it, and what was never called has no name."""
    teacher, student, weight = nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3)), torch.ones(3)
    leaf = nn.Parameter(torch.ones(3))
    unused = nn.Linear(3, 3)

    def step(x):
        loss = lambda: F.mse_loss(student(x) * leaf, teacher(x) * weight)  # noqa: E731
        return loss() if x is not None else unused(x)

    recording = torchrecorder.record(step, X)
    assert paths(recording) == ["student", "student.0", "teacher"]
    weights = ["student.0.weight", "student.0.bias", "leaf", "teacher.weight", "teacher.bias"]
    assert sorted(names(recording, "parameter")) == sorted(weights)
    assert names(recording, "constant") == ["weight"] and names(recording, "input") == ["x"]
    text = torchrecorder.make_dot(recording).source
    assert "teacher: Linear" in text and "leaf" in text


def test_globals():
    """Of the function, and of another one of its file that it calls, also if it is decorated."""
    for function in (shifted, through_helper, decorated, through_decorated):
        recording = torchrecorder.record(function, X)
        assert paths(recording) == ["MODEL", "MODEL.0", "MODEL.1"]
        assert names(recording, "constant") == ["SHIFT"] and names(recording, "input") == ["x"]


def test_functions_in_functions_and_in_themselves():
    """What they read is found, once."""
    assert paths(torchrecorder.record(inside, X)) == ["MODEL", "MODEL.0", "MODEL.1"]
    recording = torchrecorder.record(recursive, X)
    assert paths(recording) == ["MODEL", "MODEL.0", "MODEL.1"] * 2


def test_results_with_a_model_in_them():
    """Only tensors are outputs."""
    recording = torchrecorder.record(lambda x: SimpleNamespace(net=MODEL, last=MODEL(x)), X)
    assert [slot.name for slot in recording.outputs] == ["last"]


def test_no_code_of_proxies_runs(monkeypatch):
    """They say to be of a class that they ask for first."""
    monkeypatch.setitem(globals(), "PROXY", Proxy())
    assert paths(torchrecorder.record(with_proxy, X)) == ["MODEL", "MODEL.0", "MODEL.1"]


class Trainer:
    """Has a model, and others in a list and deeper."""

    def __init__(self):
        self.model = nn.Linear(3, 3)
        self._hidden = nn.Linear(3, 3)
        self.others = [nn.Linear(3, 3), {"deep": nn.Linear(3, 3)}]
        self.scale = torch.ones(3)

    def step(self, x, factor=None):
        """Calls them all."""
        for model in (self.model, self._hidden, self.others[0], self.others[1]["deep"]):
            x = model(x)
        return x * self.scale if factor is None else x * factor

    __call__ = step


def test_attributes_of_the_object():
    """Of a bound method, of a callable object, and of one in a variable."""
    trainer = Trainer()
    for function in (trainer.step, trainer):
        recording = torchrecorder.record(function, X)
        assert paths(recording) == ["model", "_hidden", "others.0", "others.1.deep"]
        assert names(recording, "constant") == ["scale"]
    recording = torchrecorder.record(lambda x: trainer.step(x), X)
    assert paths(recording)[:3] == ["trainer.model", "trainer._hidden", "trainer.others.0"]


class Lightning(nn.Module):
    """A module whose step is recorded, and which holds a tensor that is no buffer."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 3))
        self.bias = nn.Parameter(torch.ones(3))
        self.scale = torch.ones(3)

    def forward(self, x):
        return self.net(x) * self.scale + self.bias

    def training_step(self, x):
        """Calls itself."""
        return self(x) * self.scale


def test_methods_of_a_module():
    """Names in it are as in the module itself, also in a partial function."""
    model = Lightning()
    for function in (model.training_step, functools.partial(model.training_step)):
        recording = torchrecorder.record(function, X)
        assert paths(recording) == ["net", "net.0"]
        assert names(recording, "constant") == ["scale"]
        assert sorted(names(recording, "parameter")) == ["bias", "net.0.bias", "net.0.weight"]


def test_arguments():
    """Models and objects with models in them, also those of a partial function."""
    model, trainer = nn.Linear(3, 3), Trainer()

    def step(net, x, *, by):
        return by.model(net(x))

    recording = torchrecorder.record(step, (model, X), {"by": trainer})
    assert paths(recording) == ["net", "by.model"] and names(recording, "input") == ["x"]
    partial = functools.partial(step, model, by=trainer)
    recording = torchrecorder.record(partial, X)
    assert paths(recording) == ["net", "by.model"] and names(recording, "input") == ["x"]


def test_parts_of_a_model_that_is_not_called():
    """Submodules that are called, and weights, buffers and tensors that are read."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    model.scale = torch.ones(3)

    def step(x):
        y = model[1](x) + model[1].running_mean + model.scale
        return F.linear(y, model[0].weight)

    recording = torchrecorder.record(step, X)
    assert paths(recording) == ["model.1"]
    assert names(recording, "constant") == ["model.scale"]
    assert "model.0.weight" in names(recording, "parameter")
    assert "model.0.bias" not in names(recording, "parameter")
    assert "model.1.running_mean" in names(recording, "buffer")
    assert [module.names for module in recording.modules.values()] == [("model.1",)]


def test_one_model_before_the_whole():
    """A part that was called first has one name, that of the whole one."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    recording = torchrecorder.record(lambda x: model(model[0](x)), X)
    assert paths(recording) == ["model.0", "model", "model.0", "model.1"]
    assert {module.names for module in recording.modules.values()} == {
        ("model.0",), ("model",), ("model.1",)
    }


def test_two_variables_of_one_name():
    """The second is numbered; a copy in a variable that does not exist has its class."""
    one = nn.Linear(3, 3)

    def inner(one):
        return lambda x: one(x)

    other = inner(nn.Linear(3, 3))
    recording = torchrecorder.record(lambda x: copy.deepcopy(one)(other(one(x))), X)
    assert paths(recording)[:2] == ["one", "one_1"]
    assert [scope.name for scope in recording.scopes.values()][-1] == "Linear"


def test_state_of_an_optimizer_is_not_called_after_its_variable():
    """Only weights that a variable or a module holds have names."""
    weight = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([weight])

    def step():
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    step()
    recording = torchrecorder.record(step)
    assert "weight" in names(recording, "parameter")
    assert not any("optimizer" in name for value in recording.values.values()
                   for name in value.names)


class Collocation:
    """Points that are no leaves, because they were converted after gradients were asked for."""

    def __init__(self):
        self.x = torch.ones(4, dtype=torch.float64, requires_grad=True).float()

    def residual(self):
        """The derivative at the points."""
        return torch.autograd.grad(self.x.sin().sum(), self.x)[0]


def test_what_was_computed_from_weights_before_has_the_name_of_its_place():
    """Like a tensor without a history, in functions, methods and objects that are given."""
    points = Collocation()
    given = torchrecorder.record(lambda points: points.residual(), points)
    assert "points.x" in names(given, Role.INPUT)
    assert "points.x" in names(torchrecorder.record(lambda: points.residual()), Role.CONSTANT)
    assert "x" in names(torchrecorder.record(points.residual), Role.CONSTANT)


def test_the_targets_of_detection():
    """A dict for each image, in a list in a batch in a list of batches."""
    batches = [(torch.ones(2), [{"boxes": torch.ones(1, 4)}, {"boxes": torch.ones(3, 4)}])]

    def train():
        for _, targets in batches:
            for target in targets:
                target["boxes"].sin()

    assert names(torchrecorder.record(train), Role.CONSTANT) == [
        "batches.0.1.0.boxes", "batches.0.1.1.boxes"
    ]


class Shared:
    """A class whose method reads what the class itself holds."""

    scale = torch.ones(3)
    model = nn.Linear(3, 3)

    @classmethod
    def run(cls, x):
        """Reads both."""
        return cls.model(x) * cls.scale


class Double(torch.autograd.Function):
    """Its ``apply`` is a method of the class."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_methods_of_a_class():
    """Of a class of the program and of a custom function: nothing is lost."""
    recording = torchrecorder.record(Shared.run, X)
    assert paths(recording) == ["model"] and names(recording, "constant") == ["scale"]
    assert recording.run.lost == 0
    recording = torchrecorder.record(Double.apply, X)
    assert [op.name for op in recording.ops.values()] == ["mul"] and recording.run.lost == 0
