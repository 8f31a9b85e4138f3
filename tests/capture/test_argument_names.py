"""Tensors of unknown origin are named by the source of the call that reads them first."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torchrecorder
from torchrecorder.events import Role

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")


def ones() -> Tensor:
    """A tensor that only local variables hold."""
    return torch.ones(2, 2)


def names(function: Callable[..., object], *given: object) -> list[str]:
    """The names of tensors of unknown origin in *function*, with "-" for one without."""
    with torchrecorder.Recorder() as recorder:
        function(*given)
    values = recorder.recording.values.values()
    return [
        ".".join(value.names) or "-"
        for value in values
        if value.producer is None and value.role in (Role.CONSTANT, Role.INPUT)
    ]


def positional(x, y):
    return F.mse_loss(x, y)


def by_keyword(x, y):
    return F.mse_loss(target=y, input=x)


def optional_by_position(x, y, weight):
    return F.mse_loss(x, y, None, None, "mean", weight)


def out(x, y):
    return torch.add(x, 1, out=y)


def operators(x, y, a, b):
    return x @ y, a == b


def unary(x, y):
    return -x, ~(y > 0)


def method(x, y):
    return x.add(
        y
    )


def attribute(x):
    return x.T


def in_a_list(x, y):
    return torch.cat([x, y])


def a_list(rows):
    return torch.stack(rows)


def of_an_object(batch, row):
    return batch.mask.sum(), row["x"][0].sum(), batch.rows[1].sum()


def of_itself(self):
    return self.mask.sum()


def subscript(x, place):
    return x[place]


def written(x, place, y):
    x[place] = y


def in_place(x, y):
    x += y


def converted(x, y):
    return float(x), y.item()


def with_a_number(x, number):
    return x * 2, 2 - x, x


def iterated(x, y, z):
    for row in x:
        pass
    return [*enumerate(y)], [row for row in z]


def of_a_class(x, y, z):
    import operator

    return torch.Tensor.norm(x), operator.mul(y, z)


def with_more_by_position(x):
    return x.norm(2)


def before_unpacked(x, y, z, sizes, more):
    return x.expand(*sizes), torch.cat([y, *more]), torch.add(*more, z)


def only_later(rows):
    return torch.stack([row for row in rows]), rows[0] + 1


def condition(x, batch):
    if x.sum():
        pass
    assert batch.flag
    return 1 if not batch.other else 2


FLAGS = SimpleNamespace(flag=torch.ones(()), other=torch.ones(()))
BATCH = SimpleNamespace(mask=ones(), rows=[ones(), ones()])


@pytest.mark.parametrize(
    "function, given, wanted",
    [
        (positional, (ones(), ones()), ["x", "y"]),
        (by_keyword, (ones(), ones()), ["x", "y"]),
        (optional_by_position, (ones(), ones(), ones()), ["x", "y", "weight"]),
        (out, (ones(), ones()), ["x", "y"]),
        (operators, (ones(), ones(), ones(), ones()), ["x", "y", "a", "b"]),
        (unary, (ones(), ones()), ["x", "y"]),
        (method, (ones(), ones()), ["x", "y"]),
        (attribute, (ones(),), ["x"]),
        (in_a_list, (ones(), ones()), ["x", "y"]),
        (a_list, ([ones(), ones()],), ["rows.0", "rows.1"]),
        (of_an_object, (BATCH, {"x": [ones()]}), ["batch.mask", "row.x.0", "batch.rows.1"]),
        (of_itself, (BATCH,), ["mask"]),
        (subscript, (ones(), torch.tensor([0, 1])), ["x", "place"]),
        (written, (ones(), torch.tensor([0, 1]), ones()), ["x", "place", "-"]),
        (in_place, (ones(), ones()), ["x", "y"]),
        (converted, (torch.ones(1), torch.ones(1)), ["x", "y"]),
        (with_a_number, (ones(), 2), ["x"]),
        (iterated, (ones(), ones(), ones()), ["x", "y", "z"]),
        (of_a_class, (ones(), ones(), ones()), ["x", "y", "z"]),
        (with_more_by_position, (ones(),), ["x"]),
        (before_unpacked, (ones(), ones(), ones(), (3, 2, 2), [ones()]), ["x", "y", "-", "-"]),
        (only_later, ([ones(), ones()],), ["rows.0", "-"]),
        (condition, (ones(), FLAGS), ["x", "batch.flag", "batch.other"]),
    ],
)
def test_the_source_names_it(function, given, wanted) -> None:
    """By the variable, or by the attribute or item of one, at the place of the argument."""
    assert names(function, *given) == wanted


def test_what_has_no_name() -> None:
    """Several at once, a result, a private variable, an item of unknown place, a number beside."""
    pair, _hidden, place, number = [ones(), ones()], ones(), 0, 3.0
    assert names(lambda: torch.add(*pair)) == ["-", "-"]
    assert names(lambda: torch.stack([*pair])) == ["-", "-"]
    assert names(lambda: torch.stack((lambda: pair)())) == ["-", "-"]
    assert names(lambda: (lambda: pair[0])().sum()) == ["-"]
    assert names(lambda: _hidden.sum()) == ["-"]
    assert names(lambda: pair[place].sum()) == ["-"]
    assert names(lambda item: number - item, ones()) == ["-"]


def test_what_is_iterated_has_no_name_if_it_may_be_another() -> None:
    """One of several that are iterated together, rows of rows, what a function iterates."""
    one, two, cube = ones(), ones(), torch.ones(2, 2, 2)
    assert names(lambda: [*zip(one, two)]) == ["-", "-"]
    inner = "row" if sys.version_info >= (3, 13) else "-"  # older code has no place for it
    assert names(lambda rows: [item for row in rows for item in row], [cube]) == [inner]
    assert names(lambda: OrderedDict(one)) == ["-"]


def test_a_parameter_of_no_module() -> None:
    """One that only an object of the user holds, as the temperature of a loss."""
    scale = torch.nn.Parameter(torch.ones(()))
    with torchrecorder.Recorder() as recorder:
        (lambda self: (ones() / self.temperature).sum())(SimpleNamespace(temperature=scale))
    found = [value for value in recorder.recording.values.values() if value.trainable]
    assert [(value.names, value.role) for value in found] == [(("temperature",), Role.PARAMETER)]


def test_what_another_function_computes_has_no_name() -> None:
    """The arguments of the call in the source are not those of the operation."""
    one, two, single = torch.ones(1), torch.zeros(1), [torch.ones(1)]
    assert names(lambda: max(one, two)) == ["-", "-"]
    assert names(lambda: sum(single)) == ["-"]
    assert names(lambda: one in single) == ["-", "-"]


def test_code_of_pytorch_names_nothing() -> None:
    """Its variables are not the user's."""
    vectors = [ones(), ones()]
    assert names(lambda: torch.nn.utils.parameters_to_vector(vectors)) == ["-", "-"]


