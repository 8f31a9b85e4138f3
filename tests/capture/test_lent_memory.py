"""Memory that tensors share with arrays of NumPy, or through DLPack."""

from __future__ import annotations

import gc
import sys

import pytest
import torch

from torchrecorder import Recorder
from torchrecorder.capture.record import record

numpy = pytest.importorskip("numpy")


def ops(function, x=None):
    """Each op of a run of *function*, with the makers of what it reads."""
    recording = record(function, torch.ones(4) if x is None else x)
    assert recording.run.lost == 0
    names, found = {}, []
    for op in recording.ops.values():
        read = [recording.values[slot.value] for slot in op.inputs]
        makers = [names.get(value.producer) or value.role.value for value in read]
        names[op.id] = op.name
        found.append(f"{op.name}({', '.join(makers)})")
    return found


RETURNS = {
    "from_numpy": lambda y: torch.from_numpy(y.numpy()),
    "of an array protocol": lambda y: torch.from_numpy(numpy.asarray(y)),
    "as_tensor": lambda y: torch.as_tensor(y.numpy()),
    "asarray": lambda y: torch.asarray(y.numpy()),
    "frombuffer": lambda y: torch.frombuffer(y.numpy(), dtype=y.dtype),
    "from_dlpack": torch.from_dlpack,
    "a part of the array": lambda y: torch.from_numpy(y.numpy()[1:]),
}


@pytest.mark.parametrize("returns", RETURNS.values(), ids=RETURNS)
def test_what_comes_back_with_the_same_memory_is_an_alias(returns):
    """Also if nothing holds the tensor itself."""
    assert ops(lambda x: returns(x.sin()) * 2)[-2:] == ["alias(sin)", "mul(alias)"]


def test_a_part_of_a_tensor_is_an_alias_of_the_part():
    """Its memory begins later than that of the whole."""

    def of_part(x):
        part = x.sin()[1:]
        return torch.from_dlpack(part) * 2, part

    found = ops(of_part)
    assert found == ["sin(input)", "getitem(sin)", "alias(getitem)", "mul(alias)"]


def test_copies_are_no_aliases():
    """Neither of the array nor into another dtype."""
    found = ops(lambda x: torch.from_numpy(x.sin().numpy().copy()) * 2)
    assert found[-1] == "mul(constant)"
    found = ops(lambda x: torch.as_tensor(x.sin().numpy(), dtype=torch.float64) * 2)
    assert found[-2:] == ["as_tensor()", "mul(as_tensor)"]


def test_writes_are_read_from_the_others():
    """In both directions."""

    def there(x):
        y = x.sin()
        torch.from_numpy(y.numpy()).mul_(3)
        return y + 1

    def back(x):
        y = x.sin()
        z = torch.from_numpy(y.numpy())
        before = z * 2
        y.exp_()
        return before, z + 1

    assert ops(there)[-2:] == ["mul_(alias)", "add(mul_)"]
    assert ops(back)[-2:] == ["exp_(sin)", "add(exp_)"]


def test_writes_beside_are_not_read():
    """The array is a part: only what is written in its bytes counts."""

    def writes(x):
        y = x.sin()
        z = torch.from_numpy(y.numpy()[2:])
        before = z + 1
        y[:2].mul_(2)
        beside = z * 2
        y[2:].exp_()
        return before, beside, z.cos()

    found = ops(writes)
    assert found[-4:] == ["mul(alias)", "getitem(mul_)", "exp_(getitem)", "cos(exp_)"]


def test_two_tensors_of_one_array():
    """Of which the recorder knows nothing; and of one that the input has."""

    def twice(x):
        array = numpy.zeros(4, numpy.float32)
        first, second = torch.from_numpy(array), torch.from_numpy(array)
        first.add_(x)
        return second * 2

    assert ops(twice) == ["add_(constant, input)", "alias(add_)", "mul(alias)"]
    array = numpy.ones(4, numpy.float32)
    found = ops(lambda x: x.exp_() + torch.from_numpy(array), torch.from_numpy(array))
    assert found == ["exp_(input)", "alias(exp_)", "add(exp_, alias)"]


def test_freed_arrays_do_not_count():
    """Memory is reused: a later array at the same address is another one."""

    def many(x):
        kept, total = x.sin(), x.sum()
        array = kept.numpy()
        for place in range(1500):
            part = torch.from_numpy(array[place % 3 :])
            total = total + part.add_(1).sum()
            total = total + torch.from_numpy(numpy.ones(64, numpy.float32)).sum()
            (x * 2).numpy()
        gc.collect()
        return total + kept.sum()

    found = ops(many)
    assert found.count("alias(sin)") == 1 and found.count("sum(constant)") == 1500
    assert found[-2:] == ["sum(add_)", "add(add, sum)"]


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_a_whole_array_shares_the_memory_of_a_part_behind_freed_ones(gone):
    """However many parts before it were freed."""
    def run(x):
        array = numpy.zeros(16, numpy.float32)
        parts = [torch.from_numpy(array[4 * place : 4 * place + 4]) for place in range(gone + 1)]
        for part in parts:
            part.add_(x)
        del parts[:gone], part
        return torch.from_numpy(array) * 2, parts

    assert ops(run)[-2:] == ["alias(add_)", "mul(alias)"]


@pytest.mark.parametrize("first", [0, 4, 12])
@pytest.mark.parametrize("last", [0, 2, 8, 12])
def test_a_part_shares_the_memory_of_a_whole_array(first, last):
    """Wherever the part lies by which the array became known; and reads what it wrote itself."""
    def run(x):
        array = numpy.zeros(16, numpy.float32)
        kept.append(torch.from_numpy(array[first : first + 4]).add_(x))
        whole = torch.from_numpy(array).mul_(2)
        later = torch.from_numpy(array[last : last + 4]) * 3
        whole[last : last + 4].exp_()
        return later, torch.from_numpy(array[last : last + 4]).cos()

    kept = []
    found = ops(run)
    assert found[:5] == [
        "add_(constant, input)", "alias(add_)", "mul_(alias)", "alias(mul_)", "mul(alias)"
    ]
    assert found[-2:] == ["alias(exp_)", "cos(alias)"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_what_is_lent_has_the_name_of_its_variable():
    """Also in the call of a function that is not recorded itself."""
    given = torch.ones(3)
    with Recorder() as recorder:
        same = torch.from_dlpack(given)
        same.sin()
    values = recorder.recording.values.values()
    assert [value.names for value in values if value.producer is None] == [("given",)]
