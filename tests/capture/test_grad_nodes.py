"""Grad nodes by the names that PyTorch gives them, and what its metadata tells of results."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tests.zoo.case import leaf, net
from torchrecorder import record
from torchrecorder.capture.autograd.node_facts import name_of, op_name, output_facts
from torchrecorder.capture.internals.access import DisableTorchFunction


def node_name(operator: str) -> str:
    """The name that PyTorch's code generator makes from that of an operator."""
    base, copied = operator.removesuffix("_copy"), "_copy" * operator.endswith("_copy")
    return "".join(word.title() for word in base.split("_")) + "Backward0" + copied


def test_names_of_operators_are_found_again() -> None:
    """Of every operator with a node of its own, also with digits in its name."""
    nodes = {name for name in dir(torch._C._functions) if "Backward" in name}
    schemas = {schema.name for schema in torch._C._jit_get_all_schemas()}
    operators = {name.removeprefix("aten::") for name in schemas if name.startswith("aten::")}
    public = {name for name in operators if name.islower() and name.strip("_") == name}
    found = {name: op_name(node_name(name)) for name in public if node_name(name) in nodes}
    assert len(found) > 400
    assert {name: other for name, other in found.items() if name != other} == {}


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("AccumulateGrad", "AccumulateGrad"), ("CopyBackwards", "CopyBackwards"),
        ("MineBackward", "Mine"), ("SumBackward12", "sum"),
        ("MeanBackwardAutogradNestedTensor0", "mean"), ("FftC2RBackward1", "fft_c2r"),
    ],
)
def test_other_names(node: str, name: str) -> None:
    """Of functions of users and of what autograd adds, as they are."""
    assert op_name(node) == name


