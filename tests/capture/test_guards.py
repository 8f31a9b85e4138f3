"""No instrument that fails reaches the model: a fact is lost, and the run goes on."""

import contextlib
import copy
import functools
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.faults import Faults, find
from tests.structure import structure
from tests.zoo.functions import Negate, Same
from torchrecorder.capture.hooks.deferred_recorder import DeferredRecorder
from torchrecorder.capture.tape import Tape

RUN_THE_MODEL = {
    "OpRecorder.run_op",
    "DispatchMode.__torch_dispatch__",
    "DispatchMode._should_skip_dynamo",
    "FunctionMode._run_traced",
    "RecorderDispatchMode.run",
    "_call",
    "_engine",
    "_replacements.callback_from_stance",
    "_replacements.set_eval_frame",
}
"""Inside these the model runs: what it raises must pass through them. All they do is to call it,
and what is guarded."""

LEAVE_A_MODE = {"FlopProbe.__exit__", "leave_dispatch_mode", "leave_function_mode"}
"""They take a mode off its stack, as leaving any mode of PyTorch does: nothing else may happen."""

REPAIRED = "not seen while it ran: "
"""The note of a recording that referred to what no event states, as is to be expected of one
that lost a fact; the rest of it must hold together."""


class Odd(nn.Module):
    """A model that needs every instrument."""

    def __init__(self):
        super().__init__()
        self.fc, self.aside, self.hooked = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.norm, self.same = nn.BatchNorm1d(4), nn.Identity()
        self.hooked.register_full_backward_hook(lambda module, given, made: None)
        self.hooked.register_forward_hook(lambda module, given, made: made * 2)
        self.script = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
        self.fused = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
        self.fused.requires_grad_(False)
        self.again = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x, *, scale):
        y = self.norm(self.fc(x))
        y = y + self.same(y)
        z = self.same(y).mul(1.5)
        z.relu_()
        (slope,) = torch.autograd.grad((y + z).sum(), x, create_graph=True)
        with torch.no_grad():
            fused = self.fused(y[None]).sum()
        y = y + Negate.apply(y, self.same) + Same.apply(z) * fused
        y = checkpoint(self.again, y, use_reentrant=False) + self._reentered(y)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = y + self.fc(y).float()
        y = self.hooked(self.script(y)) + self._in_thread(y.detach())
        y[:, 0] = 0
        return self.same(y * scale + slope.sum())

    def _reentered(self, x):
        return checkpoint(self.again, x, use_reentrant=True)

    def _in_thread(self, x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.aside, x).result()


class Step:
    """A training step that can be made again and again."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = Odd()
        self.state = copy.deepcopy(self.model.state_dict())
        self.plain = self.run()

    def run(self, *listening):
        """Every number that the step leaves behind; only the step itself is listened to."""
        torch.manual_seed(0)
        self.model.load_state_dict(self.state)
        self.model.zero_grad()
        optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        with contextlib.ExitStack() as around:
            for each in listening:
                around.enter_context(each)
            x = torch.randn(3, 4, requires_grad=True)
            output = self.model(x, scale=torch.tensor(2.0))
            output.sum().backward()
            optimizer.step()
        gradients = [each.grad for each in self.model.parameters() if each.grad is not None]
        found = [output, x.grad, *gradients, *self.model.parameters(), *self.model.buffers()]
        return [each.detach().clone() for each in found]

    def recorder(self):
        """A recorder with all that there is."""
        options = {"stats": True, "keep": ["*fc*"], "flops": True, "replay": True}
        return torchrecorder.Recorder(self.model, **options)

    @functools.cache  # callbacks are functions, too: two tests ask for a fault in each of them
    def with_fault(self, place, nth):
        """What is wrong with a fault at one place, in what the model gives and in the recording."""
        faults, recorder = Faults(place, nth), self.recorder()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self.run(recorder, faults.hearing())
        ours = [str(each.message) for each in caught if "torchrecorder" in str(each.message)]
        wrong = [] if len(ours) == faults.raised else [f"{len(ours)} warnings: {ours}"]
        if nth == 1 and not faults.raised:
            wrong.append("the place was not reached")
        if not all(map(torch.equal, found, self.plain)):
            wrong.append("the model gives something else")
        recording = recorder.recording
        assert recording.summary() and recording.graph
        allowed = REPAIRED if recording.run.lost else ()
        return [*wrong, *(each for each in structure(recording) if not each.startswith(allowed))]


@pytest.fixture(scope="module")
def step():
    """A step, which has been recorded once so that all caches are filled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Step()
        made.run(made.recorder())
    return made


