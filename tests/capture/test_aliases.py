"""Where a module hands on its own input: told apart inside, and the user's own tensor outside."""

from __future__ import annotations

import dataclasses
import functools
from collections import namedtuple
from contextlib import nullcontext

import pytest
import torch
from torch import nn

import torchrecorder as tr
from tests.zoo.case import net
from torchrecorder.capture.probes import statistics
from torchrecorder.capture.tensors import alias
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Held:
    tensor: object
    rest: object = None


class Calls(nn.Module):
    """Runs *function* with the identity and the input."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.same = nn.Identity()

    def forward(self, x):
        return self.function(self.same, x)


def looped(tensor):
    """A list that is an item of itself."""
    made = [tensor]
    made.append(made)
    return made


CONTAINERS = {
    "list in itself": (lambda same, x: {"k": looped(same(x))}, lambda out: out["k"][0]),
    "tensor": (lambda same, x: same(x), lambda out: out),
    "tuple": (lambda same, x: (1, same(x)), lambda out: out[1]),
    "named tuple": (lambda same, x: Pair("a", same(x)), lambda out: out.second),
    "list": (lambda same, x: [same(x), 1], lambda out: out[0]),
    "dict": (lambda same, x: {"k": same(x)}, lambda out: out["k"]),
    "dataclass": (lambda same, x: Held(same(x)), lambda out: out.tensor),
    "list in a tuple": (lambda same, x: ([same(x)],), lambda out: out[0][0]),
    "tuple in a dict": (lambda same, x: {"k": (1, same(x))}, lambda out: out["k"][1]),
    "tuple in a dataclass": (lambda same, x: Held(1, (same(x),)), lambda out: out.rest[0]),
    "dict in a list": (lambda same, x: [1, {"k": same(x)}], lambda out: out[1]["k"]),
}


@pytest.mark.parametrize("case", CONTAINERS)
def test_the_caller_is_given_its_own_tensor(case):
    """In every usual container, and the containers are the model's own."""
    function, take = CONTAINERS[case]
    made = []

    def noted(same, x):
        made.append(function(same, x))
        return made[0]

    x = torch.ones(2, requires_grad=True)
    model = Calls(noted)
    with tr.Recorder(model):
        out = model(x)
    assert take(out) is x
    assert type(out) is type(made[0])
    if not isinstance(out, (tuple, torch.Tensor)):
        assert out is made[0]


def operands(function, x):
    """Who made what the first op that reads two tensors reads: the input, or the identity."""
    model = Calls(function)
    recording = tr.record(model, x)
    op = next(each for each in recording.ops.values() if len(each.inputs) > 1)
    names = []
    for slot in op.inputs:
        maker = recording.ops.get(recording.values[slot.value].producer)
        names.append("input" if maker is None else recording.scopes[maker.scope].name)
    return names


@pytest.mark.parametrize(
    ("function", "read"),
    [
        (lambda same, x: x + same(x), ["input", "same"]),
        (lambda same, x: same(x) + x, ["same", "input"]),
        (lambda same, x: torch.add(x, other=same(x)), ["input", "same"]),
        (lambda same, x: torch.cat([x, same(x)]), ["input", "same"]),
        (lambda same, x: torch.cat((same(x), x)), ["same", "input"]),
        (lambda same, x: x + x, ["input", "input"]),
    ],
)
@pytest.mark.parametrize("grad", [False, True])
def test_both_operands_are_distinguished(function, read, grad):
    """The same tensor by two ways is drawn as two ways."""
    assert operands(function, torch.ones(2, requires_grad=grad)) == read


def test_ops_are_given_the_tensor_of_the_user():
    """What an op hands back is the very object that it was given."""
    seen = []

    def function(same, x):
        other = same(x)
        seen.append(other.add_(1) is other)
        seen.append(x.add_(1) is x)
        return other * 1

    x = torch.zeros(2)
    model = Calls(function)
    with tr.Recorder(model):
        out = model(x)
    assert seen == [True, True]
    assert x.tolist() == out.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x * 2, lambda x: torch.cat((x, x)), lambda x: torch.stack([x]),
        lambda x: torch.mul(2, other=x), lambda x: torch.cat(tensors=[x]),
    ],
)
def test_autograd_has_only_the_tensor_of_the_user(use):
    """Behind what an operation makes of what an identity returned, as without a recorder."""
    x = torch.ones(2, requires_grad=True)
    with tr.Recorder(model := Calls(lambda same, x: use(same(x)))):
        out = model(x)
    behind = [node for node, _ in out.grad_fn.next_functions if node is not None]
    assert behind and all(getattr(node, "variable", None) is x for node in behind)


