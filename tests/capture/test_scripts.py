"""Scripted modules: what is heard inside of them, and what they raise while it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.zoo.case import net
from tests.zoo.scripts import Small, script
from tests.zoo.scripts_around import Forks
from torchrecorder import Recorder, record, recording_of
from torchrecorder.capture.modes import fast_paths
from torchrecorder.capture.modes.fast_paths import NOTE, restore_message

pytestmark = pytest.mark.usefixtures("strict_but_quiet")


class Fails(nn.Module):
    """An operator cannot do what it is asked for."""

    def forward(self, x: Tensor) -> Tensor:
        return x.sin() @ x


def _raised(model, x, around):
    with pytest.raises(RuntimeError) as caught:
        with around:
            model(x)
    return caught.value


def test_error_in_a_script():
    """An operator that fails in a script raises the same words, and is named."""
    model = net(lambda self, x: self.child(x), child=script(Fails()))
    x = torch.ones(2, 3)
    plain = _raised(model, x, torch.enable_grad())
    recorded = _raised(model, x, Recorder(model))
    assert type(recorded) is type(plain)
    assert str(recorded) == str(plain)
    recording = recording_of(recorded)
    assert recording.ops[recording.run.failure.op].name == "mm"
    assert torch._C._len_torch_dispatch_stack() == 0


def test_interrupt_in_a_script(monkeypatch):
    """Ctrl+C while a script is heard is what it is everywhere, and no error of the script."""

    def interrupted(func):
        raise KeyboardInterrupt

    monkeypatch.setattr(fast_paths, "operator_facts", interrupted)
    model = script(Small())
    with pytest.raises(KeyboardInterrupt) as caught:
        with Recorder(model):
            model(torch.ones(2, 3))
    recording = recording_of(caught.value)
    assert recording.run.failure is not None
    assert torch._C._len_torch_dispatch_stack() == 0


def test_script_in_a_mode_of_the_users():
    """A function mode of the user's hears what it hears without us: no operators."""

    class Hears(torch.overrides.TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.heard = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.heard.append(func)
            return func(*args, **(kwargs or {}))

    model = script(Small())
    with Hears() as plain:
        model(torch.ones(2, 3))
    with Hears() as around:
        recording = record(model, torch.ones(2, 3))
    assert [each for each in around.heard if each not in plain.heard] == []
    assert [op.name for op in recording.ops.values()] == ["t", "addmm", "tanh", "mul"]


def test_one_box_owns_all_grad_nodes():
    """What cannot be looked into is one op, and the grad nodes made inside are its own."""
    model = script(Forks())
    recording = record(model, torch.ones(2, 3, requires_grad=True))
    (op,) = recording.ops.values()
    assert op.name == "Forks"
    made = [each for each in recording.grad_nodes.values() if each.name != "AccumulateGrad"]
    assert len(made) >= 3
    assert {each.owner for each in made} == {op.id}


def test_script_frees_what_it_made():
    """Nothing made inside of a script lives longer because it was heard."""
    model, x = script(Small()), torch.ones(2, 3)
    with Recorder(model) as recorder:
        made = torch.utils.weak.WeakTensorKeyDictionary({model(x): None})
        assert len(made) == 0
    assert len(recorder.recording.ops) == 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("in forward\nRuntimeError: \n",), ("in forward\nRuntimeError: too long\n",)),
        (("in forward\nRuntimeError: \n", 1), ("in forward\nRuntimeError: too long\n",)),
        (("in forward\nRuntimeError: other\n",), ("in forward\nRuntimeError: other\n",)),
        ((), ()), ((b"RuntimeError: \n",), (b"RuntimeError: \n",)),
    ],
)
def test_only_a_message_that_was_lost_is_put_back(before, after):
    """At its end; other errors, and those without a message, are left as they are."""
    error = RuntimeError(*before)
    restore_message(error, "too long")
    assert error.args == after


class Names(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("roles", ["xxx", "xyy", "xxy", "xyx", "xyz"])
def test_fused_attention_is_what_ran(roles, training, grad):
    """Of one tensor with itself, in evaluation without gradients; noted where PyTorch takes it."""
    attention = nn.MultiheadAttention(4, 2, batch_first=True).train(training).requires_grad_(grad)
    given = {name: torch.rand(1, 3, 4) for name in "xyz"}
    args = tuple(given[name] for name in roles)
    with Names() as names:
        attention(*args)
    fused = "_native_multi_head_attention.default" in names.found
    assert fused == (roles == "xxx" and not training and not grad)
    recording = record(attention, args)
    assert (NOTE in recording.run.notes) == fused and recording.run.lost == 0
    assert any("_native" in op.name for op in recording.ops.values()) == fused


class Functions(TorchFunctionMode):
    """The names of the functions that are called."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.found.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_user_gets_attention_as_one_call():
    """As without a recorder, which shows its inside elsewhere."""
    attention, x = nn.MultiheadAttention(4, 2), torch.rand(3, 1, 4)
    with Functions() as plain:
        attention(x, x, x)
    with Functions() as heard:
        with Recorder(attention) as recorder:
            attention(x, x, x)
    whole = "multi_head_attention_forward"
    assert whole in plain.found
    assert heard.found.count(whole) == plain.found.count(whole) == 1
    assert "linear" not in heard.found and "linear" not in plain.found
    assert whole in [op.name for op in recorder.recording.ops.values()]
