"""The arguments of a model: as they were given, or made from shapes."""

from __future__ import annotations

from collections import OrderedDict, UserDict, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

import torchrecorder
from torchrecorder.capture.inputs import (
    as_leaf_dummies, call_arguments, detached, device_and_dtype, random_tensor,
)
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.errors import ArgumentMismatch, InvalidArgument

X, Y = torch.ones(2), torch.zeros(3)


def anything(*args: Any, **kwargs: Any) -> None:
    """Takes whatever it is given."""


def made(shapes: Any, dtypes: Any = None, model: Any = anything) -> tuple[Any, Any]:
    """What is made from shapes: of each argument, its sizes and its dtype."""
    def facts(each: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
        return tuple(each.shape), each.dtype

    args, kwargs = call_arguments(model, None, None, shapes, dtypes)
    return [facts(each) for each in args], {key: facts(each) for key, each in kwargs.items()}


@pytest.mark.parametrize(
    ("args", "kwargs", "positional", "named"),
    [
        (None, None, (), {}), (X, None, (X,), {}), ((X, Y), None, (X, Y), {}), ((), {}, (), {}),
        ([X, Y], None, ([X, Y],), {}), ((None,), None, (None,), {}),
        ({"a": X, "b": 1}, None, (), {"a": X, "b": 1}), (X, {"b": Y}, (X,), {"b": Y}),
        (UserDict(a=X), {"b": Y}, (), {"a": X, "b": Y}), ({"a": X}, {"a": Y}, (), {"a": Y}),
        (None, OrderedDict(a=X), (), {"a": X}),
    ],
)
def test_arguments_as_they_are_given(args: Any, kwargs: Any, positional: Any, named: Any) -> None:
    """A tuple in its places, a mapping by names, anything else as the one argument."""
    found, by_name = call_arguments(anything, args, kwargs, None)
    assert len(found) == len(positional) and by_name.keys() == named.keys()
    assert all(one is other or one == other for one, other in zip(found, positional))
    assert all(by_name[name] is named[name] for name in named)


FLOAT, INT, BOOL, HALF = torch.float32, torch.int64, torch.bool, torch.float16


@pytest.mark.parametrize(
    ("shapes", "dtypes", "args", "kwargs"),
    [
        ((1, 3), None, [((1, 3), FLOAT)], {}),
        ([2, 0], None, [((2, 0), FLOAT)], {}),
        ((), None, [((), FLOAT)], {}),
        ([(1, 3), (2,)], None, [((1, 3), FLOAT), ((2,), FLOAT)], {}),
        ([(1, 3), 2], None, [((1, 3), FLOAT), ((2,), FLOAT)], {}),
        ([()], None, [((), FLOAT)], {}),
        (((1, 3), INT), None, [((1, 3), INT)], {}),
        ([((1, 3), INT)], None, [((1, 3), INT)], {}),
        ([((1, 3), INT), (2,)], None, [((1, 3), INT), ((2,), FLOAT)], {}),
        ([((1, 3), INT), (2,)], HALF, [((1, 3), INT), ((2,), HALF)], {}),
        ({"a": (2,), "b": ((1,), BOOL)}, None, [], {"a": ((2,), FLOAT), "b": ((1,), BOOL)}),
        ((2,), INT, [((2,), INT)], {}),
        ([(2,), (3,)], [INT, None], [((2,), INT), ((3,), FLOAT)], {}),
        ([(2,), (3,)], {1: HALF}, [((2,), FLOAT), ((3,), HALF)], {}),
        ({"a": 2, "b": (3,)}, {"b": INT}, [], {"a": ((2,), FLOAT), "b": ((3,), INT)}),
        ({"a": 2, "b": (3,)}, (BOOL, None), [], {"a": ((2,), BOOL), "b": ((3,), FLOAT)}),
    ],
)
def test_arguments_from_shapes(shapes: Any, dtypes: Any, args: Any, kwargs: Any) -> None:
    """One shape, several, or by names; a dtype for each, for some or for all."""
    assert made(shapes, dtypes) == (args, kwargs)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((nn.Linear, X, None, None, None), "class Linear, not a model: create it"),
        ((3, X, None, None, None), "expected an nn.Module or another callable to record, got int"),
        ((anything, X, None, (2,), None), "either inputs or input_shapes"),
        ((anything, X, None, None, FLOAT), "dtypes apply to input_shapes"),
        ((anything, X, [Y], None, None), "kwargs must be a mapping"),
        ((anything, None, None, "2", None), "input_shapes must be a shape.*got '2'"),
        ((anything, None, None, b"2", None), "input_shapes must be a shape"),
        ((anything, None, None, 2, None), "input_shapes must be a shape"),
        ((anything, None, None, (2, -1), None), "sizes >= 0.*got \\(2, -1\\)"),
        ((anything, None, None, [(2, 1.5)], None), "sizes >= 0"),
        ((anything, None, None, (True, 2), None), "sizes >= 0"),
        ((anything, None, None, (2,), "int"), "dtypes must be one dtype"),
        ((anything, None, None, (2,), [INT, INT]), "dtypes must be one dtype"),
        ((anything, None, None, [(2,), (3,)], [INT, 3]), "dtypes must be one dtype"),
        ((anything, None, None, {"a": 2}, {"b": INT}), "dtypes must be one dtype"),
        ((anything, None, None, {"a": 2}, {"a": 3}), "dtypes must be one dtype"),
    ],
)
def test_what_cannot_be_meant(given: tuple[Any, ...], message: str) -> None:
    """Is refused, and the message says what is expected."""
    with pytest.raises(InvalidArgument, match=message):
        call_arguments(*given)


