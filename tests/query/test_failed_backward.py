"""Why a backward pass failed: for each way in which PyTorch refuses one, against the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd.function import once_differentiable

import torchrecorder as tr
from torchrecorder.graph.nodes import Op


class Square(torch.autograd.Function):
    """Saves its argument."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * a

    @staticmethod
    def backward(ctx, given):
        (a,) = ctx.saved_tensors
        return 2 * a * given


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


def argument(model: nn.Module) -> None:
    y = model[0](torch.ones(2, 4)).sigmoid()
    z = model[1](y)  # reads
    y.add_(1)  # writes
    z.sum().backward()


def result(model: nn.Module) -> None:
    y = model(torch.ones(2, 4)).exp()  # reads
    z = y.sum()
    y.mul_(2)  # writes
    z.backward()


def part(model: nn.Module) -> None:
    y = model(torch.ones(2, 4))
    z = y * y  # reads
    y.data.mul_(2)
    y[0] = 0  # writes
    z.sum().backward()


def step(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one = model(torch.ones(2, 4)).sum()
    two = model[1](model[0](torch.ones(2, 4))).sum()  # reads
    one.backward()
    optimizer.step()  # writes
    two.backward()


def custom(model: nn.Module) -> None:
    y = model(torch.ones(2, 4))
    z = Square.apply(y)  # reads
    y.sub_(1)  # writes
    z.sum().backward()


MODIFIED = {
    argument: "saved its argument 'input', the result of sigmoid",
    result: "saved its result for backward",
    part: "saved its argument 'self', the result of",
    step: "saved 1.weight for backward",
    custom: "autograd.Function Square at",
}


def twice(model: nn.Module) -> None:
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()  # reads
    loss.backward()


def carried(model: nn.Module) -> None:
    state = torch.zeros(2, 4)
    for _ in range(2):
        state = model(torch.ones(2, 4)).tanh() + state  # writes
        state.sum().backward()  # reads


def generator(model: nn.Module) -> None:
    fake = model[0](torch.ones(2, 4))
    model[1](fake).sum().backward()  # reads
    model[1](fake).mean().backward()  # writes


def packed(model: nn.Module) -> None:
    lstm, state = nn.LSTM(4, 4), None
    for _ in range(2):
        result, state = lstm(torch.ones(3, 1, 4), state)  # writes
        result.sum().backward()  # reads


FREED = {
    twice: None,
    carried: "'other', the result of add",
    generator: "'input', the result of li",
    packed: "the result of lstm",
}


def detached(model: nn.Module) -> None:
    y = model(torch.ones(2, 4)).detach()  # reads
    y.sum().backward()


def without_grad(model: nn.Module) -> None:
    with torch.no_grad():
        y = model[1](torch.ones(2, 4))  # reads
    y.sum().backward()


def whole_number(model: nn.Module) -> None:
    model(torch.ones(2, 4)).argmax().float().backward()  # reads


def indices(model: nn.Module) -> None:
    _, order = model(torch.ones(2, 4)).topk(2)  # reads
    order.float().sum().backward()


def second(model: nn.Module) -> None:
    one = model[0](torch.ones(2, 4)).sum()
    two = model(torch.ones(2, 4)).sum().detach()  # reads
    torch.autograd.grad([one, two], model[0].weight)


LEFT = {
    detached: "the same numbers without their autograd history",
    without_grad: "it runs under no_grad",
    whole_number: "its result is int64",
    indices: "its result is int64",
    second: "the same numbers without their autograd history",
}


def failed(
    program: Callable[[nn.Module], None], model: nn.Module | None = None
) -> tuple[tr.Recording, RuntimeError]:
    """The recording of a program whose backward pass fails, and its exception."""
    model = model or layers()
    with pytest.raises(RuntimeError) as caught, tr.Recorder(model) as recorder:
        program(model)
    return recorder.recording, caught.value


def line(program: Callable[[nn.Module], None], mark: str) -> str:
    """The line of a program with a mark in its comment."""
    text, first = inspect.getsourcelines(program)
    (found,) = [number for number, row in enumerate(text, first) if f"# {mark}" in row]
    return f"{Path(__file__).name}:{found}"


def lines(ops: Sequence[Op]) -> set[str]:
    """The lines that called these operations, without the folder."""
    return {op.source.place.rpartition("/")[2] for op in ops if op.source is not None}


@pytest.mark.parametrize("program", MODIFIED, ids=lambda item: item.__name__)
def test_what_wrote_to_a_saved_tensor(program):
    """The operation that saved it and the first that wrote to it, each with its line."""
    recording, _ = failed(program)
    why = recording.why_backward_failed()
    assert why.reason == "modified in place" and MODIFIED[program] in str(why)
    before, _, after = str(why).partition(" for backward, and ")
    assert line(program, "reads") in before and line(program, "writes") in after
    saver, *writers = why.ops
    assert saver.id == recording.run.failure.op
    assert lines(writers) == {line(program, "writes")}


def test_writes_before_the_read_are_none():
    """Only what was written since the operation ran, and to the same memory."""
    def program(model):
        y = model(torch.ones(2, 4))
        y.add_(1)
        other = torch.ones(2, 4)
        z = y.sigmoid()
        other.add_(1)
        z.mul_(2)
        z.sum().backward()

    why = failed(program)[0].why_backward_failed()
    assert [op.name for op in why.ops] == ["sigmoid", "mul_"]


def test_advice_on_writes():
    """A step of an optimizer came too early; other writes can be avoided."""
    assert "before the step of the optimizer" in str(failed(step)[0].why_backward_failed())
    assert "write to a clone()" in str(failed(argument)[0].why_backward_failed())


def test_only_a_tensor_of_the_size_in_the_message_is_meant():
    """The step wrote to the bias of the layer, too, which is saved for nothing."""
    why = failed(step)[0].why_backward_failed()
    assert [op.name for op in why.ops] == ["linear", "add_"] and "more)" not in str(why)


def test_writers_are_counted():
    """The first of several, and how many more there are."""
    def program(model):
        y = model(torch.ones(2, 4)).exp()
        z = y.sum()
        for _ in range(3):
            y.mul_(2)
        z.backward()

    why = failed(program)[0].why_backward_failed()
    assert "(and 2 more)" in str(why) and len(why.ops) == 4


@pytest.mark.parametrize("program", FREED, ids=lambda item: item.__name__)
def test_what_freed_the_graph(program):
    """The earlier call, and what read a result from before it."""
    why = failed(program)[0].why_backward_failed()
    assert why.reason == "graph freed" and "retain_graph=True" in str(why)
    first, *readers = why.ops
    assert lines([first]) == {line(program, "reads")}
    if FREED[program] is None:
        assert not readers and "call backward() once" in str(why)
    else:
        assert lines(readers) == {line(program, "writes")}
        assert FREED[program] in str(why) and "detach() it" in str(why)


@pytest.mark.parametrize("program", LEFT, ids=lambda item: item.__name__)
def test_where_the_graph_is_left(program):
    """The last operation that has a gradient to give and gives none, and why."""
    why = failed(program)[0].why_backward_failed()
    assert why.reason == "no graph" and LEFT[program] in str(why)
    assert lines(why.ops[-1:]) == {line(program, "reads")} and why.ops[-1].name in str(why)


def test_frozen_weights_have_no_graph():
    """They are counted; no operation is to blame."""
    def program(model):
        model[1](torch.ones(2, 4)).sum().backward()

    why = failed(program, layers().requires_grad_(False))[0].why_backward_failed()
    assert why.reason == "no graph" and not why.ops
    assert "do not require grad, among them 2 frozen parameters" in str(why)


def test_a_new_tensor_has_no_graph():
    """A loss that was made from a number."""
    def program(model):
        torch.tensor(model(torch.ones(2, 4)).sum().item()).backward()

    why = failed(program)[0].why_backward_failed()
    assert why.reason == "no graph" and str(why).startswith("tensor() at ")


def test_gradients_have_no_graph():
    """Unless `create_graph=True` was given; a gradient penalty needs it."""
    def program(model):
        x = torch.ones(2, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(model(x).sum(), x)
        gradient.norm().backward()

    why = failed(program)[0].why_backward_failed()
    assert why.reason == "no graph" and not why.ops
    assert str(why).startswith("grad() at ") and str(why).endswith("pass create_graph=True")


class Once(Square):
    """Its gradient depends on the input, but has no graph."""

    backward = staticmethod(once_differentiable(Square.backward))


@pytest.mark.parametrize(("function", "cause"), [
    (lambda x: 3 * x, "what they were taken of is linear"),
    (Once.apply, "the backward of Once made none, because it is marked as once_differentiable"),
], ids=["linear", "once differentiable"])
def test_gradients_that_have_no_graph_although_one_was_asked_for(function, cause):
    """A gradient penalty with ``create_graph=True``, whose gradient does not require grad."""
    def program(model):
        x = torch.ones(2, 4, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        assert not gradient.requires_grad
        gradient.norm().backward()

    why = str(failed(program)[0].why_backward_failed())
    assert why.startswith("grad() at ") and cause in why and "create_graph" not in why


def test_tensors_that_are_not_in_the_graph():
    """By name, or by their place among the arguments."""
    def program(model):
        x = torch.ones(2, 4, requires_grad=True)
        apart = torch.ones(2, requires_grad=True)
        wanted = [model[1].weight, x, apart, model[0].weight]
        torch.autograd.grad(model[0](x).sum(), wanted)

    why = failed(program)[0].why_backward_failed()
    assert why.reason == "not in the graph"
    assert "does not depend on 1.weight and inputs[2]:" in str(why)


def test_the_exception_has_the_cause(tmp_path):
    """A second note after the one with the place; the summary and the page have it too."""
    recording, error = failed(argument)
    place, cause = error.__notes__
    assert place.startswith("torchrecorder: in backward, while running `AddmmBackward0`")
    assert cause == f"torchrecorder: {recording.why_backward_failed()}"
    assert f"Cause: {recording.why_backward_failed()}" in recording.summary().splitlines()
    page = recording.render(tmp_path / "page.html").read_text(encoding="utf-8")
    assert str(recording.why_backward_failed()) in page


def texts(recording: tr.Recording, **options: Any) -> list[str]:
    """What a figure writes on each box, as one line."""
    shapes = tr.figure(recording, fold=False, **options).shapes
    return [" ".join(line.text for line in shape.label) for shape in shapes]


MARKS = {
    part: ["mul in backward: RuntimeError: a tensor that it saved", "setitem", "what mul saved"],
    generator: ["backward freed the graph", "reads a result of the freed graph"],
    without_grad: ["linear autograd is left", ": the tensor has no autograd"],
}


@pytest.mark.parametrize("program", MARKS, ids=lambda item: item.__name__)
def test_figures_mark_the_operations_at_fault(program):
    """Each says what it did, once, in the colors of what failed."""
    recording, _ = failed(program)
    written = texts(recording, depth=9)
    for mark in MARKS[program]:
        assert sum(mark in text for text in written) == 1, (mark, written)
    looks = {shape.id: shape.look for shape in tr.figure(recording, depth=9, fold=False).shapes}
    (call,) = {run.op for run in recording.backward_runs if run.failed}
    ops = [*recording.why_backward_failed().captions, recording.run.failure.op, call]
    assert len({looks[op].stroke for op in ops}) == 1
    assert sum(look.stroke == looks[ops[0]].stroke for look in looks.values()) == len(set(ops))


def test_closed_modules_show_that_their_backward_failed():
    """The operation in them does, with the error, where it is drawn."""
    recording, _ = failed(generator)
    closed, opened = texts(recording, depth=0), texts(recording, depth=9)
    assert sum("failed in backward" in text for text in closed) == 1
    assert not any("failed in backward" in text for text in opened)
    assert sum("in backward: RuntimeError" in text for text in opened) == 1


def test_no_cause_where_none_is_known():
    """Other failures in backward, failures in forward, and runs that did not fail."""
    def not_scalar(model):
        model(torch.ones(2, 4)).backward()

    def forward(model):
        model(torch.ones(2, 5))

    for program in (not_scalar, forward):
        recording, _ = failed(program)
        assert recording.why_backward_failed() is None
        assert "Cause:" not in recording.summary()
    assert tr.record(layers(), torch.ones(2, 4)).why_backward_failed() is None


def test_a_saved_recording_has_it(tmp_path):
    """The cause follows from what is recorded."""
    recording, _ = failed(carried)
    loaded = tr.load(recording.save(tmp_path / "run.json"))
    assert loaded.why_backward_failed() == recording.why_backward_failed()
