"""Models that misbehave are recorded all the same, and all is left as it was before."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import types
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.utils import checkpoint

import torchrecorder
from tests.capture.test_contexts import residual
from tests.capture.test_trouble import Stop
from tests.capture.test_wrappers import Quantized
from tests.notation import flow, op_names
from tests.structure import structure
from tests.zoo.case import net
from torchrecorder.testing.inert import assert_inert


def test_a_model_after_recording_is_as_before():
    """It can be copied, pickled and saved, and the copies run."""
    model, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.ones(2, 3)
    before = pickle.dumps(model)
    torchrecorder.record(model, x)
    assert pickle.dumps(model) == before
    copied = copy.deepcopy(model)
    torch.save(model.state_dict(), io.BytesIO())
    assert torch.equal(copied(x), pickle.loads(before)(x))


def test_recording_the_same_model_again():
    """Twice the same recording; also after a failed one."""
    model, x = residual(), torch.ones(2, 3)
    first = torchrecorder.record(model, x)
    with pytest.raises(Exception, match="shapes"):
        torchrecorder.record(model, torch.ones(2, 4))
    again = torchrecorder.record(model, x)
    assert flow(first) == flow(again)
    assert list(first.values) == list(again.values)


class Rude(nn.Module):
    """Everything about it that one could ask raises."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def extra_repr(self):
        raise Stop("extra_repr")

    def __repr__(self):
        raise Stop("repr")

    def __eq__(self, other):
        raise Stop("eq")

    __hash__ = nn.Module.__hash__

    def __len__(self):
        raise Stop("len")

    def __bool__(self):
        raise Stop("bool")

    def __iter__(self):
        raise Stop("iter")

    def __getattr__(self, name):
        if name in ("_modules", "fc", "_parameters", "_buffers", "training"):
            return super().__getattr__(name)
        if name.startswith("_"):
            raise AttributeError(name)
        raise Stop(name)

    @property
    def device(self):
        raise Stop("property")

    def forward(self, x):
        return self.fc(x)


