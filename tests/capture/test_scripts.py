"""Scripted modules: what is heard inside of them, and what they raise while it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from torchrecorder import Recorder, record, recording_of
from torchrecorder.capture.modes import dispatch_mode

from tests.zoo.case import net
from tests.zoo.scripts import Small, script
from tests.zoo.scripts_around import Forks

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

    monkeypatch.setattr(dispatch_mode, "operator_facts", interrupted)
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
    assert op.name == "RecursiveScriptModule"
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
