"""Custom autograd functions are recognized, or no alias of ours comes near them."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.autograd.function import BackwardCFunction

from tests import zoo
from tests.notation import flow
from tests.reach import disagreements
from torchrecorder import Recorder, record
from torchrecorder.capture.hooks import custom_functions
from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.internals import access
from torchrecorder.capture.tape import Tape
from torchrecorder.events import ScopeKind
from torchrecorder.testing.inert import assert_inert

CASES = [
    zoo.BY_NAME["backward_hooks"],
    zoo.BY_NAME["function_of_module"],
    *(each for each in zoo.CASES if each.build.__module__ == "tests.zoo.functions"),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def not_tried(monkeypatch):
    """The trial is made in each test anew; its result is forgotten afterwards."""
    monkeypatch.setattr(custom_functions, "_known", [])
    monkeypatch.setattr(Tape, "strict", True)


@pytest.fixture
def apply_in_c(monkeypatch):
    """No frame of PyTorch's tells of a custom function."""
    monkeypatch.setattr(access, "apply_code", lambda: None)
    monkeypatch.setattr(custom_functions, "apply_code", lambda: None)


@pytest.fixture
def unrecognized(monkeypatch, apply_in_c):
    """Nor does PyTorch make a context in a way that can be noticed."""
    monkeypatch.setattr(AppliedFunctions, "applied", lambda self, cls, caller: None)
    monkeypatch.setattr(Tape, "strict", False)


def _assert_inert(case):
    def make():
        run = case.make()
        return run.model, run.args, run.kwargs or {}

    assert_inert(make, backward=case.backward)


def _recorded(case):
    run = case.make()
    return record(run.model, run.args, run.kwargs)


def test_recognized():
    """With every version of PyTorch that is supported, functions are known exactly."""
    _recorded(CASES[0])
    assert custom_functions._known == [True]


@each_case
def test_recognized_without_frames(case, apply_in_c):
    """What creates its context tells of a function that has no frame of PyTorch's."""
    assert flow(_recorded(case)) == case.graph
    assert custom_functions._known == [True]


@pytest.mark.filterwarnings("ignore:torchrecorder could not record 1 fact")
@each_case
def test_inert_where_not_recognized(case, unrecognized):
    """Where a function may be running that is not recognized, the model still runs as ever."""
    _assert_inert(case)
    assert custom_functions._known == [False]


def test_unrecognized_is_reported(unrecognized):
    """What the picture lacks for that reason is a fact that was lost, and a warning."""
    with pytest.warns(match="1 fact.*custom autograd functions cannot be recognized"):
        recording = _recorded(zoo.BY_NAME["identity_residual"])
    assert recording.run.lost == 1


def test_relied_on_only_when_tried(unrecognized, monkeypatch):
    """The gradients would be wrong if functions were believed to be recognized."""
    monkeypatch.setattr(custom_functions, "_known", [True])
    with pytest.raises(AssertionError, match="is not inert"):
        _assert_inert(zoo.BY_NAME["function_of_module"])


def test_contexts_are_left_as_they_were(apply_in_c):
    """Recorders of several threads put the class of contexts back when the last one ends."""
    first, second = AppliedFunctions(Tape()), AppliedFunctions(Tape())
    first.__enter__()
    second.__enter__()
    first.__exit__()
    assert "__init__" in vars(BackwardCFunction)
    second.__exit__()
    assert "__init__" not in vars(BackwardCFunction)


class Adjoint(torch.autograd.Function):
    """Runs a module again in backward, on parts of a state that it makes there."""

    @staticmethod
    def forward(ctx, x, module):
        ctx.module = module
        ctx.save_for_backward(x)
        with torch.no_grad():
            return module(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        state = torch.cat([x, gradient])
        with torch.enable_grad():
            part = state[: len(x)].detach().requires_grad_(True)
            (found,) = torch.autograd.grad(ctx.module(part), part, state[len(x) :])
        ctx.module(state)
        return found, None


def test_what_a_backward_makes_is_no_constant():
    """The modules in it read what the function made, and parts of one state know each other."""
    module, x = nn.Tanh(), torch.ones(2, 3, requires_grad=True)
    with Recorder(module) as recorder:
        Adjoint.apply(x, module).sum().backward()
    recording = recorder.recording
    values, ops = recording.values, recording.ops
    assert [value.role for value in values.values() if value.producer is None] == ["constant"]
    again = [scope for scope in recording.scopes.values() if scope.cls == "Tanh"][1:]
    part, state = (ops[values[scope.inputs[0].value].producer] for scope in again)
    assert (part.kind, part.name) == ("hidden", "AdjointBackward")
    assert (state.name, state.inputs[0].value) == ("alias", part.outputs[0])
    assert all(scope.recompute for scope in again)


def test_the_trial_keeps_no_frames():
    """The first recorder of a process lets the model go with the last reference to it."""
    model = nn.Linear(2, 2)
    released = weakref.ref(model)
    gc.disable()
    try:
        with Recorder(model):
            model(torch.ones(1, 2))
        del model
        assert released() is None
    finally:
        gc.enable()


class Unseen(torch.autograd.Function):
    """Makes its results where no function is called from Python, and then reads them."""

    @staticmethod
    def forward(ctx, x):
        with torch._C.DisableTorchFunction():
            made = x * 2, x * 3
        assert not torch.equal(*made)
        return made

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


def test_results_that_are_read_before_they_have_a_node():
    """What reads them later reads the result of the function, which reads its input."""
    run = zoo.case.Run(lambda x: Unseen.apply(x)[0].exp(), (torch.ones(2, requires_grad=True),))
    recording = record(run.model, run.args)
    assert disagreements(recording, run) == []
    hidden, exp = [*recording.ops.values()][-2:]
    assert (hidden.name, exp.name) == ("Unseen", "exp")
    assert exp.inputs[0].value in hidden.outputs


class Twice(torch.autograd.Function):
    """A result that one operation computes."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, given):
        return given * 2


def test_the_node_of_a_function_is_in_its_call():
    """Also if something outside of it is the first to read the result."""
    recording = record(lambda x: Twice.apply(x) + 1, torch.ones(2, requires_grad=True))
    (node,) = [each for each in recording.grad_nodes.values() if each.name == "TwiceBackward"]
    assert recording.scopes[node.scope].kind is ScopeKind.CUSTOM_FUNCTION
