"""Operators on functions run as they do plainly, and read what their functions close over."""

from __future__ import annotations

import pytest
import torch
from torch._higher_order_ops import utils
from torch.nn.attention.flex_attention import flex_attention
from torch.overrides import TorchFunctionMode

import torchrecorder as tr
from torchrecorder.capture.internals.table import OPERATOR_MODES
from torchrecorder.capture.modes.arguments import closed_over
from torchrecorder.capture.probes.flops import UNCOUNTED

pytestmark = pytest.mark.usefixtures("strict_but_quiet")


class Either(torch.nn.Module):
    """One of two modules, by the sign of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.first(x), lambda x: self.second(x), (x,)) * 2


class Passes(TorchFunctionMode):
    """A mode of the user's own."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def names(recorder, op):
    """What the one op of this name reads, by name."""
    recording = recorder.recording
    (found,) = (each for each in recording.ops.values() if each.name == op)
    return {name for slot in found.inputs for name in recording.values[slot.value].names}


def test_recorders_in_each_other_hear_it():
    """With gradients, the outer as the inner, and nothing is left of either."""
    torch.manual_seed(0)
    model, x = Either(), torch.randn(2, 3, requires_grad=True)
    entry, wanted = utils._set_compilation_env, model(x)
    with tr.Recorder(model) as outer, tr.Recorder(model, flops=True) as inner:
        found = model(x)
        found.sum().backward()
    assert torch.equal(found, wanted)
    (gradient,) = torch.autograd.grad(wanted.sum(), model.second.weight, allow_unused=True)
    assert torch.equal(gradient, model.second.weight.grad)
    weights = {name for name, _ in model.named_parameters()}
    assert names(outer, "cond") >= weights and names(inner, "cond") >= weights
    flops = inner.recording.annotations["flops"].total()
    if OPERATOR_MODES.present:
        assert flops == 2 * 2 * 3 * 3
    else:
        assert not flops and UNCOUNTED in inner.recording.run.notes
    assert utils._set_compilation_env is entry


def test_fake_tensors_read_the_same():
    """Counted too; the fake mode stays on while the compiler works."""
    model, x = Either(), torch.randn(2, 3, requires_grad=True)
    real, fake = (tr.record(model, x, fake=fake, flops=fake) for fake in (False, True))
    assert fake.ops["o2"].inputs == real.ops["o2"].inputs and len(real.ops["o2"].inputs) == 6


def test_a_mode_of_the_user_s_stays_where_it_is():
    """It lies above ours before, while the compiler works, and after."""
    model, x = Either(), torch.randn(2, 3)
    with tr.Recorder(model) as recorder, Passes():
        before = torch.overrides._get_current_function_mode_stack()
        model(x)
        assert torch.overrides._get_current_function_mode_stack() == before
        x.sin()
    assert [each.name for each in recorder.recording.ops.values()][-3:] == ["cond", "mul", "sin"]


def test_attention_reads_what_its_score_closes_over():
    """A bias in ``score_mod`` is an input of the op."""
    x, bias = torch.randn(1, 2, 4, 4), torch.nn.Module()
    bias.register_buffer("slopes", torch.randn(2))

    def forward():
        return flex_attention(
            x, x, x, score_mod=lambda score, batch, head, i, j: score + bias.slopes[head] * (i - j)
        )

    wanted = forward()
    with tr.Recorder(bias) as recorder:
        found = forward()
    assert torch.equal(found, wanted)
    assert names(recorder, "flex_attention") == {"slopes"}


def test_exported_program_with_a_branch():
    """The branch is an op of the program; what PyTorch traces for it did not run."""
    x = torch.randn(2, 3, requires_grad=True)
    program = torch.export.export(Either(), (x,)).module()
    recording = tr.record(program, x)
    (branch,) = (each for each in recording.ops.values() if each.name == "cond")
    read = {name for slot in branch.inputs for name in recording.values[slot.value].names}
    assert {f"{each}.weight" for each in ("first", "second")} <= read
    assert branch.scope == next(iter(recording.scopes))
    assert {each.path for each in recording.scopes.values()} <= {"", "_guards_fn"}
    assert recording.run.lost == 0


def test_what_functions_close_over_is_found_without_the_compiler():
    """Tensors in cells, and weights of modules in cells that the code names; each once."""
    net, given, unused = Either(), torch.ones(1), torch.ones(2)

    def inner(x):
        return net.first(x) + given

    def outer(x):
        return inner(x) + given

    found = dict(closed_over((outer, 3)))
    assert found.keys() == {"given", "first.weight", "first.bias"}
    assert found["first.weight"] is net.first.weight and found["given"] is given
    assert closed_over((lambda x: x, unused)) == []

    def endless(x):
        return endless(x + given)

    assert dict(closed_over((endless,))) == {"given": given}


def test_arguments_have_the_names_of_the_operator():
    """As other operators' do: 'scale 0.25', and not the place among the arguments."""
    recording = tr.record(lambda q, k: flex_attention(q, k, k), (torch.ones(1, 1, 16, 16),) * 2)
    (found,) = (each for each in recording.ops.values() if each.name == "flex_attention")
    assert [slot.name for slot in found.inputs][:3] == ["query", "key", "value"]
    assert ("scale", "0.25") in found.arguments


def attend(x):
    return flex_attention(x, x, x) * 2


class Attend(torch.nn.Module):
    """Attention in a function."""

    def forward(self, x):
        return attend(x)


def test_compiled_operator_belongs_to_the_line_that_calls_it():
    """Not to the code that PyTorch generates, in the first call otherwise than in the next."""
    torch.compiler.reset()
    recording = tr.record(torch.nn.Sequential(Attend(), Attend()), torch.ones(1, 1, 16, 16))
    operators = [op for op in recording.ops.values() if op.name == "flex_attention"]
    calls = recording.function_calls.values()
    assert [call.name for op in operators for call in calls if op.id in call.ops] == 2 * ["attend"]
    assert [op.source.function for op in operators] == 2 * ["attend"]


def test_each_training_step_has_the_same_operations():
    """What PyTorch traces in the backward pass is not recorded; gradients are results of the pass.
    """
    model, x = Either(), torch.ones(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tr.Recorder(model) as recorder:
        for _ in range(2):
            model(x).sum().backward()
            number = sum(weight.grad is not None for weight in model.parameters())
            optimizer.step()
            optimizer.zero_grad()
    recording = recorder.recording
    names = [op.name for op in recording.ops.values()]
    assert names == 2 * ["sum", "gt", "cond", "mul", "sum", "backward", *number * ["add_"]]
    assert [scope.cls for scope in recording.scopes.values()] == 2 * ["Either", "SGD"]
    updates = [op for op in recording.ops.values() if op.name == "add_"]
    gradients = [recording.values[op.inputs[1].value].producer for op in updates]
    assert {recording.ops[maker].name for maker in gradients} == {"backward"}
