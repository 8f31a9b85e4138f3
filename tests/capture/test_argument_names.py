"""Tensors of unknown origin are named by the source of the call that reads them first."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

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


def transformed(first: Tensor, second: Tensor, third: Tensor) -> None:
    """The gradient for each sample."""

    def loss(x: Tensor, y: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(x * y, target)

    torch.func.vmap(torch.func.grad(loss))(first, second, third)


def test_what_a_function_transform_passes_on_is_named_by_the_line_that_reads_it() -> None:
    """The function reads a tensor around it, of one sample."""
    assert names(transformed, ones(), ones(), ones()) == ["x", "y", "target"]
