"""What code that is not recorded may have read and written in a custom function, from the ops
around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from torchrecorder.capture.autograd.hidden_ops import FunctionInside, Unseen, last_inside
from torchrecorder.events import ValueId
from torchrecorder.testing import Builder

Steps = Callable[[Builder, ValueId, ValueId], ValueId]
"""What a function of two tensors does; gives its result."""


def inside_of(steps: Steps) -> tuple[FunctionInside, list[ValueId], ValueId, list[str]]:
    """The ops inside of a function, its arguments, its result, and the names of the ops."""
    run = Builder("Net")
    with run.scope("Net"):
        x, y = run.op("sin", run.input("x")), run.op("cos", run.input("y"))
        with run.scope("Function"):
            result = steps(run, x, y)
        run.op("exp", result)
    scope = next(each.id for each in run.recording().scopes.values() if each.name == "Function")
    place = next(number for number, event in enumerate(run.events)
                 if getattr(event, "name", "") == "Function")
    tape: Any = SimpleNamespace(events=run.events, last_functions={"Function": (scope, place)})
    assert last_inside(tape, "Other") is None
    found = last_inside(tape, "Function")
    assert found is not None and found.scope == scope
    return found, [x, y], result, [op.name for op in run.recording().ops.values()]


def unseen(steps: Steps, constants: Sequence[str] = ()) -> Unseen | None:
    """The inputs of code that is not recorded; values called so are constants."""
    found, given, result, _ = inside_of(steps)
    return found.unseen(result, given, lambda values: {*values} <= {*constants})


def handed_out(run: Builder, x: ValueId, y: ValueId) -> ValueId:
    """Both go to code that fills new memory."""
    for value in (x, y):
        run.op("numpy", value, outputs=0)
    made = run.op("empty_like", x)
    run.op("numpy", made, outputs=0)
    return made


def test_what_is_handed_out_is_read() -> None:
    """Except for the memory that is filled."""
    assert unseen(handed_out) == Unseen(inside_of(handed_out)[1], [])


@pytest.mark.parametrize("name", ["empty_like", "zeros_like", "new_zeros", "new_empty"])
def test_new_memory_depends_on_nothing(name: str) -> None:
    """It is only as large as an argument; other ops of an argument explain the result."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        return run.op(name, x)

    assert unseen(steps) == Unseen(inside_of(steps)[1], [])
    assert unseen(lambda run, x, y: run.op("resize_", x)) is None
    assert unseen(lambda run, x, y: run.op("sin", run.op(name, x))) is not None
    assert unseen(lambda run, x, y: run.op("add", run.op(name, x), y)) is None


def test_a_result_from_outside_is_explained() -> None:
    """No op inside made it."""
    assert unseen(lambda run, x, y: x) is None
    assert unseen(lambda run, x, y: run.constant()) is None


def test_constants_do_not_explain_a_result() -> None:
    """Other tensors from outside do."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        return run.op("add", run.op("empty"), run.constant())

    assert unseen(steps) is None
    assert unseen(steps, ["v5"]) == Unseen(inside_of(steps)[1], [])


@pytest.mark.parametrize("name", ["from_numpy", "tensor", "as_tensor", "frombuffer"])
def test_a_tensor_from_python_takes_the_result(name: str) -> None:
    """If it reads no tensor: then the op that makes it reads what was handed out."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        run.op("numpy", x, outputs=0)
        return run.op("reshape", run.op(name))

    found = unseen(steps)
    assert found is not None and found.read == inside_of(steps)[1]
    assert [op.name for op in found.taken_by] == [name]
    copied = unseen(lambda run, x, y: run.op(name, run.op("empty")))
    assert copied is not None and copied.taken_by == []


def test_a_copy_that_nothing_reads_again_is_read() -> None:
    """Code that is not recorded may know its address; it is read in place of the argument."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        kept, again = (run.op("copy_", x, writes=run.constant()) for _ in range(2))
        run.op("sin", again)
        assert (kept, again) == ("v5", "v7")
        return run.op("empty")

    found = unseen(steps)
    assert found is not None and found.read == ["v5", inside_of(steps)[1][1]]


def test_what_is_already_known_is_not_read() -> None:
    """What the result depends on, and arguments behind what was handed out."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        run.op("numpy", run.op("contiguous", x), outputs=0)
        return run.op("empty")

    inside, (x, y), _, _ = inside_of(steps)
    assert inside.read_unseen([x, y]) == ["v4", y]
    assert inside.read_unseen([x, y], known=["v4"]) == [x, y]


def test_ops_of_functions_inside_count() -> None:
    """Those around and after do not."""
    def steps(run: Builder, x: ValueId, y: ValueId) -> ValueId:
        with run.scope("inner"), run.scope("deeper"):
            run.op("numpy", run.op("neg", x), outputs=0)
        return run.op("empty")

    inside, given, _, names = inside_of(steps)
    assert inside.read_unseen([]) == ["v4"]
    assert inside.read_unseen(given) == ["v4", given[1]]
    assert names == ["sin", "cos", "neg", "numpy", "empty", "exp"]