@pytest.mark.parametrize(("name", "lost"), [("_own", 1), ("tensors_in", 1), ("_or", 0)])
def test_an_exchange_that_fails_is_a_lost_fact(name, lost, monkeypatch):
    """The operation runs on what it was given, and the run goes on."""

    def fails(*args):
        raise RuntimeError(name)

    def function(same, x):
        other = same(x)
        if lost:
            monkeypatch.setattr(alias, name, fails)
        made = other.add_(1)
        monkeypatch.undo()
        return made * 2

    x = torch.zeros(2)
    warned = pytest.warns(UserWarning, match=f"RuntimeError: {name}") if lost else nullcontext()
    with warned, tr.Recorder(model := Calls(function)) as recorder:
        out = model(x)
    assert out.tolist() == [2.0, 2.0] and x.tolist() == [1.0, 1.0]
    assert recorder.recording.run.lost == lost


def test_after_a_failed_exchange_there_are_no_others(monkeypatch):
    """Nor after another instrument has failed too."""

    def fails(*args):
        raise RuntimeError

    def function(same, x):
        told_apart = [same(x) is not x]
        for home, name in ((alias, "_own"), (statistics, "numbers")):
            with monkeypatch.context() as patch:
                patch.setattr(home, name, fails)
                same(x).add(1)
            told_apart.append(same(x) is not x)
        return told_apart

    with pytest.warns(UserWarning, match="RuntimeError"), tr.Recorder(stats=True):
        assert Calls(function)(torch.zeros(2)) == [True, False, False]


def test_gradients_pass_through():
    """Both ways add to the gradient, as without a recorder."""
    x = torch.ones(2, requires_grad=True)
    model = Calls(lambda same, x: x * 2 + same(x) * 3)
    with tr.Recorder(model):
        model(x).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_a_parameter_is_handed_on_as_it_is():
    """It could not be told from another tensor by its class."""
    weight = nn.Parameter(torch.ones(2))
    kinds = []

    def function(same, x):
        kinds.append(same(weight) is weight)
        return x + same(weight)

    tr.record(Calls(function), torch.ones(2))
    assert kinds == [True]


@pytest.mark.parametrize("name", CONTAINERS)
def test_an_identity_of_an_input_is_on_the_way_out(name):
    """However the model returns what the identity gave; what it returns is the input itself."""
    function, own = CONTAINERS[name]
    x = torch.ones(2)
    with tr.Recorder(model := Calls(function)) as recorder:
        assert own(model(x)) is x
    view = make_view(recorder.recording, ViewOptions(depth=1))
    tails = {view.boxes[arrow.tail].kind for arrow in view.arrows if arrow.head.startswith("out:")}
    assert BoxKind.MODULE in tails and BoxKind.INPUT not in tails


class Doubled(torch.autograd.Function):
    """A function of the user's: it gets what a module passed on, not what that stands for."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


LEAVES = {
    "plain": lambda: torch.arange(6.0),
    "view": lambda: torch.arange(6.0).view(2, 3),
    "slice": lambda: torch.arange(60.0).view(10, 6)[3],
    "turned": lambda: torch.arange(6.0).view(2, 3).t(),
    "detached": lambda: (torch.ones(6, requires_grad=True) * 2)[:4].detach(),
    "parameter": lambda: nn.Parameter(torch.arange(6.0).view(2, 3)[1]),
}


@pytest.mark.parametrize("kind", LEAVES)
@pytest.mark.parametrize("use", [Doubled.apply, lambda x: Doubled.apply(x) + x, torch.sin],
                         ids=["function", "both", "operation"])
def test_gradients_of_leaves_that_are_views(kind, use):
    """Leaves that lie in the memory of others have gradients like any; these are kept, too."""
    gradients = []
    for keep in (None, ["skip"]):
        x = LEAVES[kind]().requires_grad_()
        model = net(lambda self, x: use(self.skip(x)), skip=nn.Identity())
        if keep is None:
            model(x).sum().backward()
        else:
            with tr.Recorder(model, keep=keep) as recorder:
                model(x).sum().backward()
            assert torch.equal(recorder.recording.gradients["skip"], x.grad)
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_the_entry_of_a_dead_alias_stands_for_no_other_tensor():
    """Should it remain, a new tensor may have its ``id()``; the user's operation gets that one."""

    def function(same, x):
        table, passed, fresh = recorder._instruments.values, same(x), torch.ones(3)
        table.entries[id(fresh)] = table.entries[id(passed)]
        found.extend([table.original(passed), table.original(fresh)])
        del table.entries[id(fresh)]
        return passed * 1

    found = []
    x = torch.zeros(2)
    with tr.Recorder(model := Calls(function)) as recorder:
        model(x)
    assert found[0] is x and found[1] is None