def test_a_rude_model():
    """No question is asked that need not be asked."""
    model = nn.Sequential(Rude(), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = torchrecorder.record(model, torch.ones(2, 3))
    assert op_names(recording) == ["linear", "relu"]
    assert recording.run.lost == 0


class Unhashable(nn.Module):
    """Equal to everything, and without a hash."""

    def __eq__(self, other):
        return True

    __hash__ = None

    def forward(self, x):
        return x * 2


def test_modules_that_cannot_be_hashed():
    """Modules are known by identity, not by equality."""
    model = net(lambda self, x: self.kept[1](self.kept[0](x)), kept=[Unhashable(), Unhashable()])
    recording = torchrecorder.record(model, torch.ones(2))
    assert op_names(recording) == ["mul", "mul"]
    assert len({scope.module for scope in recording.scopes.values()}) == 3


@pytest.mark.parametrize("options", [{"backward": True}, {"fake": True}])
def test_a_model_that_cannot_be_hashed(options):
    """``parameters()`` raises, but not the model; it has an input of its dtype."""
    model = Unhashable()
    model.inner = nn.Linear(2, 2).double()
    model.forward = lambda x: model.inner(x)
    with pytest.raises(TypeError, match="unhashable"):
        list(model.parameters())
    recording = torchrecorder.record(model, input_shapes=(1, 2), **options)
    assert {value.dtype for value in recording.values.values()} == {"float64"}
    assert recording.run.lost == 0 and bool(recording.grad_runs) == ("backward" in options)


def test_warnings_as_errors():
    """Recording warns of nothing by itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchrecorder.record(residual(), torch.ones(2, 3))


def test_a_module_that_changes_itself_while_it_runs():
    """Children added and removed during the run do not disturb it."""

    def forward(self, x):
        y = self.a(x)
        del self.a
        self.b = nn.Tanh()
        return self.b(y)

    model = net(forward, a=nn.Linear(3, 3))
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert op_names(recording) == ["linear", "tanh"]
    assert structure(recording) == []


def test_generators_that_outlive_the_run():
    """A generator begun under the recorder can be finished after it."""

    def steps(model, x):
        for _ in range(3):
            x = model(x)
            yield x

    model = nn.Linear(3, 3)
    with torchrecorder.Recorder(model) as recorder:
        running = steps(model, torch.ones(2, 3))
        next(running)
    assert len(list(running)) == 2
    assert op_names(recorder.recording).count("linear") == 1


def test_no_tensor_outlives_the_run_because_of_us():
    """With the recording still held, every tensor of the run is gone when the user lets go."""
    model, x = residual(), torch.ones(2, 3, requires_grad=True)
    alive = []
    for module in model.modules():
        module.register_forward_hook(lambda m, a, out: alive.append(weakref.ref(out)))
    gc.collect()
    gc.disable()
    try:
        with torchrecorder.Recorder(model) as recorder:
            out = model(x)
            out.sum().backward()
        out = None
        assert recorder.recording.ops
        left = [each() for each in alive if each() is not None and each() is not x]
        assert left == []
    finally:
        gc.enable()


def test_recursion_is_not_limited():
    """A hundred nested modules and a loop of five thousand steps hit no limit."""
    deep = nn.Linear(2, 2)
    for _ in range(100):
        deep = nn.Sequential(deep)
    assert len(torchrecorder.record(deep, torch.ones(1, 2)).scopes) == 101

    def forward(self, x):
        for _ in range(5000):
            x = x * 1.001
        return x

    recording = torchrecorder.record(net(forward), torch.ones(2, requires_grad=True))
    assert len(recording.ops) == 5000
    assert len(recording.grad_nodes) >= 5000


@pytest.mark.parametrize("leaking", [False, True])
def test_assert_inert_notices(leaking, monkeypatch):
    """A recorder that changes an output by one bit, a flag or a hook is found out."""
    from torchrecorder.capture import recorder as module

    def make():
        return nn.Linear(3, 3), (torch.ones(2, 3),), {}

    leave = module.Recorder.__exit__

    def clumsy(self, *error):
        leave(self, *error)
        self._model.eval()

    monkeypatch.setattr(module.Recorder, "__exit__", clumsy)
    with pytest.raises(AssertionError, match="training"):
        assert_inert(make, leaking=leaking)


def test_assert_inert_notices_what_happens_after_backward_alone(monkeypatch):
    """The recorder is also around the backward pass, and then the gradients may not change."""
    from torchrecorder.capture import recorder as module

    leave = module.Recorder.__exit__

    def clumsy(self, *error):
        leave(self, *error)
        if self._model.weight.grad is not None:
            self._model.weight.grad.zero_()

    monkeypatch.setattr(module.Recorder, "__exit__", clumsy)
    with pytest.raises(AssertionError, match="Recorder around both is not inert"):
        assert_inert(lambda: (nn.Linear(3, 3), (torch.ones(2, 3),), {}))


def test_assert_inert_notices_what_is_kept(monkeypatch):
    """A tensor that the collector would have freed, if nothing held it after recording."""
    from torchrecorder.capture import recorder as module

    held, leave = [], module.Recorder.__exit__

    class Cyclic(nn.Module):
        def forward(self, x):
            circle = [x + 1]
            circle.append(circle)
            self.last = weakref.ref(circle[0])
            return x * 2

    def clumsy(self, *error):
        leave(self, *error)
        held.append(self._model.last())

    monkeypatch.setattr(module.Recorder, "__exit__", clumsy)
    said = r"in 1 way:\n  tensors left alive for good: 0 plainly"
    with pytest.raises(AssertionError, match=said):
        assert_inert(lambda: (Cyclic(), (torch.ones(2),), {}))


def test_assert_inert_compares_types_and_what_wrappers_hold(monkeypatch):
    """A flag that is a number, and a tensor inside another one."""
    from torchrecorder.capture import recorder as module

    def make():
        inner = torch.ones(4, 3, dtype=torch.int8), torch.ones(4, 1)
        weight = nn.Parameter(Quantized(*inner), requires_grad=False)
        return net(lambda self, x: x @ self.w, w=weight), (torch.ones(2, 4),), {}

    leave = module.Recorder.__exit__

    def clumsy(self, *error):
        leave(self, *error)
        self._model.training = 1
        self._model.w.inner.add_(1)

    assert_inert(make)
    monkeypatch.setattr(module.Recorder, "__exit__", clumsy)
    with pytest.raises(AssertionError, match="training: True plainly, 1 recorded") as caught:
        assert_inert(make)
    assert "w: bits" in str(caught.value)


@pytest.mark.parametrize("frozen", [False, True])
def test_assert_inert_leaves_what_was_frozen(frozen):
    """Objects are frozen after it if some were before, and none are if none were."""
    gc.unfreeze()
    if frozen:
        gc.freeze()
    try:
        assert_inert(lambda: (nn.Linear(3, 3), (torch.ones(2, 3),), {}))
        assert bool(gc.get_freeze_count()) == frozen
    finally:
        gc.freeze()  # as the tests have it


@pytest.mark.parametrize("change", ["function", "numpy"])
def test_assert_inert_notices_what_is_no_tensor(change, monkeypatch):
    """A function of PyTorch that was replaced, and a state of NumPy that moved, are named."""
    from torchrecorder.capture import recorder as module

    numpy = pytest.importorskip("numpy")
    leave, state = module.Recorder.__exit__, numpy.random.get_state()
    messages = {"function": r"torch patched: \[\] plainly, \['0.relu'\]", "numpy": "state of numpy"}

    def clumsy(self, *error):
        leave(self, *error)
        if change == "numpy":
            numpy.random.rand()
        else:
            monkeypatch.setattr(torch, "relu", lambda x: x)

    monkeypatch.setattr(module.Recorder, "__exit__", clumsy)
    try:
        with pytest.raises(AssertionError, match=messages[change]):
            assert_inert(lambda: (nn.Linear(3, 3), (torch.ones(2, 3),), {}))
    finally:
        numpy.random.set_state(state)


def test_checkpoint_that_was_replaced(monkeypatch):
    """A checkpoint function that another tool puts in place between two runs is known as one."""
    plain = inspect.unwrap(checkpoint.checkpoint)
    other = types.FunctionType(plain.__code__.replace(), plain.__globals__, "checkpoint")
    other.__kwdefaults__ = plain.__kwdefaults__

    def forward(self, x):
        return checkpoint.checkpoint(self.child, x, use_reentrant=False)

    model, x = net(forward, child=nn.Linear(2, 2)), torch.ones(1, 2, requires_grad=True)
    before = torchrecorder.record(model, x)
    monkeypatch.setattr(checkpoint, "checkpoint", other)
    after = torchrecorder.record(model, x)
    kinds = [[each.kind for each in one.scopes.values()] for one in (before, after)]
    assert kinds[0] == kinds[1] and len(kinds[0]) == 3
