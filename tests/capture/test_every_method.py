"""Every method, attribute and operator of a tensor: one operation, as the plain run tells it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from torchrecorder import record
from torchrecorder.recording import Recording

METHODS = [name for name in dir(Tensor) if not name.startswith("__")]
SAME_AS = {"to_sparse_coo": "to_sparse"}
"""Methods in Python that only call another."""

UNSEEN = {
    "requires_grad_": "changes a tensor for autograd, and not its numbers",
    "set_": "takes other memory, of nobody",
    "grad": "gives what a pass left, and makes nothing",
}


def square() -> Tensor:
    """A matrix that every function takes."""
    return torch.tensor([[4.0, 2.0], [2.0, 3.0]])


def use(x: Tensor, name: str) -> Any:
    """Read an attribute, or call a method."""
    found = getattr(x, name)
    return found() if callable(found) else found


def works(x: Tensor, name: str) -> bool:
    """Whether it does without arguments, on such a tensor."""
    try:
        use(x, name)
    except Exception:
        return False
    return True


def tensors_of(result: Any) -> list[Tensor]:
    """A result, or several."""
    found = result if isinstance(result, (tuple, list)) else [result]
    return [each for each in found if isinstance(each, Tensor)]


def recorded(name: str) -> Recording:
    """The recording of one use."""
    return record(lambda x: (use(x, name), None)[1], square())


def facts(recording: Recording) -> tuple[Any, ...]:
    """The operation: its name, what it read, wrote and made, and where results lie in memory."""
    (op,) = recording.ops.values()
    (given,) = recording.inputs
    made = [recording.values[value] for value in op.outputs]
    memory = recording.values[given.value].storage
    return (
        op.name,
        [slot.value for slot in op.inputs] == [given.value],
        bool(op.writes),
        [(value.shape, value.dtype, value.storage == memory) for value in made],
    )


def expected_facts(name: str) -> tuple[Any, ...]:
    """The same from a plain run."""
    x = square()
    version, memory = x._version, x.untyped_storage().data_ptr()
    made = [
        (tuple(each.shape), str(each.dtype).removeprefix("torch."),
         each.layout is torch.strided and not each.is_mkldnn
         and each.untyped_storage().data_ptr() == memory)
        for each in tensors_of(use(x, name))
    ]
    return SAME_AS.get(name, name), True, x._version > version, made


@pytest.mark.filterwarnings("ignore")
def test_methods_and_attributes_that_give_tensors() -> None:
    """Each is one operation of its name, which writes and shares memory as without a recorder."""
    names = [name for name in METHODS if name not in UNSEEN and works(square(), name)]
    making = [name for name in names if tensors_of(use(square(), name))]
    returning = [name for name in making if use(x := square(), name) is x and not x._version]
    wrong = {
        name: (facts(found), expected_facts(name)) for name in making if name not in returning
        if len((found := recorded(name)).ops) != 1 or facts(found) != expected_facts(name)
    }
    assert len(making) > 200 and not wrong


@pytest.mark.filterwarnings("ignore")
def test_methods_and_attributes_that_give_no_tensor() -> None:
    """An operation is what reads numbers, which a tensor without numbers cannot give."""
    names = [name for name in METHODS if works(square(), name)]
    others = [name for name in names if not tensors_of(use(square(), name))]
    reading = {name for name in others if not works(square().to("meta"), name)}
    assert {name for name in others if recorded(name).ops} == reading
    assert "tolist" in reading and reading < set(others)


BINARY = (
    "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift matmul "
    "lt le gt ge eq ne".split()
)
IN_PLACE = [f"i{name.rstrip('_')}" for name in BINARY[:12]]
UNARY = "neg pos abs invert".split()


PLACES = {"self": 0, "0": 0, "other": 1, "exponent": 1, "1": 1}


def as_called(op: Any, tensors: dict[str, Tensor]) -> Any:
    """What the function of this name gives, for the arguments in the places that are recorded."""
    given = {slot.name: tensors[slot.value] for slot in op.inputs}
    given.update((name, torch.tensor(int(text))) for name, text in op.arguments)
    homes = ((torch, op.name), (Tensor, op.name), (Tensor, f"__{op.name}__"))
    function = next(getattr(home, name) for home, name in homes if hasattr(home, name))
    return function(*(given[name] for name in sorted(given, key=PLACES.__getitem__)))


def agrees(name: str, *args: Any) -> bool:
    """Whether the recorded operation, called by its name, gives what the operator gives."""
    def fresh() -> list[Any]:
        return [each.clone() if isinstance(each, Tensor) else each for each in args]

    function: Callable[..., Any] = getattr(operator, name)
    recording = record(lambda *given: function(*given), tuple(fresh()))
    (op,) = recording.ops.values()
    tensors = [each for each in fresh() if isinstance(each, Tensor)]
    by_value = {slot.value: each for slot, each in zip(recording.inputs, tensors)}
    in_place = function(given := fresh()[0], *fresh()[1:]) is given
    wanted, found = function(*fresh()), as_called(op, by_value)
    return bool(torch.equal(wanted, found)) and bool(op.writes) == in_place


@pytest.mark.parametrize("name", BINARY + IN_PLACE)
def test_operators_are_named_after_functions_that_do_the_same(name: str) -> None:
    """Of two tensors, and with a number on either side."""
    whole, other = torch.tensor([[7, 5], [3, 9]]), torch.tensor([[2, 3], [1, 2]])
    x, y = (whole, other) if name != "itruediv" else (whole.double(), other.double())
    assert agrees(name, x, y)
    if name != "matmul":
        assert agrees(name, x, 2)
    if name in BINARY and name != "matmul":
        assert agrees(name, 2, y)


@pytest.mark.parametrize("name", UNARY)
def test_operators_of_one_tensor(name: str) -> None:
    """A sign, and the bits."""
    if name != "pos":
        assert agrees(name, torch.tensor([3, -4]))
    assert len(record(lambda x: getattr(operator, name)(x), torch.tensor([3, -4])).outputs) == 1


def test_indices_are_no_lists() -> None:
    """A tensor that is indexed is no list of numbers, although PyTorch knows both by one name."""
    x = torch.arange(6.0).view(2, 3)
    (read,) = record(lambda x: x[1], x).ops.values()
    assert (read.name, [slot.name for slot in read.inputs]) == ("getitem", ["self"])
    (chosen,) = record(lambda x, y: x[y], (x, torch.tensor([0]))).ops.values()
    assert [slot.name for slot in chosen.inputs] == ["self", "index"]
