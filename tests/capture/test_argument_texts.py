"""Arguments as text: what is written is read back by Python as what was passed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.nn import functional

import torchrecorder
from torchrecorder.capture.modes.arguments import sort_arguments
from torchrecorder.capture.modes.op_schema import FunctionFacts, facts_of

NUMBERS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False))
SLICES = st.builds(slice, *3 * [st.none() | st.integers(-9, 9)])
INDICES = st.lists(SLICES | st.just(...) | st.integers(), min_size=2, max_size=5)


class Read:
    """Gives what stands between brackets."""

    def __getitem__(self, key: Any) -> Any:
        return key


def sort(*args: Any, names: tuple[str, ...] = (), **kwargs: Any) -> tuple[Any, dict[str, str]]:
    """The tensors and the texts among the arguments."""
    tensors, plain = sort_arguments(FunctionFacts("f", "f", names), args, kwargs)
    return tensors, dict(plain)


def text(value: Any) -> str | None:
    """Of one argument that holds no tensor."""
    tensors, plain = sort(value)
    assert not tensors
    return plain.get("0")


def read(written: str) -> Any:
    """What Python reads, in a place where an index may stand."""
    return eval(f"read[{written}]", {"read": Read(), "inf": float("inf")})


@given(NUMBERS)
def test_numbers(value: Any) -> None:
    """Exactly as they are; nothing for what was not given."""
    written = text(value)
    assert (written is None) == (value is None)
    assert written is None or read(written) == value and type(read(written)) is type(value)


@given(st.lists(NUMBERS, max_size=3), st.sampled_from([tuple, list, torch.Size]))
def test_sequences_of_numbers(values: list[Any], kind: Any) -> None:
    """A tuple of them, whatever held them."""
    if kind is torch.Size:
        values = [number for number in values if type(number) is int and abs(number) < 1 << 60]
    assert read(text(kind(values)) or "") == tuple(values)


@given(SLICES)
def test_slices(value: slice) -> None:
    """As they are written between brackets."""
    assert read(text(value) or "") == value


@given(INDICES)
def test_several_indices(values: list[Any]) -> None:
    """In parentheses, which brackets do not need; what is long is cut, and says so."""
    written = text(tuple(values)) or ""
    if len(written) < 60 or written[-1] != "…":
        assert read(written[1:-1]) == tuple(values)
    else:
        whole = ", ".join(part for value in values for part in [text(value) or ""])
        assert f"({whole})".startswith(written[:-1]) and len(written) == 60


@pytest.mark.parametrize("value", [torch.float16, torch.int8, torch.complex64])
def test_types(value: torch.dtype) -> None:
    """By the names that they have in ``torch``."""
    assert getattr(torch, text(value) or "") is value


def test_devices_and_words() -> None:
    """Devices by their names, words in quotes, others not at all."""
    assert text(torch.device("cuda", 1)) == "cuda:1"
    assert read(text("it's") or "") == "it's"
    assert text(object()) is None and text([object()]) is None
    assert text({"one": object()}) is None and text({"one": 1}) == "{'one': 1}"


@pytest.mark.parametrize("size", [58, 59, 60, 200])
def test_long_words_are_cut(size: int) -> None:
    """At 60 letters, with a sign that something is missing."""
    written = text("a" * size) or ""
    assert written == (repr("a" * size) if size <= 58 else "'" + "a" * 58 + "…")


def test_long_sequences_are_left_out() -> None:
    """Of a list, 16 are shown; of a tuple of numbers, all."""
    assert read(text([7] * 16) or "") == (7,) * 16
    assert text([7] * 17) is None
    assert read(text(tuple(range(40))) or "") == tuple(range(40))


def test_tensors_have_the_names_of_their_parameters() -> None:
    """Or their places; in lists and dicts, with what holds them around."""
    x, y, z = torch.ones(1), torch.ones(2), torch.ones(3)

    def names(*args: Any, **kwargs: Any) -> list[tuple[str, Tensor]]:
        found: list[tuple[str, Tensor]] = sort(*args, names=("self", "other"), **kwargs)[0]
        return found

    def same(found: list[tuple[str, Tensor]], *wanted: tuple[str, Tensor]) -> bool:
        return len(found) == len(wanted) and all(
            name == other and one is each
            for (name, one), (other, each) in zip(found, wanted)
        )

    assert same(names(x, y, z), ("self", x), ("other", y), ("2", z))
    assert same(names(1, None, z, alpha=x), ("2", z), ("alpha", x))
    assert same(names([x, y], 2, last={"a": z}), ("self.0", x), ("self.1", y), ("last.a", z))
    assert sort([x, 3], 2, None, alpha=None, beta=True)[1] == {"1": "2", "beta": "True"}


@pytest.mark.parametrize("place", ["alone", "in a tuple"])
def test_tensors_in_slices_are_read(place: str) -> None:
    """Where they stand in the slice; their values are no part of the text."""
    start, step = torch.tensor(3), torch.tensor(2)
    ends = slice(start, None, step)
    tensors, plain = sort(ends if place == "alone" else (..., ends))
    prefix, around = ("0", "{}") if place == "alone" else ("0.1", "(..., {})")
    assert [name for name, _ in tensors] == [f"{prefix}.start", f"{prefix}.step"]
    assert tensors[0][1] is start and tensors[1][1] is step
    assert plain == {"0": around.format("tensor::tensor")}


def test_lists_and_tensors_in_an_index_are_told() -> None:
    """Lists with their numbers, in brackets as in the program; tensors as inputs of the operation.
    A list of tensors is no index, and has no text."""
    mask = torch.tensor([True, False])
    assert text((slice(None), [3, 1])) == "(:, [3, 1])"
    assert text(((1, 0), ...)) == "((1, 0), ...)"
    assert text(([0], [1])) == "([0], [1])"
    tensors, plain = sort((slice(None), mask))
    assert [name for name, _ in tensors] == ["0.1"] and plain == {"0": "(:, tensor)"}
    assert sort([mask, mask])[1] == {}
    assert text(([0], [list(range(20))])) is None


def test_ranges_and_arrays_in_an_index_are_told() -> None:
    """Short arrays of integers with their numbers, others by what they are; numbers of NumPy as
    those of Python. An array that is no index has no text."""
    numpy = pytest.importorskip("numpy")
    long = numpy.arange(50)
    assert text((slice(None), range(2))) == "(:, range(0, 2))" and text(range(1, 9, 2)) == (
        "range(1, 9, 2)"
    )
    assert text((slice(None), numpy.array([3, 1]))) == "(:, [3, 1])"
    assert text(numpy.array([True, False])) == "[True, False]"
    assert text((numpy.array([0, 1]), long)) == "([0, 1], array)" and text(long) == "array"
    assert text(numpy.int64(2)) == "2" and text((..., numpy.int32(2))) == "(..., 2)"
    assert text(numpy.float64(0.5)) == text(numpy.float32(0.5)) == "0.5"
    assert sort(long, names=("data",))[1] == {} and text(numpy.array(["a"])) == "array"

    def columns(order: Any) -> Any:
        return torchrecorder.record(lambda x: x[:, numpy.array(order)], torch.ones(2, 4))

    assert torchrecorder.compare(columns([0, 1]), columns([1, 0]))


ONE_PLACE = {
    "sort": (lambda x: x.sort(0, True), {"dim": "0", "descending": "True"}),
    "argsort": (lambda x: x.argsort(1, True), {"dim": "1", "descending": "True"}),
    "topk": (lambda x: x.topk(2, 1, False), {"k": "2", "dim": "1", "largest": "False"}),
    "std": (lambda x: x.std(0, False, True), {
        "dim": "0", "unbiased": "False", "keepdim": "True"
    }),
    "to": (lambda x: x.to(torch.float64), {"dtype": "float64"}),
    "to a device": (
        lambda x: x.to("cpu", torch.float64), {"device": "'cpu'", "dtype": "float64"}
    ),
    "type": (lambda x: x.type(torch.float64), {"dtype": "float64"}),
    "view": (lambda x: x.view(torch.int32), {"dtype": "int32"}),
    "view of one size": (lambda x: x.view(8), {"size": "8"}),
    "std of a dimension": (lambda x: x.std(1), {"dim": "1"}),
    "==": (lambda x: x == 1, {"other": "1"}),
    "|": (lambda x: x.bool() | True, {"other": "True"}),
    "index": (lambda x: x[:, 0], {"index": "(:, 0)"}),
    "einsum": (lambda x: torch.einsum("ij->j", x), {"equation": "'ij->j'"}),
    "new_tensor": (lambda x: x.new_tensor([1.0]), {"data": "(1.0,)"}),
    "scatter": (
        lambda x: x.scatter(0, torch.zeros(1, 4).long(), 1.0), {"dim": "0", "value": "1.0"}
    ),
    "cumsum": (lambda x: x.cumsum(1), {"dim": "1"}),
    "expand": (lambda x: x.expand(2, 4), {"size": "(2, 4)"}),
    "permute": (lambda x: x.permute(1, 0), {"dims": "(1, 0)"}),
    "expand to one size": (lambda x: x[0, 0].expand(3), {"size": "3"}),
    "zeros": (lambda x: torch.zeros(2, 3), {"size": "(2, 3)"}),
    "arange": (lambda x: torch.arange(8), {"end": "8"}),
    "arange of dtype": (
        lambda x: torch.arange(8, dtype=torch.int32), {"end": "8", "dtype": "int32"}
    ),
    "arange from": (lambda x: torch.arange(2, end=8), {"start": "2", "end": "8"}),
    "randint": (lambda x: torch.randint(9, (2,)), {"high": "9", "size": "(2,)"}),
    "randint from": (
        lambda x: torch.randint(1, 9, size=(2,)), {"low": "1", "high": "9", "size": "(2,)"}
    ),
    "**": (lambda x: x**2, {"exponent": "2"}),
    "method": (lambda x: x.polygamma(2), {"n": "2"}),
    "max_pool1d": (
        lambda x: functional.max_pool1d(x, 2, padding=1),
        {
            "kernel_size": "2", "padding": "1", "dilation": "1", "ceil_mode": "False",
            "return_indices": "False",
        },
    ),
}


@pytest.mark.parametrize(("function", "named"), ONE_PLACE.values(), ids=ONE_PLACE)
def test_arguments_without_names_have_those_of_all_overloads(function: Any, named: Any) -> None:
    """Where the overloads agree on the name of a place, or their number tells which one it is.
    Several integers for one place are a tuple."""
    recording = torchrecorder.record(function, torch.ones(2, 4))
    *_, op = recording.ops.values()
    assert dict(op.arguments) == named


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x, y: x == y, ["self", "other"]),
        (lambda x, y: x.bool() & y.bool(), ["self", "other"]),
        (torch.max, ["self", "other"]),
        (lambda x, y: x.where(y.bool(), y), ["self", "condition", "other"]),
        (lambda x, y: torch.where(x.bool(), x, y), ["condition", "self", "other"]),
        (lambda x, y: x.to(y.double()), ["self", "other"]),
        (lambda x, y: x[y.bool()], ["self", "index"]),
        (lambda x, y: x.__setitem__(0, y[0]), ["self", "value"]),
        (lambda x, y: torch.einsum("ij,ij->i", x, y), ["tensors.0", "tensors.1"]),
        (lambda x, y: torch.einsum("ij,ij->i", [x, y]), ["tensors.0", "tensors.1"]),
        (lambda x, y: torch.meshgrid(x[0], y[0], indexing="ij"), ["tensors.0", "tensors.1"]),
        (lambda x, y: torch.einsum(x, [0, 1], y, [0, 1]), ["tensors.0", "tensors.1"]),
    ],
)
def test_tensors_have_the_names_of_the_overload(function: Any, names: list[str]) -> None:
    """The overload is the one that PyTorch selects for them."""
    x, y = torch.ones(2, 4), torch.ones(2, 4)
    *_, op = torchrecorder.record(function, (x, y)).ops.values()
    assert [slot.name for slot in op.inputs] == names


class Sizes(NamedTuple):
    """A tuple class of the program."""

    rows: Any
    columns: Any


@pytest.mark.parametrize("kind", [lambda *items: [*items], lambda *items: items, Sizes])
def test_overloads_are_known_by_the_items_of_lists(kind: Any) -> None:
    """Also where the class of the list is that of an earlier call with other items."""
    overloads, x = facts_of(Tensor.view).overloads, torch.ones(6)
    assert overloads is not None
    for _ in range(2):
        assert overloads.names_of((x, kind(2, 3)), {}) == ("self", "size")
        assert overloads.names_of((x, kind("2", "3")), {}) == ()
        assert overloads.names_of((x,), {"size": kind(3, 2)}) == ("self", "size")
        assert overloads.names_of((x,), {"size": kind("3", "2")}) == ()


def test_a_window_at_a_random_place_has_lines_from_what_places_it() -> None:
    """As in the loops that cut batches out of one long text."""

    def window(text: Tensor, at: Tensor) -> Tensor:
        text = text.clone()
        text[at:at + 2] = 0
        return text[at:at + 4]

    recording = torchrecorder.record(window, (torch.arange(9), torch.tensor(3)))
    found = [op for op in recording.ops.values() if op.name in ("getitem", "setitem")]
    makers = [
        [recording.values[slot.value].producer for slot in op.inputs if slot.name != "2"]
        for op in found
    ]
    names = [[recording.ops[op].name if op else "input" for op in ops] for ops in makers]
    assert names == [["clone", "input", "add"], ["setitem", "input", "add"]]
    assert {op.name for op in recording.ops.values() if op.outputs} == {
        "clone", "add", "getitem", "setitem"
    }
    assert "unused" not in str(torchrecorder.make_dot(recording, depth="ops"))
