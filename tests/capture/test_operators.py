"""Operators between tensors and numbers, and operators with several results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from torchrecorder import record
from torchrecorder.capture.modes.op_schema import facts_of


@pytest.mark.parametrize(
    ("run", "number"),
    [
        (lambda x: x / 2, "other"),
        (lambda x: 2 / x, "self"),
        (lambda x: 2**x, "self"),
        (lambda x: x // 2, "other"),
        (lambda x: 2 // x, "self"),
        (lambda x: x % 2, "other"),
        (lambda x: 2 % x, "self"),
    ],
)
def test_on_which_side_a_number_stands(
    run: Callable[[torch.Tensor], torch.Tensor], number: str
) -> None:
    """A tensor on the right is the other argument, the number the first."""
    op = next(iter(record(run, torch.rand(2)).ops.values()))
    assert op.arguments == ((number, "2"),)
    assert [slot.name for slot in op.inputs] == ["self" if number == "other" else "other"]


RESULTS = ["".join(order) for size in (1, 2, 3) for order in permutations("xym", size)]


@pytest.fixture(scope="module")
def writing() -> Iterator[None]:
    """Operators that write both of their arguments, and return these and a new tensor."""

    def of(order: str) -> Callable[[Tensor, Tensor], Any]:
        def run(x: Tensor, y: Tensor) -> Any:
            made = x + y
            all_of = {"x": x.add_(1), "y": y.mul_(2), "m": made}
            results = tuple(all_of[name] for name in order)
            return results if len(results) > 1 else results[0]

        return run

    kinds = {"x": "Tensor(a!)", "y": "Tensor(b!)", "m": "Tensor"}
    library = torch.library.Library("writing", "FRAGMENT")
    for order in RESULTS:
        returned = ", ".join(kinds[name] for name in order)
        library.define(f"{order}(Tensor(a!) x, Tensor(b!) y) -> ({returned})")
        library.impl(order, of(order), "CompositeExplicitAutograd")
    yield
    library._destroy()


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize("order", RESULTS)
def test_results_are_in_the_order_in_which_they_are_returned(order: str) -> None:
    """Arguments that were written and new tensors alike; what is not returned comes after."""

    def forward(x: Tensor) -> list[Tensor]:
        first, second = x + 1, x * 2
        found = getattr(torch.ops.writing, order)(first, second)
        results = [found] if isinstance(found, Tensor) else found
        return [each.sin() for each in results]

    with torch.no_grad():
        first, second, op, *readers = record(forward, torch.ones(2)).ops.values()
    read = [slot.value for reader in readers for slot in reader.inputs]
    assert list(op.outputs[: len(order)]) == read and len(op.outputs) == len({*order, *"xy"})
    assert set(op.outputs) == {*op.writes, *read} and len(op.writes) == 2
    assert not {*op.outputs} & {*first.outputs, *second.outputs}


SCHEMAS = {"x": "Tensor(a!) x, Tensor y", "y": "Tensor x, Tensor(b!) y"}
SCHEMAS["xy"] = "Tensor(a!) x, Tensor(b!) y"


@pytest.mark.parametrize("name", ["write", "write_"])
@pytest.mark.parametrize("written", SCHEMAS)
def test_parts_of_one_memory_are_written_as_in_the_schema(name: str, written: str) -> None:
    """The parts share a version, and the name tells nothing of the second argument."""
    library = torch.library.Library("parts", "FRAGMENT")

    def run(x: Tensor, y: Tensor) -> None:
        for part in written:
            {"x": x, "y": y}[part].add_(1)

    library.define(f"{name}({SCHEMAS[written]}) -> ()")
    library.impl(name, run, "CompositeExplicitAutograd")

    def forward(x: Tensor) -> list[Tensor]:
        whole = x + 0
        first, second = whole[:2], whole[2:]
        getattr(torch.ops.parts, name)(first, second)
        return [first + 0, second + 0]

    before = torch.ones(4)
    with torch.no_grad():
        changed = "".join(
            part for part, now in zip("xy", forward(before)) if not torch.equal(now, before[:2])
        )
        recording = record(forward, before)
    library._destroy()
    (op,) = (op for op in recording.ops.values() if op.name == name)
    read = [reader.inputs[0].value for reader in list(recording.ops.values())[-2:]]
    assert changed == written
    assert "".join(part for part, value in zip("xy", read) if value in op.writes) == written
    assert len(op.writes) == len(written)


def test_an_operator_whose_name_says_nothing_has_its_namespace() -> None:
    """``forward`` could be anything; of a telling name, the operator alone is enough."""
    with torch.library._scoped_library("neuron_here", "DEF") as library:
        for name in ("forward", "spike"):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, torch.sin, "CompositeExplicitAutograd")
        of = torch.ops.neuron_here

        def run(x: Tensor) -> Tensor:
            return of.spike(of.forward.default(of.forward(x)))  # type: ignore[no-any-return]

        ops = record(run, torch.ones(2)).ops.values()
    assert [op.name for op in ops] == ["neuron_here_forward", "neuron_here_forward", "spike"]
    assert [op.qualname for op in ops][1:] == [
        "torch.ops.neuron_here.forward.default", "torch.ops.neuron_here.spike",
    ]


@pytest.mark.parametrize("function", [torch.add, Tensor.add, torch.nn.functional.softmax])
def test_functions_of_pytorch_are_looked_at_once(function: Any) -> None:
    """For all runs: that takes longer than to record a call."""
    assert facts_of(function) is facts_of(function)


def test_functions_of_others_are_released() -> None:
    """What is known of them is not kept with them after the run."""

    def own(x: Tensor) -> Tensor:
        return x

    assert facts_of(own).name == "own"
    ref = weakref.ref(own)
    del own
    assert ref() is None
