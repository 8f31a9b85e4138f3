"""Trouble: models that raise, misbehave, or run inside somebody else's modes."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import pickle
import threading
import types
import warnings
import weakref

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

import torchrecorder
from torchrecorder.capture.inert import assert_inert
from torchrecorder.errors import RecorderInUse
from torchrecorder.events import OpKind

from tests.agreement import structure
from tests.notation import flow
from tests.zoo.case import net


def names(recording):
    """Names of the ops, in run order."""
    return [op.name for op in recording.ops.values()]


def process():
    """What a recorder could leave behind in the process."""
    hooks = vars(nn.modules.module)
    counts = {key: len(value) for key, value in hooks.items()
              if key.startswith("_global_") and value is not None and hasattr(value, "__len__")}
    stacks = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    return counts, stacks, torch.is_grad_enabled()


@pytest.fixture(autouse=True)
def nothing_left():
    """No hook and no mode is left, whatever happened."""
    before = process()
    yield
    assert process() == before


class Stop(Exception):
    """Raised by a model."""


def raising(error):
    """Fails in its second child, at the second op in there."""

    def inner(self, x):
        x * 2
        raise error

    def forward(self, x):
        return self.second(self.first(x))

    return net(forward, first=nn.Linear(3, 3), second=net(inner))


@pytest.mark.parametrize("error", [Stop("no more"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_the_users_exception_stays_the_users(error):
    """The very exception comes through, with what was recorded until then."""
    with pytest.raises(type(error)) as caught:
        torchrecorder.record(raising(error), torch.ones(2, 3))
    assert caught.value is error
    recording = torchrecorder.recording_of(error)
    assert names(recording) == ["linear", "mul"]
    assert structure(recording) == []
    assert recording.run.failure.error == type(error).__name__
    assert recording.scopes[recording.run.failure.scope].path == "second"
    failed = [scope.path for scope in recording.scopes.values() if scope.failed]
    assert failed == ["", "second"]


def test_an_op_that_raises_is_marked():
    """The failing op is recorded with its inputs, and said to have failed."""
    model = net(lambda self, x, y: (x * 2) @ y)
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        torchrecorder.record(model, (torch.ones(2, 3), torch.ones(2, 3)))
    recording = torchrecorder.recording_of(caught.value)
    failed = recording.ops[recording.run.failure.op]
    assert failed.failed
    assert failed.name == "matmul"
    assert [slot.value for slot in failed.inputs] == ["v2", "v1"] or len(failed.inputs) == 2


def test_an_exception_the_model_catches_is_no_failure():
    """What a model catches itself is part of its run; what follows is recorded right."""

    def forward(self, x):
        try:
            self.bad(x)
        except Stop:
            x = x + 1
        return self.good(x)

    def bad(self, x):
        x * 3
        raise Stop

    model = net(forward, bad=net(bad), good=nn.Linear(3, 3))
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert recording.run.failure is None
    assert names(recording) == ["mul", "add", "linear"]
    paths = {op.name: recording.scopes[op.scope].path for op in recording.ops.values()}
    assert paths == {"mul": "bad", "add": "", "linear": "good"}


def test_a_raising_run_keeps_no_tensor():
    """When the user drops the exception, the tensors of the failed run are gone."""
    model, x = raising(Stop()), torch.ones(2, 3)
    seen = []
    model.first.register_forward_hook(lambda m, a, out: seen.append(weakref.ref(out)))
    try:
        torchrecorder.record(model, x)
    except Stop as error:
        recording = torchrecorder.recording_of(error)
        error.__traceback__ = None
    gc.collect()
    assert names(recording) == ["linear", "mul"]
    assert seen[0]() is None


class Stubborn(Exception):
    """Takes no attribute and no note."""

    def __setattr__(self, name, value):
        if not name.startswith("__"):
            raise TypeError("no")
        super().__setattr__(name, value)

    def add_note(self, note):
        raise TypeError("no")


def test_an_exception_that_takes_no_note():
    """An exception that refuses to be written on still comes through as it is."""
    error = Stubborn("x")
    with pytest.raises(Stubborn) as caught:
        torchrecorder.record(raising(error), torch.ones(2, 3))
    assert caught.value is error


def test_hooks_of_the_user_that_raise():
    """A raising hook of the user's is the user's exception too."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def hook(module, args):
        raise Stop

    model[1].register_forward_pre_hook(hook)
    with pytest.raises(Stop) as caught:
        torchrecorder.record(model, torch.ones(2, 3))
    assert names(torchrecorder.recording_of(caught.value)) == ["linear"]


def test_a_recorder_in_a_recorder():
    """Both hear what runs inside them, and the outer one nothing of the inner one's."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3)
    with torchrecorder.Recorder(model) as outer:
        y = x + 1
        with torchrecorder.Recorder(model) as inner:
            z = model(y)
        z * 2
    assert names(inner.recording) == ["linear", "relu"]
    assert names(outer.recording) == ["add", "linear", "relu", "mul"]
    assert flow(inner.recording) == flow(torchrecorder.record(model, y)).replace("x", "input")


def test_record_inside_a_recorder():
    """A look at a part inside a recorded run disturbs neither."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with torchrecorder.Recorder(model) as outer:
        inner = torchrecorder.record(model, torch.ones(2, 3))
        model(torch.ones(2, 3))
    assert names(inner) == ["linear", "add_", "batch_norm"]
    assert structure(outer.recording) == []
    called = [op.name for op in outer.recording.ops.values() if op.kind is OpKind.CALLED]
    assert called == ["ones", "linear", "add_", "batch_norm"] * 2