def test_a_version_that_is_set_back_is_no_write():
    """As where sharding hides from autograd that it gathers weights."""
    held, x = torch.zeros(2), torch.ones(2)
    with tr.Recorder() as recorder:
        with torch.autograd._unsafe_preserve_version_counter(held):
            held.copy_(x)
        held.exp()
    copied, exp = recorder.recording.ops.values()
    assert (copied.name, exp.name) == ("copy_", "exp")
    assert exp.inputs[0].value in copied.outputs


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("record", [tr.record, functools.partial(tr.record, fake=True)])
def test_attributes_of_a_tensor_go_through_an_identity(grad, record):
    """Those that the program sets before it, and those that it sets on the result."""
    seen = []

    def function(same, x):
        y = x * 2
        y.scale = 3
        z = same(same(y))
        z.shift = z.scale + 1
        seen.append((y.shift, y.scale))
        return z * 1

    record(Calls(function), torch.ones(2, requires_grad=grad))
    assert seen == [(4, 3)]


class Keeps(nn.Module):
    """Has a view of its training data, which is no buffer, as a Gaussian process has."""

    def __init__(self, data):
        super().__init__()
        self.fc = nn.Linear(1, 3)
        self.train_inputs = [data.unsqueeze(-1)]

    def forward(self, x):
        x = x.unsqueeze(-1)
        return self.fc(x) + self.train_inputs[0]


class KeepsWithoutHooks(Keeps):
    def __call__(self, x):
        return self.forward(x)


@pytest.mark.parametrize("cls", [Keeps, KeepsWithoutHooks])
def test_a_view_from_before_the_run_is_read_in_the_same_way_by_each_call(cls):
    """It is a view of the input, and no result of the call that reads it first."""
    x = torch.ones(5)
    model = cls(x)
    optimizer = torch.optim.SGD(model.parameters())
    with tr.Recorder() as recorder:
        for _ in range(3):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    recording = recorder.recording
    (given,) = recording.inputs
    adds = [op for op in recording.ops.values() if op.name == "add"]
    read = {recording.values[op.inputs[1].value].producer for op in adds}
    (alias,) = (recording.ops[op] for op in read)
    assert alias.inputs[0].value == given.value
    assert [slot.value for slot in recording.outputs] == [op.outputs[0] for op in adds]
    (loop,) = make_view(recording, ViewOptions(depth=0)).clusters.values()
    assert loop.count == 3
    assert " ×3 " in recording.summary()


def test_an_operation_that_returns_its_input_is_what_passes_it_on():
    """The tensor whose type it is given is only read."""
    cast = net(lambda self, x: x.type_as(self.weight), weight=nn.Parameter(torch.ones(2)))
    recording = tr.record(net(lambda self, x: self.cast(x).relu(), cast=cast), torch.ones(2))
    passed, relu = recording.ops.values()
    assert (passed.name, relu.name) == ("type_as", "relu")
    assert [slot.value for slot in relu.inputs] == [*passed.outputs]


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[1:3], lambda x: x.view(-1), lambda x: x.detach(), lambda x: x.data,
])
def test_a_parameter_of_a_view_that_no_longer_exists_reads_the_view(view):
    """Not the tensor around it."""
    recording = tr.record(lambda x: nn.Parameter(view(x)).sum(), torch.ones(4, 4))
    made, alias, total = recording.ops.values()
    assert (alias.name, total.name) == ("alias", "sum")
    assert alias.inputs[0].value == made.outputs[0] and total.inputs[0].value == alias.outputs[0]


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x.detach()])
def test_a_parameter_of_the_tensor_itself_reads_no_view_of_it(view):
    """Nor one that another op has read."""
    recording = tr.record(lambda x: (view(x).sum(), nn.Parameter(x).sum()), torch.ones(4, 4))
    (alias,) = (op for op in recording.ops.values() if op.name == "alias")
    assert alias.inputs[0].value == recording.inputs[0].value


@pytest.mark.parametrize("first", ["view", "base"])
def test_the_base_of_a_view_from_before_the_run_is_from_before_it_too(first):
    """It is read after an op has made another view of the same memory."""
    base = torch.ones(8)
    given = {"view": base.unsqueeze(-1), "base": base}
    other = next(given[name] for name in given if name != first)
    with tr.Recorder() as recorder:
        made = given[first].view(4, 2)
        made + (other * 2).view(4, 2)
    view, alias, mul, *_ = recorder.recording.ops.values()
    assert (view.name, alias.name, mul.name) == ("view", "alias", "mul")
    assert alias.inputs[0].value == view.inputs[0].value
    assert mul.inputs[0].value == alias.outputs[0]