RESULTS = {
    "one": lambda x: x.exp(),
    "several": lambda x: x.split((2, 1), 1),
    "scalar": lambda x: x.sum(),
    "empty": lambda x: x[:0] * 2,
    "half": lambda x: x.half(),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_metadata_of_results(kind: str) -> None:
    """Shape, type, device and bytes, as the results themselves have them."""
    found = RESULTS[kind](torch.ones(2, 3, dtype=torch.float64, requires_grad=True))
    results = [found] if isinstance(found, Tensor) else list(found)
    told = output_facts(results[0].grad_fn)
    for (shape, dtype, device, size), result in zip(told, results):
        assert shape == tuple(result.shape) and getattr(torch, dtype) is result.dtype
        assert torch.device(device) == result.device and size == result.nbytes
    assert len(told) == len(results)


def graph_behind(tensor: Tensor) -> list[tuple[str, list[tuple[int, int] | None]]]:
    """The nodes behind a tensor, the last first: their names, and which they lead to."""
    numbers: dict[Any, int] = {tensor.grad_fn: 0}
    found: list[tuple[str, list[tuple[int, int] | None]]] = []
    for node in (walked := list(numbers)):
        led: list[tuple[int, int] | None] = []
        for parent, index in node.next_functions:
            if parent is not None and parent not in numbers:
                numbers[parent] = len(numbers)
                walked.append(parent)
            led.append((numbers[parent], index) if parent is not None else None)
        found.append((name_of(node), led))
    return found


def recorded_behind(recording: Any, value: Any) -> list[tuple[str, list[tuple[int, int] | None]]]:
    """The same of a recording."""
    numbers = {recording.values[value].grad.grad: 0}
    found: list[tuple[str, list[tuple[int, int] | None]]] = []
    for grad in (walked := list(numbers)):
        led: list[tuple[int, int] | None] = []
        for edge in recording.grad_nodes[grad].next:
            if edge is not None and edge.grad not in numbers:
                numbers[edge.grad] = len(numbers)
                walked.append(edge.grad)
            led.append((numbers[edge.grad], edge.index) if edge is not None else None)
        found.append((recording.grad_nodes[grad].name, led))
    return found


class Twice(torch.autograd.Function):
    """A function of the user's, with an argument that is no tensor and two results."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, by: int) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """By a number."""
        return x * by, x.clone()

    @staticmethod
    def backward(ctx: Any, one: Tensor, two: Tensor) -> Any:  # type: ignore[override]
        """Not run."""


def written(x: Tensor) -> Tensor:
    """Through a view, which gets its node when it is read."""
    whole = x * 2
    view = whole[0]
    whole.mul_(3)
    return view.exp().sum() + whole.sum()


def hidden(x: Tensor) -> Tensor:
    """No function mode is called for these."""
    with torch._C.DisableTorchFunction():
        return (x.sin() * x.cos() + x.sin().exp()).sum()


def unbound(x: Tensor) -> Tensor:
    """Of several results not all are used, and one twice."""
    one, _, three = x.unbind(1)
    return (three * three - one).sum()


GRAPHS = {
    "line": lambda x: x.sin().exp().sum(),
    "shared": lambda x: ((y := x.exp()) * y + y.sum()).sum(),
    "constant": lambda x: (torch.ones(3) * x + x.detach()).sum(),
    "results": unbound,
    "composite": lambda x: torch.nn.functional.softplus(x).std(0).norm(),
    "custom": lambda x: sum(Twice.apply(x * 1, 3)).sum(),
    "one of a custom function": lambda x: Twice.apply(x, 3)[1].sum(),
    "written": written,
    "hidden": lambda x: hidden(x * 2) * hidden(x),
    "all hidden": hidden,
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_the_recorded_graph_is_that_of_autograd(kind: str) -> None:
    """The same nodes, in the same order, with the same edges between the same results."""
    x = torch.arange(1.0, 7.0).view(2, 3).requires_grad_()
    recording = record(GRAPHS[kind], x)
    (output,) = recording.outputs
    wanted = graph_behind(GRAPHS[kind](x))
    assert recorded_behind(recording, output.value) == wanted
    replaced = kind == "written"  # the first node of the view, which nothing leads to any more
    assert len(recording.grad_nodes) == len(wanted) + replaced


STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sine": lambda one, other: one.sin(),
    "product": lambda one, other: one * other,
    "sum": lambda one, other: one + other,
    "passed on": lambda one, other: IDENTITY(one),
    "part": lambda one, other: one.unbind()[0] + other,
}
IDENTITY = nn.Identity()
PLACES = ("here", "in a pool", "in a new thread")
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(list(STEPS)), st.sampled_from(PLACES), st.integers(1, 4),
              st.integers(1, 4)), min_size=1, max_size=9)


def run(program: list[tuple[str, str, int, int]], *leaves: Tensor) -> Tensor:
    """Each step takes two of the last results, in this thread or in another one."""
    found = list(leaves)
    with ThreadPoolExecutor(1) as pool:
        for kind, place, one, other in program:
            args = found[-min(one, len(found))], found[-min(other, len(found))]
            if place == "in a pool":
                found.append(pool.submit(STEPS[kind], *args).result())
            elif place == "in a new thread":
                with ThreadPoolExecutor(1) as beside:
                    found.append(beside.submit(STEPS[kind], *args).result())
            else:
                found.append(STEPS[kind](*args))
    return found[-1] * found[-2]


@settings(max_examples=60)
@given(PROGRAMS)
def test_nodes_of_several_threads_are_distinguished(
    program: list[tuple[str, str, int, int]]
) -> None:
    """Although each thread counts its own: the graph is that of autograd in a plain run."""
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    recording = record(net(lambda self, *given: run(program, *given), inner=IDENTITY), (x, y))
    (output,) = recording.outputs
    assert recorded_behind(recording, output.value) == graph_behind(run(program, x, y))


class Unseen(nn.Module):
    """Uses its weight where no function mode is told."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        """A product that only autograd knows, and an operation after it."""
        with DisableTorchFunction():
            product = self.weight * x
        return product.exp()


def test_what_runs_unseen_reads_its_leaves() -> None:
    """The parameter and the input themselves, and no other values of their shapes."""
    recording = record(nn.Sequential(Unseen()), torch.ones(3, requires_grad=True))
    (hidden,) = [op for op in recording.ops.values() if op.kind == "hidden"]
    inputs = [recording.values[slot.value] for slot in hidden.inputs]
    assert [(item.role, item.names) for item in inputs] == [
        ("parameter", ("0.weight",)), ("input", ("input",)),
    ]
    (exp,) = [op for op in recording.ops.values() if op.name == "exp"]
    assert exp.inputs[0].value == hidden.outputs[0]


class Sine(torch.autograd.Function):
    """PyTorch gives its gradient a node without a number, which raises an error."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


def slope(x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad(Sine.apply(x).exp().sum(), x, create_graph=True)
    return gradient * 2


def test_node_without_a_number_inside_an_operator() -> None:
    """It is no leaf: behind it is the only tensor that the operator reads for the gradient."""
    with torch.library._scoped_library("slopes", "DEF") as library:
        library.define("slope(Tensor x) -> Tensor")
        library.impl("slope", slope, "CompositeImplicitAutograd")
        model = net(lambda self, x: torch.ops.slopes.slope(x * 3) + x)
        recording = record(model, leaf(3))
    nodes = recording.grad_nodes.values()
    leaves = [node for node in nodes if node.name == "AccumulateGrad"]
    assert all(node.variable is not None and node.owner is None for node in leaves)
    assert [node.name for node in nodes].count("Error") == 1