@pytest.mark.parametrize(
    "gradient",
    [
        lambda loss, self: torch.autograd.grad(loss, self.fc.weight),
        lambda loss, self: torch.autograd.grad(loss, inputs=[self.fc.weight]),
        lambda loss, self: torch.autograd.grad(loss, [loss, self.fc.weight]),
    ],
)
def test_a_weight_that_a_gradient_is_asked_for(gradient) -> None:
    """PyTorch passes a single one as a tuple of one."""
    holder = SimpleNamespace(fc=torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError) as caught, torchrecorder.Recorder():
        gradient(ones().requires_grad_().sum(), holder)
    assert "depend on fc.weight:" in caught.value.__notes__[-1]


def test_a_parameter_has_the_name_of_its_module_alone() -> None:
    """A loop over the parameters of a model has one variable for all of them."""
    model = torch.nn.Linear(2, 2)
    with torchrecorder.Recorder() as recorder:
        for weight in model.parameters():
            weight.sum()
    assert [value.names for value in recorder.recording.values.values() if not value.producer] == [
        (), (),
    ]


def test_the_first_name_stays() -> None:
    """In another function it may have another."""

    def inner(other: Tensor) -> Tensor:
        return other + 1

    def outer(first: Tensor) -> Tensor:
        return first.sum() + inner(first)

    assert names(outer, ones()) == ["first"]


def test_a_line_that_calls_several_parameters_by_one_name_names_none() -> None:
    """As a loop over the weights of a model that does not run; others keep theirs."""
    scale, net = torch.nn.Parameter(ones()), torch.nn.Linear(2, 2)
    with torchrecorder.Recorder() as recorder:
        (lambda: [weight.sum() for weight in [*net.parameters(), scale]])()
        (lambda: scale * torch.ones(()))()
    found = [value.names for value in recorder.recording.values.values() if value.trainable]
    assert found == [(), (), ()]


class Both(nn.Module):
    """Its arguments are not called as the variables of its callers."""

    def forward(self, one: Any, other: Tensor | None = None) -> Tensor:
        first = one[0] if isinstance(one, list) else getattr(one, "x", one)
        return first * 2 if other is None else first + other


def inputs(function: Callable[[], object]) -> list[str]:
    """The names of the inputs of a block that runs *function*."""
    with torchrecorder.Recorder() as recorder:
        function()
    recording = recorder.recording
    names = [slot.name for slot in recording.inputs]
    assert names == [".".join(recording.values[slot.value].names) for slot in recording.inputs]
    return names


