"""Modules that no other has as an attribute have the names by which they are called."""

from __future__ import annotations

import ast
import linecache
import sys
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import torchrecorder
from torchrecorder import Recorder
from torchrecorder.events import ScopeKind

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")

X = torch.ones(2, 4)


def net():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def paths(recorder):
    """The paths of the outermost modules, in the order of their calls."""
    return [scope.path for scope in recorder.recording.scopes.values() if scope.parent is None]


def test_variables_and_attributes():
    generator, trainer = net(), SimpleNamespace(critic=net(), loss=nn.MSELoss())
    with Recorder() as recorder:
        trainer.loss(trainer.critic(generator(X)), X)
    assert paths(recorder) == ["generator", "critic", "loss"]


class Makes(nn.Module):
    """Makes modules when it is called."""

    def forward(self, x):
        for _ in range(2):
            block = net()
            x = block(x)
        last = nn.Linear(4, 4)
        return nn.Tanh()(last.forward(x))


def test_variables_of_running_modules():
    """Below the module that calls them; the result of a call is in no variable."""
    model = nn.Sequential(Makes())
    scopes = torchrecorder.record(model, X).scopes.values()
    made = [scope.path for scope in scopes if scope.parent == "s1" and scope.module is not None]
    assert made == ["0.block", "0.block_1", "0.last", ""]


def test_lines_of_any_form():
    """With letters that take several bytes, on several lines, in comprehensions and in lambdas."""
    größe, heads, apply = net(), net(), lambda each: last(each)
    last = nn.Linear(4, 4)
    with Recorder() as recorder:
        text = "ä"; größe(X); heads(  # noqa: E702
            input=X,
        )
        [heads(each) for each in X]
        apply(X)
    assert text and paths(recorder) == ["größe", *3 * ["heads"], "last"]


class OwnCall(nn.Linear):
    """Its class has a ``__call__``, and functions between that and PyTorch's."""

    @torch.no_grad()
    def __call__(self, *given):
        call = super().__call__

        def inner(*each):
            return call(*each)

        return inner(*given)


def test_a_call_of_its_own():
    """The name is that in the program, not that in the class."""
    encoder, plain = OwnCall(4, 4), net()
    with Recorder() as recorder:
        encoder(plain(X))
    scopes = recorder.recording.scopes.values()
    assert [scope.path for scope in scopes if scope.kind is ScopeKind.MODULE][::3] == [
        "plain", "encoder",
    ]


def test_names_of_parameters():
    embedding = nn.Embedding(4, 4)
    with Recorder() as recorder:
        embedding(torch.tensor([1]))
    names = [value.names for value in recorder.recording.values.values() if value.names]
    assert ("embedding.weight",) in names


def test_several_of_one_name():
    """The first call of each counts."""
    nets = [net(), net()]
    with Recorder() as recorder:
        for _ in range(2):
            for each in nets:
                each(X)
    assert paths(recorder) == 2 * ["each", "each_1"]


def test_without_a_name():
    """An item with a computed key has the name of its class, if that has modules in it, and else
    none."""
    nets = {"a": net(), "b": nn.Tanh()}
    with Recorder() as recorder:
        for key in nets:
            nets[key](X)
    assert paths(recorder) == ["Sequential", ""]


@pytest.mark.parametrize("has_columns", [True, False])
def test_code_without_columns(has_columns, monkeypatch):
    """As in a program that is started with ``-X no_debug_ranges``: none of the names of a line."""
    line = "kept.append(layer(X))"
    tree = ast.parse(line)
    for node in ast.walk(tree) if not has_columns else ():
        if hasattr(node, "col_offset"):
            node.col_offset = node.end_col_offset = -1
    monkeypatch.setitem(linecache.cache, "line.py", (len(line), None, [line], "line.py"))
    with Recorder() as recorder:
        exec(compile(tree, "line.py", "exec"), {"kept": [], "layer": nn.Tanh(), "X": X})
    assert paths(recorder) == ["layer" if has_columns else ""]


def test_items_have_the_names_of_their_places():
    nets, layers = {"a": net(), "b": nn.Tanh()}, [nn.Tanh(), [nn.Tanh()]]
    with Recorder() as recorder:
        nets["a"](X)
        nets["b"](X)
        layers[1][0](layers[0](X))
    assert paths(recorder) == ["nets.a", "nets.b", "layers.0", "layers.1.0"]


def test_without_source():
    names = {"net": net(), "X": X}
    with Recorder() as recorder:
        exec("net(X)", names)
    assert paths(recorder) == ["Sequential"]