def test_arguments_that_forward_does_not_take() -> None:
    """The message has the signature and the types of all that was given, and no tensor."""
    given = r"given \(Tensor, int, b=str\)"
    with pytest.raises(ArgumentMismatch, match=rf"Linear takes .*{given}.* or input_shapes\.$"):
        call_arguments(nn.Linear(2, 2), (X, 1), {"b": "c"}, None)
    with pytest.raises(ArgumentMismatch, match=r"add takes \(.*, but was given \(\)"):
        call_arguments(add, None, None, None)
    with pytest.raises(ArgumentMismatch, match=r"partial takes \(.*, but was given \(\)"):
        call_arguments(partial(add), None, None, None)
    assert call_arguments(len, ([X],), None, None) == (([X],), {})


def test_a_mapping_that_is_an_argument() -> None:
    """Where its keys are no parameters, the message says how to pass it."""
    batch = {"ids": X}
    with pytest.raises(ArgumentMismatch, match="in a tuple, if the mapping itself is an argument"):
        call_arguments(add, batch, None, None)
    assert call_arguments(add, (batch,), None, None) == ((batch,), {})


def add(x: Any) -> Any:
    """One argument."""


def test_where_a_model_is() -> None:
    """As its first parameter of decimal numbers, else as PyTorch makes tensors."""
    model = nn.ParameterList([nn.Parameter(torch.ones(1, dtype=INT), requires_grad=False),
                              torch.ones(1, device="meta", dtype=HALF), torch.ones(1)])
    assert device_and_dtype(model) == (torch.device("meta"), HALF)
    for other in (anything, nn.Identity()):
        assert device_and_dtype(other) == (torch.device("cpu"), FLOAT)
    ((sizes, dtype),), _ = made((2,), model=nn.Linear(2, 2).double())
    assert (sizes, dtype) == ((2,), torch.float64)


DTYPES = [FLOAT, torch.float64, HALF, torch.bfloat16, torch.complex64, INT, torch.uint8, BOOL]


@given(st.sampled_from(DTYPES), st.integers(0, 100), st.integers(0, 100), st.integers(0, 1 << 20))
def test_random_numbers(dtype: torch.dtype, low: int, size: int, seed: int) -> None:
    """In their range, the same from the same generator, and from no other one."""
    low, high = (0, 1) if dtype is BOOL else (low, low + size)
    before = torch.get_rng_state()
    one, other = (
        random_tensor((3, 20), dtype, "cpu", torch.Generator().manual_seed(seed), low, high)
        for _ in range(2)
    )
    assert torch.equal(one, other) and one.dtype is dtype and one.shape == (3, 20)
    numbers = one.real.double() if dtype.is_complex else one.double()
    slack = high / 128 if dtype in (HALF, torch.bfloat16) else 0.001
    assert bool((numbers >= low - slack).all()) and bool((numbers <= high + slack).all())
    assert size < 20 or dtype is BOOL or float(numbers.max() - numbers.min()) > (high - low) / 3
    assert torch.equal(before, torch.get_rng_state())


def test_random_whole_numbers_reach_both_ends() -> None:
    """The largest is included."""
    numbers = random_tensor((200,), INT, "cpu", torch.Generator().manual_seed(0), 2, 4)
    assert numbers.unique().tolist() == [2, 3, 4]


def test_random_numbers_that_need_no_memory() -> None:
    """On the meta device."""
    found = random_tensor((1 << 40, 1 << 20), HALF, "meta", torch.Generator())
    assert found.is_meta and found.dtype is HALF and found.shape == (1 << 40, 1 << 20)


class Two(NamedTuple):
    """A tuple with names."""

    one: Tensor
    other: Tensor