def test_inputs_of_modules_have_the_names_of_the_call() -> None:
    """Those of `forward` if it has none: for what a call computes, for each of several arguments,
    and where a builtin calls the module."""
    model, real, fake = Both(), ones(), ones()
    batch, held = {"image": ones(), "label": ones()}, SimpleNamespace(x=ones())
    pair, both, listed = [ones(), ones()], (ones(), ones()), [ones(), ones()]
    given: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: model(real, fake), ["real", "fake"]),
        (lambda: model(other=fake, one=real), ["fake", "real"]),
        (lambda: (model(real), model(fake), model(real)), ["real", "fake"]),
        (lambda: model(batch["image"], batch["label"]), ["batch.image", "batch.label"]),
        (lambda: model(held.x), ["held.x"]),
        (lambda: model(pair), ["pair.0", "pair.1"]),
        (lambda: [model(item) for item in listed], ["item", "item"]),
        (lambda: model(held), ["held.x"]),
        (lambda: model(*[held], other=real), ["other", "one.x"]),
        (lambda: model(*both), ["one", "other"]),
        (lambda: functools.partial(model, real)(fake), ["one", "other"]),
        (lambda: functools.partial(model, other=real)(fake), ["fake", "other"]),
        (lambda: functools.reduce(model, pair), ["one", "other"]),
        (lambda: model(**{"one": real}), ["one"]),
        (lambda: model(torch.frombuffer(bytearray(8), dtype=real.dtype)), ["one"]),
        (lambda: list(map(model, [fake])), ["one"]),
        (lambda: [*map(model, (real,), (fake,))], ["one", "other"]),
        (lambda: (real.sum(), model(real)), ["real"]),
        (lambda: (model(real), real.sum()), ["real"]),
    ]
    for function, wanted in given:
        assert inputs(function) == wanted


def test_variables_that_the_program_reads_itself_are_inputs() -> None:
    """As the target of a loss, also inside `no_grad`, and what is in the same object as an input;
    not what other objects hold, what has no name, and what is written."""
    model, x, y, mean, total = Both(), ones(), ones(), ones(), torch.zeros(())
    batch, held = {"image": ones(), "label": ones()}, SimpleNamespace(x=ones())
    rows, weight, goal = torch.ones(5, 2), nn.Parameter(ones()), torch.ones(5, 2)
    state, edges = ones().to_sparse(), ones().to_sparse()  # without storages

    def without_gradients() -> None:
        with torch.no_grad():
            F.mse_loss(model(x), y)

    given: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: F.mse_loss(model(x), y), ["x", "y"]),
        (without_gradients, ["x", "y"]),
        (lambda: (x - mean) * 2, ["x", "mean"]),
        (lambda: F.mse_loss(model(batch["image"]), batch["label"]), ["batch.image", "batch.label"]),
        (lambda: F.mse_loss(model(x), batch["label"]), ["x"]),
        (lambda: F.mse_loss(model(x), held.x), ["x"]),
        (lambda: F.mse_loss(model(x), (lambda: y)()), ["x"]),
        (lambda: total.add_(model(x).sum()), ["x"]),
        (lambda: F.mse_loss(rows @ weight, goal), ["rows", "goal"]),
        (lambda: (state.mul_(2), edges @ model(x)), ["x", "edges"]),
    ]
    for function, wanted in given:
        assert inputs(function) == wanted


def test_variables_for_each_weight_are_constants() -> None:
    """What it should be, its importance, and a mask for its gradient."""
    model, x, y = nn.Linear(2, 2, bias=False), ones(), ones()
    goals, scales, masks = [ones()], [ones()], [ones()]

    def program() -> None:
        loss = F.mse_loss(model(x), y)
        for weight, goal, scale in zip(model.parameters(), goals, scales):
            loss = loss + (scale * (weight - goal).square()).sum()
        loss.backward()
        for weight, mask in zip(model.parameters(), masks):
            weight.grad.mul_(mask)

    assert inputs(program) == ["x", "y"]


def test_variables_that_a_call_reads_are_constants() -> None:
    """A module, and a recorded function, has its arguments as inputs, and no others."""
    mask, target = ones(), ones()
    model = nn.Sequential(Both())
    model[0].register_forward_hook(lambda module, args, result: result * mask)
    assert inputs(lambda: model(target)) == ["target"]
    recording = torchrecorder.record(lambda x: F.mse_loss(x, target), ones())
    assert [slot.name for slot in recording.inputs] == ["x"]
    assert ("target",) in [
        value.names for value in recording.values.values() if value.role is Role.CONSTANT
    ]


def test_inputs_of_a_recorded_model_have_the_names_of_its_arguments() -> None:
    """Also if the program has other names for them, which hooks, or a global variable, could
    give."""
    model, real = Both(), ones()
    model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    recording = torchrecorder.record(model, real)
    assert [slot.name for slot in recording.inputs] == ["one"]
    recording = torchrecorder.record(Both(), HELD_BY_A_GLOBAL)
    assert [slot.name for slot in recording.inputs] == ["one"]
    recording = torchrecorder.record(lambda value: value * HELD_BY_A_GLOBAL, HELD_BY_A_GLOBAL)
    assert [slot.name for slot in recording.inputs] == ["value"]


HELD_BY_A_GLOBAL = ones()


def transformed(first: Tensor, second: Tensor, third: Tensor) -> None:
    """The gradient for each sample."""

    def loss(x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(x * y, target)

    torch.func.vmap(torch.func.grad(loss))(first, second, third)


def test_what_a_function_transform_passes_on_is_named_by_the_line_that_reads_it() -> None:
    """The function reads a tensor around it, of one sample."""
    assert names(transformed, ones(), ones(), ones()) == ["x", "y", "target"]
