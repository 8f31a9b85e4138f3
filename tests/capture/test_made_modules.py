"""Modules that a block makes: their weights are parameters, named by the model that is called."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import torchrecorder
from tests.callers import called
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.events import Role

X = torch.ones(2, 4)


def weights(recording: torchrecorder.Recording) -> list[str]:
    """The names of parameters, in the order of their modules."""
    found = [
        slot.value for module in recording.modules.values() for slot in module.parameters
    ]
    assert all(recording.values[value].role is Role.PARAMETER for value in found)
    return [" ".join(recording.values[value].names) for value in dict.fromkeys(found)]


def test_weights_that_functional_call_takes_inside_of_grad() -> None:
    """The wrapped parameters are those of the module, although it never has others."""
    with torchrecorder.Recorder() as recorder:
        net = nn.Linear(4, 1)

        def loss(held):
            return torch.func.functional_call(net, held, (X,)).sum()

        held = dict(net.named_parameters())
        gradients = torch.func.grad(loss)(held)
        loss({name: held[name] - gradients[name] for name in held}).backward()
    recording, name = recorder.recording, called("net", "")
    assert all(weight.grad is not None for weight in net.parameters())
    prefix = f"{name}." if name else ""
    assert weights(recording) == [f"{prefix}weight", f"{prefix}bias"]
    assert recording.annotations["parameters"].total() == 5
    for weight in weights(recording):
        assert "no gradient" not in str(recording.why_no_gradient(weight)).lower()


@pytest.mark.parametrize("parametrized", [spectral_norm, weight_norm])
def test_weights_of_parametrizations_have_the_path_of_the_model(parametrized) -> None:
    """Which calls them while it is made, when nothing holds them yet."""
    with torchrecorder.Recorder() as recorder:
        model = nn.Sequential(parametrized(nn.Linear(4, 4)), nn.ReLU())
        model(X)
    root = called("model", "Sequential")
    assert set(weights(recorder.recording)) == {
        f"{root}.{name}" for name, _ in model.named_parameters()
    }


class Sized(nn.Module):
    """Runs its layers once to see the size of their result."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.head = nn.Linear(self.features(X).shape[1], 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


def test_a_module_that_its_construction_calls() -> None:
    """Alone later, it has the name of that call; in its model, that of its place."""
    with torchrecorder.Recorder() as recorder:
        model = Sized()
        model(X)
    root = called("model", "Sized")
    wanted = {f"{root}.{name}" for name, _ in model.named_parameters()}
    assert {name.split()[-1] for name in weights(recorder.recording)} == wanted
    with torchrecorder.Recorder() as recorder:
        made = spectral_norm(nn.Linear(4, 4))
        parts = made.parametrizations.weight
        parts()
    name = called("parts", "ParametrizationList")
    assert weights(recorder.recording) == [f"{name}.original"]
    assert list(recorder.recording.scopes.values())[-3].path == name


def test_tied_weights_are_noted() -> None:
    """As those of a model from before the block; computed weights of a call are not."""
    with torchrecorder.Recorder() as recorder:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight = model[0].weight
        model(X)
    assert recorder.recording.summary().count("tied") == 2