def test_inputs_become_leaves() -> None:
    """Decimal and complex numbers that are none; in the memory of the user's, which stay."""
    plain, whole, leaf = torch.ones(2), torch.ones(2, dtype=INT), torch.ones(2, requires_grad=True)
    wave, pair = torch.ones(2, dtype=torch.complex64), Two(torch.ones(1), torch.ones(1))
    (first, listed, kept), named = as_leaf_dummies((plain, [whole, (leaf, 3)], pair), {
        "a": {"b": wave}, "c": plain})
    assert first is not plain and first.requires_grad and first.is_leaf
    assert first.data_ptr() == plain.data_ptr() and not plain.requires_grad
    assert listed[0] is whole and listed[1] == (leaf, 3) and listed[1][0] is leaf
    assert type(kept) is Two and kept.one.requires_grad and not pair.one.requires_grad
    assert named["c"] is first
    assert named["a"]["b"].requires_grad and named["a"]["b"].data_ptr() == wave.data_ptr()


def test_inputs_with_a_history_are_cut_from_it() -> None:
    """A backward pass ends at them; all others are the objects that were given."""
    leaf = torch.ones(2, requires_grad=True)
    args, kwargs = (leaf, X, [leaf]), {"a": leaf}
    assert detached(args, kwargs) == (args, kwargs) and detached(args, kwargs)[0] is args
    grown = leaf * 2
    (one, other), named = detached((leaf, [grown]), {"a": grown})
    assert one is leaf and other[0] is named["a"] is not grown
    assert other[0].is_leaf and other[0].requires_grad and torch.equal(other[0], grown)


@dataclass(frozen=True)
class Pair:
    """An object with two tensors."""

    one: Tensor
    other: Tensor


class Kept(dict[str, Tensor]):
    """A mapping with an attribute."""

    note = "none"


def boxes(grown: Tensor) -> list[Any]:
    """Containers of the standard library, and of the user's classes."""
    kept = Kept(one=grown)
    kept.note = "kept"
    many = defaultdict(list, one=[grown])
    return [
        Two(grown, X), OrderedDict(one=grown, other=X), many, Pair(grown, X), kept, [(grown, X)]
    ]


def test_inputs_in_any_container_are_cut_from_their_history() -> None:
    """Those stay what they are, and the user's objects have the same contents as before."""
    leaf = torch.ones(2, requires_grad=True)
    grown = leaf * 2
    given = boxes(grown)
    (found,), _ = detached((given,), {})
    assert [type(one) for one in found] == [type(one) for one in given]
    cut = [tensor for _, tensor in tensors_in(found) if tensor is not X]
    assert len(cut) == 6 and all(one is cut[0] for one in cut) and cut[0].is_leaf
    assert [tensor is X for _, tensor in tensors_in(given)].count(False) == 6
    assert found[4].note == "kept" and found[2]["new"] == []


def test_backward_does_not_go_through_the_graph_around_a_model() -> None:
    """Also if the tensor is in a named tuple."""

    class Reads(nn.Module):
        def forward(self, pair: Two) -> Tensor:
            return pair.one * pair.other

    leaf = torch.ones(2, requires_grad=True)
    grown = leaf.exp()
    torchrecorder.record(Reads(), (Two(grown, X.float()),), backward=True)
    assert leaf.grad is None
    grown.sum().backward()


def test_what_holds_no_exchanged_tensor_is_the_users() -> None:
    """A list beside an input with a history, that a model may append to."""
    grown, held = torch.ones(2, requires_grad=True) * 2, [X]
    (one, other), _ = detached((grown, held), {})
    assert one is not grown and other is held


def test_where_nothing_is_replaced_the_model_gets_the_users_objects() -> None:
    """A list that it appends to is that of the user, as in a plain run."""
    given: list[Any] = [torch.arange(2)]
    (found,), _ = as_leaf_dummies((given,), {})
    assert found is given


@pytest.mark.parametrize("dtype", [FLOAT, INT])
def test_random_inputs_under_a_default_device(dtype: torch.dtype) -> None:
    """A generator of the CPU draws them on the CPU; without parameters they go to the default."""
    with torch.device("meta"):
        assert device_and_dtype(anything)[0] == torch.device("meta")
        drawn = random_tensor((3,), dtype, "cpu", torch.Generator().manual_seed(0))
    assert drawn.device == torch.device("cpu") and drawn.dtype == dtype


class Lazy(dict[str, Any]):
    """A dict whose items are made when they are read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("read by the recorder")


@dataclass
class Computed:
    """A dataclass one field of which cannot be read yet."""

    x: Tensor
    late: Any = None

    def __getattribute__(self, name: str) -> Any:
        if name == "late":
            raise RuntimeError("read by the recorder")
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("make", [lambda x: Lazy(x=x), Computed])
def test_items_are_not_read_with_code_of_the_user(make: Any) -> None:
    """Neither ``__getitem__`` of a dict nor ``__getattribute__`` of a dataclass runs."""

    class Hands(nn.Module):
        def forward(self, given: Any) -> Any:
            return given

    recording = torchrecorder.record(nn.Sequential(Hands(), Hands()), (make(X),))
    assert not recording.run.lost
    assert [slot.name for slot in recording.scopes["s1"].inputs] == ["given.x"]