def test_two_recorders_in_two_threads():
    """Each hears its own thread."""
    models = [nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 3), nn.Tanh())]
    recordings, barrier = {}, threading.Barrier(2)

    def work(number):
        barrier.wait()
        for _ in range(20):
            found = torchrecorder.record(models[number], torch.ones(2, 3))
            recordings.setdefault(number, []).append(flow(found))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number, model in enumerate(models):
        assert set(recordings[number]) == {flow(torchrecorder.record(model, torch.ones(2, 3)))}
        assert len(recordings[number]) == 20


def test_a_recorder_serves_once():
    """Entering again, or asking too early, says what to do."""
    recorder = torchrecorder.Recorder(nn.Linear(3, 3))
    with pytest.raises(RecorderInUse):
        recorder.recording
    with recorder:
        with pytest.raises(RecorderInUse):
            recorder.recording
        with pytest.raises(RecorderInUse):
            recorder.__enter__()
    with pytest.raises(RecorderInUse):
        with recorder:
            pass
    assert names(recorder.recording) == []


class Heard(TorchFunctionMode):
    """A function mode of the user's that lists what it hears."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    """A dispatch mode of the user's that lists what it hears."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def residual():
    """A model with a norm, an identity and a dropout that does something."""

    def forward(self, x):
        return self.drop(self.norm(self.fc(x))) + self.skip(x)

    return net(forward, fc=nn.Linear(3, 3), norm=nn.BatchNorm1d(3), drop=nn.Dropout(0.5),
               skip=nn.Identity())


@pytest.mark.parametrize("mode", [Heard, Dispatched])
def test_inside_a_mode_of_the_user(mode):
    """A mode around the recording hears what it hears of a plain run, and no more."""
    model = residual()
    torch.manual_seed(0)
    with mode() as plain:
        model(torch.ones(2, 3))
    with mode() as around:
        with torchrecorder.Recorder(model) as recorder:
            model(torch.ones(2, 3))
    made_by_test = ["ones"] if mode is Heard else ["aten.ones.default"]
    assert [each for each in around.calls if each not in made_by_test] == [
        each for each in plain.calls if each not in made_by_test
    ]
    assert structure(recorder.recording) == []
    assert "linear" in names(recorder.recording)


@pytest.mark.parametrize("mode", [Heard, Dispatched])
def test_a_mode_of_the_user_inside_the_model(mode):
    """A mode that the model enters itself hears its calls; the recorder hears them too."""
    heard = []

    def forward(self, x):
        with mode() as inside:
            y = self.fc(x) * 2
        heard.append(list(inside.calls))
        return y

    model = net(forward, fc=nn.Linear(3, 3))
    model(torch.ones(2, 3))
    recording = torchrecorder.record(model, torch.ones(2, 3))
    assert heard[0] == heard[1]
    assert [name for name in names(recording) if name in ("linear", "mul")] == ["linear", "mul"]


def test_inside_the_profiler():
    """Recording inside a profiler works, and the profiler sees the same operators."""
    model, x = residual(), torch.ones(2, 3)
    model(x)

    def profiled(run):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run()
        return sorted(each.name for each in profile.events() if each.name.startswith("aten::lin"))

    plain = profiled(lambda: model(x))
    assert profiled(lambda: torchrecorder.record(model, x)) == plain


@pytest.mark.parametrize(
    "context",
    [
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        lambda: torch.device("cpu"),
        lambda: torch.autograd.set_detect_anomaly(True),
        lambda: torch.autograd.graph.save_on_cpu(),
        lambda: torch.random.fork_rng(),
    ],
    ids="no_grad inference autocast device anomaly save_on_cpu fork_rng".split(),
)
def test_inside_a_context_of_the_user(context):
    """Contexts of PyTorch around the recording change neither it nor the run."""

    def run():
        torch.manual_seed(0)
        model = residual()
        with context():
            torch.manual_seed(1)
            with torchrecorder.Recorder(model) as recorder:
                recorded = model(torch.ones(2, 3))
        return recorded, recorder.recording

    torch.manual_seed(0)
    model = residual()
    with context():
        torch.manual_seed(1)
        plain = model(torch.ones(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anomaly mode says that it is slow
        recorded, recording = run()
    assert torch.equal(plain, recorded)
    assert plain.requires_grad == recorded.requires_grad
    assert structure(recording) == []
    assert recording.run.lost == 0


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
    assert names(recording) == ["linear", "relu"]
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
    assert names(recording) == ["mul", "mul"]
    assert len({scope.module for scope in recording.scopes.values()}) == 3


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
    assert names(recording) == ["linear", "tanh"]
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
    assert names(recorder.recording).count("linear") == 1


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


def test_assert_inert_notices(monkeypatch):
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
        assert_inert(make)


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