class Calls(nn.Module):
    """Calls itself, and a module that it does not have as its own."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.others = [net()]

    def step(self):
        return self(X)

    def forward(self, x):
        other = self.others[0]
        return other(self.inner(x))


def test_self_and_modules_inside_others():
    """A module is not called ``self``; inside others it has the name of its place there."""
    calls = Calls()
    with Recorder() as recorder:
        calls.step()
    assert paths(recorder) == ["Calls"]
    inside = [scope.path for scope in recorder.recording.scopes.values()][1:3]
    assert inside == ["Calls.inner", "Calls.others.0"]


def test_the_recorded_model_has_no_name():
    model, loss = net(), nn.MSELoss()
    with Recorder(model) as recorder:
        loss(model(X), X)
    assert paths(recorder) == ["", "loss"]


def test_a_call_by_pytorch_has_the_name_of_its_argument():
    """There, the name is that of a parameter of PyTorch's. All positional arguments are known, also
    those of a function with a decorator, but not those behind others in ``*args``."""
    block, other = net(), net()
    averaged, last = nn.Sequential(nn.BatchNorm1d(4)), nn.Sequential(nn.BatchNorm1d(4))
    pair, batches = [net()], ([X],)
    with Recorder() as recorder:
        torch.optim.swa_utils.update_bn([X], averaged)
        torch.optim.swa_utils.update_bn(*batches, last)
        torch.utils.checkpoint.checkpoint(block, X, use_reentrant=False)
        torch.func.functional_call(other, {}, X)
        torch.func.functional_call(pair[0], {}, (X,))
        torch.vmap(net())(X)
    scopes = recorder.recording.scopes.values()
    found = [scope.path for scope in scopes if scope.cls == "Sequential"]
    assert found == ["averaged", "Sequential", "block", "other", "pair.0", "Sequential_1"]


class Generator(nn.Module):
    """A library could have it: its method runs it."""

    def forward(self, x):
        return x * 2


held = {}
exec(compile("def generate(self, x):\n    return self(x)", torch.__file__, "exec"), held)
Generator.generate = held["generate"]  # its code is not the program's
Generator.decorated = torch.no_grad()(Generator.generate)


def test_a_method_of_a_library_is_of_the_model_that_has_it():
    """Also with a decorator, whose function has all arguments as one."""
    first, second = Generator(), Generator()
    models = {"third": Generator()}
    program = torch.compile(net(), backend="eager")
    with Recorder() as recorder:
        first.generate(X)
        second.decorated(X)
        models["third"].generate(X)
        program(X)
    found = [scope.path for scope in recorder.recording.scopes.values()
             if scope.cls == "Generator" or scope.kind is ScopeKind.COMPILED]
    assert found == ["first", "second", "models.third", "program"]


def critic_loss(critic, real, *, model=None, copy=None):
    if copy is not None:
        copy = copy[0]
        copy(real)
    return critic(real) if model is None else model.forward(real)


class Loss:
    def of(self, network, x):
        return self.half(x, critic=network)

    def half(self, x, critic):
        return critic(x)


def test_the_argument_of_a_function_has_the_name_that_its_caller_gives():
    discriminator, other, owner = net(), net(), SimpleNamespace(small=net())
    models, copied, given = [net()], net(), net()
    pool = [net(), net()]
    with Recorder() as recorder:
        critic_loss(discriminator, X)
        critic_loss(None, X, model=other)
        Loss().of(owner.small, X)
        Loss().half(X, models[0])
        critic_loss(pool.pop(), X)  # has no name outside
        critic_loss(given, X, copy=copied)  # assigned inside
        critic_loss(*[pool.pop(), X])
    assert paths(recorder) == [
        "discriminator", "other", "small", "models.0", "critic", "copy", "given", "critic_1",
    ]


def test_a_function_that_began_before_the_recording_gives_the_names():
    def step(model):
        with Recorder() as recorder:
            critic_loss(model, X)
        return paths(recorder)

    discriminator = net()
    assert step(discriminator) == ["model"]


def test_a_call_by_a_builtin_function_gives_no_name():
    first, second = net(), net()
    with Recorder() as recorder:
        list(map(first, [X]))
        for _ in map(second, [X]):
            pass
    assert paths(recorder) == ["Sequential", "Sequential_1"]


def test_figures_and_parts_have_these_names():
    generator, critic = net(), net()
    with Recorder() as recorder:
        critic(generator(X))
    recording = recorder.recording
    assert "generator (Sequential)" in str(recording.summary())
    part = torchrecorder.view(recording, focus="critic").recording
    assert [scope.path for scope in part.scopes.values()][0] == "critic"


def test_averages_have_the_names_of_their_models() -> None:
    """Also that of one in an attribute of an object, and of one that is made meanwhile."""
    class Trainer:
        def __init__(self, model: nn.Module) -> None:
            self.slow = AveragedModel(model)

    model = nn.Linear(4, 4)
    trainer, ema = Trainer(model), AveragedModel(model)
    with Recorder() as recorder:
        model(X)
        ema.update_parameters(model)
        trainer.slow.update_parameters(model=model)
        AveragedModel(model).update_parameters(model)
    found = [scope.name for scope in recorder.recording.scopes.values()
             if scope.kind is ScopeKind.AVERAGING]
    assert found == ["ema.update_parameters", "slow.update_parameters", "update_parameters"]


class NoHooks(nn.Linear):
    """Its ``__call__`` runs no hooks, as those of the modules of some libraries."""

    def __call__(self, *inputs, **kwargs):
        inputs = [each.unsqueeze(0) if each.dim() == 1 else each for each in inputs]
        return self.forward(*inputs, **kwargs)


def test_calls_past_the_hooks():
    """They have the names of the program like others, and so do their arguments."""
    kernel, layer = NoHooks(4, 4), nn.Linear(4, 4)
    point, batch = torch.ones(4), torch.ones(2, 4)
    with Recorder() as recorder:
        kernel(point)
        layer.forward(input=batch)
    assert paths(recorder) == ["kernel", "layer"]
    named = {value.names for value in recorder.recording.values.values() if value.names}
    assert {("kernel.weight",), ("layer.bias",), ("point",), ("batch",)} <= named


def test_the_forward_of_a_class_with_a_call_of_its_own():
    """Not inside that ``__call__``, and with few functions around, as in a thread."""
    found = []

    def run():
        encoder = OwnCall(4, 4)
        with Recorder() as recorder:
            encoder.forward(X)
        found.extend(paths(recorder))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["encoder"]


def test_parts_that_are_called_past_the_hooks():
    """The model in a variable of the script names them, also if nothing of it was called before."""
    script = {"model": nn.Sequential(nn.Sequential(nn.Tanh()), nn.Tanh()), "X": X}
    exec(
        "from torchrecorder import Recorder\n"
        "with Recorder() as recorder:\n    model[0][0].forward(X)\n    model[1].forward(X)", script,
    )
    assert paths(script["recorder"]) == ["model.0.0", "model.1"]