class Pooled(nn.Module):
    """Its parameter is made of what an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.seed = nn.Parameter(torch.randn(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.seed


def test_a_parameter_belongs_to_the_construction_of_its_module() -> None:
    """Not to what reads it first."""
    held = torch.ones(4, 1)
    with torchrecorder.Recorder() as recorder:
        model, other = Pooled(), nn.Linear(1, 1)
        other.weight = nn.Parameter(held * 2)
        model(X)
    recording = recorder.recording
    made = {op.outputs[0]: op.scope for op in recording.ops.values() if op.name == "alias"}
    seed = next(value for value in recording.values.values() if "seed" in str(value.names))
    assert recording.scopes[made[seed.id]].name == "Pooled.__init__"
    assert [*made.values()][-1] is None  # after both constructions
    assert all(value.requires_grad for value in recording.values.values()
               if value.role is Role.PARAMETER)


def test_loose_parameters_are_parameters() -> None:
    """Those of no module count, and have names where lines have; `data` of one is none."""
    with torchrecorder.Recorder() as recorder:
        weight = nn.Parameter(torch.randn(4, 3))
        bias = nn.Parameter(torch.zeros(3), requires_grad=False)
        data = weight.data
        ((X @ weight + bias).sum() + data.sum()).backward()
    recording = recorder.recording
    found = [value for value in recording.values.values() if value.role is Role.PARAMETER]
    assert [(value.shape, value.trainable) for value in found] == [((4, 3), True), ((3,), False)]
    names = [called(name, "") for name in ("weight", "bias")]
    assert [value.names for value in found] == [(name,) if name else () for name in names]
    assert recording.annotations["parameters"].total() == 15
    assert recording.annotations["trainable"].total() == 12


def test_a_loose_parameter_that_a_module_is_given_later() -> None:
    """It has the name of the module from then on, and counts once."""
    with torchrecorder.Recorder() as recorder:
        weight = nn.Parameter(torch.randn(4, 4))
        weight.sum().backward()
        model = nn.Linear(4, 4, bias=False)
        model.weight = weight
        model(X)
    recording = recorder.recording
    assert [name.endswith("weight") for name in weights(recording)] == [True]
    assert recording.annotations["parameters"].total() == 16


def saved_for_backward(run, weights) -> int:
    """The bytes that autograd keeps in a *run*, without those of *weights*, by its own hooks."""
    kept = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor  # held, so that no address is used again
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    del result
    own = {weight.untyped_storage()._cdata for weight in weights}
    return sum(kept[place].untyped_storage().nbytes() for place in kept.keys() - own)


class Adapted(nn.Module):
    """It computes the weights of a model that is not a part of it."""

    def __init__(self, base: nn.Module, *, frozen: bool) -> None:
        super().__init__()
        self.down, self.up = nn.Parameter(torch.randn(1, 4)), nn.Parameter(torch.randn(4, 1))
        object.__setattr__(self, "base", base.requires_grad_(not frozen))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        change = self.up @ self.down
        made = {"1.weight": self.base[1].weight + change, "0.weight": self.base[0].weight + change}
        return torch.func.functional_call(self.base, made, (x,))


@pytest.mark.parametrize("frozen", [True, False])
def test_computed_weights_are_no_parameters(frozen) -> None:
    """They are saved for backward, and trained are the weights that they were computed from."""
    base = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model, given = Adapted(base, frozen=frozen), torch.ones(2, 4, requires_grad=True)
    held = [*model.parameters(), *base.parameters()]
    recording = torchrecorder.record(model, given, backward=True)
    if SAVED_TENSORS.present:
        saved = saved_for_backward(lambda: model(given), held)
        assert recording.annotations["saved_bytes"].total() == saved
        assert saved_for_backward(lambda: base(given), base.parameters()) < saved
    counts = recording.annotations["parameters"], recording.annotations["trainable"]
    assert counts[0].total() == sum(weight.numel() for weight in held)
    trained = sum(weight.numel() for weight in held if weight.requires_grad)
    assert counts[1].total() == trained
    if SAVED_TENSORS.present:
        assert recording.training_memory("sgd").gradients == 4 * trained


def test_computed_weights_without_a_model_around() -> None:
    """Also where nothing is trained, and those with a graph from before the block."""
    net = nn.Linear(4, 1)
    held = dict(net.named_parameters())
    before = {name: weight * 2 for name, weight in held.items()}
    for compute in (
        lambda: before,
        lambda: {name: weight * 2 for name, weight in held.items()},
        lambda: {name: weight.detach() * 2 for name, weight in held.items()},
    ):
        with torchrecorder.Recorder() as recorder:
            torch.func.functional_call(net, compute(), (X,))
        values = recorder.recording.values.values()
        named = {name for value in values if value.role is Role.PARAMETER for name in value.names}
        assert not {name.split(".")[0] for name in named} & {called("net", "Linear")}


def test_leaves_that_functional_call_takes_are_parameters() -> None:
    """Of the block or from before it: they are what is trained."""
    net = nn.Linear(4, 1)
    made = {name: weight.detach().clone().requires_grad_() for name, weight in
            net.named_parameters()}
    with torchrecorder.Recorder() as recorder:
        torch.func.functional_call(net, made, (X,)).sum().backward()
    assert recorder.recording.annotations["trainable"].total() == 5


class Growing(nn.Module):
    """Its forward makes submodules, when it first knows their sizes, and calls one that no module
    holds."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict()
        self.first = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "proj"):
            self.proj = nn.Sequential(nn.Linear(x.shape[-1], 3), nn.ReLU())
            self.heads["a"] = nn.Linear(3, 2)
            self.first = nn.Linear(4, 4)
        return nn.Softmax(-1)(self.heads["a"](self.proj(self.first(x))))


class GrowsFromNothing(Growing):
    """The same with a length, which is 0."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("cls", [Growing, GrowsFromNothing])
@pytest.mark.parametrize("inner", [False, True])
def test_submodules_that_a_forward_makes_have_their_paths(inner, cls) -> None:
    """They are part of the model; one that takes the place of another has a number."""
    grows = cls()
    model = nn.Sequential(grows) if inner else grows
    recording = torchrecorder.record(model, X, backward=True)
    prefix = "0." if inner else ""
    old, new = (f"{prefix}first{number}." for number in ("", "_1"))
    wanted = [name.replace(old, new) for name, _ in model.named_parameters()]
    paths = [prefix + path for path in ("first_1", "proj.0", "heads.a")]
    made = {path: recording[path] for path in paths}
    assert {f"{path}.{name}" for path in made for name in ("weight", "bias")} == {*wanted}
    assert {*wanted} < {*weights(recording)}
    assert all(recording.why_no_gradient(name) is None for name in wanted)
    assert "never called" in str(recording.why_no_gradient(f"{old}weight"))
    (line, *_) = (row for row in recording.summary().splitlines() if type(model).__name__ in row)
    total = sum(weight.numel() for weight in model.parameters()) + 20
    assert recording.annotations["parameters"].total() == total and f"  {total}" in line
    (softmax,) = (row for row in recording.modules.values() if row.cls == "Softmax")
    assert softmax.names == ()