@pytest.fixture(scope="module")
def faults(step):
    """Where faults can be put while the model runs."""
    found = Faults()
    step.run(step.recorder(), found.hearing())
    return found


def test_every_callback_is_guarded(faults):
    """While the model runs, whatever of ours is called catches its errors, or is inside."""
    assert faults.unguarded <= RUN_THE_MODEL | LEAVE_A_MODE
    assert faults.callbacks >= {
        "DispatchMode.__torch_dispatch__",
        "FlopProbe.__torch_dispatch__",
        "FunctionMode.__torch_function__",
        "ModuleScopes._after",
        "ModuleScopes.before",
        "OptimizerSteps._after",
        "OptimizerSteps._before",
        "_NodeHooks.after",
        "_NodeHooks.before",
        "forget_callback.forget",
    }


def _in_callbacks(faults):
    """The places inside functions that are called by others."""
    return [each for each in faults.passed if each.line and find(each.code)[0] in faults.callbacks]


def test_failing_callbacks(step, faults):
    """A callback that fails, at any line of it, costs a fact and a warning."""
    places = _in_callbacks(faults)
    assert len(places) > 20
    assert {each: wrong for each in places if (wrong := step.with_fault(each, 1))} == {}


@pytest.mark.slow
def test_failing_functions(step, faults):
    """So does every function that a callback calls when it is called first; every fourth one when
    it is called last, too: what then holds its results is known already."""
    places = [(place, 1) for place in faults.passed]
    places += [(place, passed) for place, passed in [*faults.passed.items()][::4] if passed > 1]
    found = {(str(place), nth): step.with_fault(place, nth) for place, nth in places}
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


def test_lost_results_are_hidden_operations(step, faults):
    """What an operation gave that could not be recorded comes out of a hidden one, and a note."""
    place = next(each for each in faults.passed if str(each) == "function_mode._outputs")
    fault, recorder = Faults(place), torchrecorder.Recorder(step.model)
    with pytest.warns(match="could not record 1 fact"), recorder, fault.hearing():
        step.run()
    recording = recorder.recording
    assert REPAIRED + "1 op" in recording.run.notes
    (hidden,) = [op for op in recording.ops.values() if op.name == "unknown"]
    assert hidden.kind == "hidden" and all(map(recording.consumers.get, hidden.outputs))


def test_interrupts_stay_the_users(step, faults):
    """A KeyboardInterrupt that comes while an instrument works ends the run as it should."""
    elsewhere = {"forget"}  # Python only prints what a weak reference raises
    for place in _in_callbacks(faults):
        if place.code.co_name not in elsewhere:
            recorder, fault = step.recorder(), Faults(place, error=KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                step.run(recorder, fault.hearing())
            assert recorder.recording.run.failure.error == "KeyboardInterrupt"


def test_strict_tapes_raise(step, faults, monkeypatch):
    """Under test, what an instrument fails with is an error."""
    monkeypatch.setattr(Tape, "strict", True)
    place = next(each for each in faults.passed if each.code.co_name == "before")
    with pytest.raises(LookupError):
        step.run(step.recorder(), Faults(place).hearing())


def _train(place=None):
    """What three steps under a recorder that waits for the model give, with a fault at a place."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    faults = Faults(place)
    with faults.hearing(), DeferredRecorder(lambda module, frame: module is model, 2):
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return faults, [each.detach() for each in model.parameters()]


def test_failing_while_waiting():
    """A recorder that waits for its model, or comes and goes between steps, fails alone too."""
    found, plain = _train()
    awaited = {f"DeferredRecorder.{name}" for name in ("_called", "_steps_now", "_stepped")}
    assert awaited <= found.callbacks
    for place in found.passed:
        if place.line and find(place.code)[0] in awaited:
            with pytest.warns(match="torchrecorder could not record"):
                faults, parameters = _train(place)
            assert faults.raised
            assert all(map(torch.equal, parameters, plain))
