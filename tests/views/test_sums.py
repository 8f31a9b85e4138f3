"""A sum that Python adds up is one box."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import nn

import torchrecorder
from tests.views.loops import loops, name_of, view_of
from torchrecorder import drawing
from torchrecorder.events import SUM
from torchrecorder.graph.consistency import problems
from torchrecorder.recording import Recording
from torchrecorder.select.functions import WithFunctions
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.auto_depth import innermost, plain_modules
from torchrecorder.views.view import View


class Losses(nn.Module):
    """Returns a mapping with three losses."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        found = self.trunk(x)
        return {"cls": found.mean(), "box": found.abs().sum(), "mask": found.square().mean()}


def by_sum(losses: Mapping[str, torch.Tensor]) -> torch.Tensor:
    total = sum(losses.values())
    assert isinstance(total, torch.Tensor)
    return total


def by_loop(losses: Mapping[str, torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor | float = 0.0
    for loss in losses.values():
        total = total + loss
    assert isinstance(total, torch.Tensor)
    return total


def in_place(losses: Mapping[str, torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor | int = 0
    for loss in losses.values():
        total += loss
    assert isinstance(total, torch.Tensor)
    return total


def of(total: Callable[[Mapping[str, torch.Tensor]], torch.Tensor]) -> Recording:
    """A run of a model and the sum of its losses."""
    net = Losses()
    return torchrecorder.record(lambda x: total(net(x)), torch.ones(1, 3))


def sums(view: View) -> list[str]:
    """The boxes of sums."""
    scopes = view.recording.scopes
    return [box for box in view.boxes if box in scopes and scopes[box].cls == SUM]


def titled(view: View) -> list[str]:
    """The text on the boxes of sums."""
    shapes = {shape.id: shape for shape in draw(view, Style()).shapes}
    return [text.text for box in sums(view) for text in shapes[box].label]


@pytest.mark.parametrize("total", [by_sum, by_loop, in_place])
@pytest.mark.parametrize("depth", [None, 1])
def test_it_is_one_box(
    total: Callable[[Mapping[str, torch.Tensor]], torch.Tensor], depth: int | None
) -> None:
    """All losses lead to it, and it to the output."""
    view = view_of(of(total), depth=depth)
    (box,) = sums(view)
    assert not any(name_of(view, item).startswith(("add", "iadd")) for item in view.boxes)
    entering = [arrow for arrow in view.arrows if arrow.head == box]
    made_in = {arrow.value: view.recording.values[arrow.value].producer for arrow in entering}
    assert sorted(name_of(view, op) for op in made_in.values()) == ["mean", "mean", "sum"]
    assert [arrow.slot for arrow in entering] == ["iterable.0", "iterable.1", "iterable.2"]
    assert [arrow.head for arrow in view.arrows if arrow.tail == box] == ["out:0"]
    assert titled(view) == ["sum"]


def test_the_recording_has_the_additions_and_a_figure_of_all_operations_shows_them():
    recording = of(by_sum)
    assert [op.name for op in recording.ops.values()].count("add") == 3
    assert not any(scope.cls == SUM for scope in recording.scopes.values())
    for options in ({"depth": "ops"}, {"functions": False}):
        view = view_of(recording, **options)
        assert [name_of(view, box) for box in view.boxes].count("add") == 3 and not sums(view)


def test_the_page_can_open_it():
    view = drawing.view(of(by_sum), depth=1)
    opened = view.unfolded().view
    (closed,) = sums(view)
    assert closed in opened.clusters
    assert sum(box.cluster == closed for box in opened.boxes.values()) == 3


def test_the_recording_with_the_scope_is_consistent():
    recording = WithFunctions()(of(by_sum))
    (scope,) = [one for one in recording.scopes.values() if one.cls == SUM]
    assert not [*problems(recording)] and scope.path == "sum"
    assert len(scope.outputs) == 1 and len(scope.inputs) == 3


def test_it_is_inside_the_function_that_ran_it():
    """Which is closed, as it runs nothing else."""
    net = Losses()

    def total_of(losses: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return by_sum(losses) / 3

    def program(x: torch.Tensor) -> torch.Tensor:
        return total_of(net(x)).relu() * 2

    recording = torchrecorder.record(program, torch.ones(1, 3))
    found = WithFunctions(True)(recording).scopes
    (scope,) = [one for one in found.values() if one.cls == SUM]
    assert found[scope.parent].name == "by_sum"
    assert scope.parent in view_of(recording, functions=True, depth=3).boxes


def test_a_sum_that_nothing_reads_is_one_box_too():
    view = view_of(torchrecorder.record(lambda x: (by_loop({"a": x, "b": x.exp()}), x)[1],
                                        torch.ones(2)))
    assert len(sums(view)) == 1


def test_a_module_with_a_sum_has_no_scopes_to_open():
    """A figure with many boxes closes it, as other modules of a few operations."""

    class Summed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = sum((x, x, x))
            assert isinstance(total, torch.Tensor)
            return total

    recording = WithFunctions()(torchrecorder.record(nn.Sequential(Summed()), torch.ones(2)))
    (inner,) = [scope.id for scope in recording.scopes.values() if scope.cls == "Summed"]
    assert innermost(recording) == plain_modules(recording, frozenset()) == {inner}


def test_a_module_with_a_sum_and_an_operation_is_worth_opening():
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            total = sum((x, x + 1))
            assert isinstance(total, torch.Tensor)
            return total

    recording = WithFunctions()(torchrecorder.record(nn.Sequential(Scaled()), torch.ones(2)))
    assert innermost(recording) and not plain_modules(recording, frozenset())


def test_what_only_it_reads_can_fold():
    """Equal terms, side by side."""
    nets = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def program(x: torch.Tensor) -> torch.Tensor:
        terms = [net(x) for net in nets]
        total = sum(terms)
        assert isinstance(total, torch.Tensor)
        return total / len(nets)

    view = view_of(torchrecorder.record(program, torch.ones(1, 3)))
    assert sorted(box.count for box in view.boxes.values()) == [1, 1, 1, 1, 4]
    assert len(sums(view)) == 1


def from_the_first(terms: list[torch.Tensor]) -> torch.Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def into_the_first(terms: list[torch.Tensor]) -> torch.Tensor:
    total = terms[0]
    for term in terms[1:]:
        total += term
    return total


def by_reduce(terms: list[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(torch.add, terms)


@pytest.mark.parametrize("total", [from_the_first, into_the_first, by_reduce])
def test_a_sum_may_begin_with_its_first_term(
    total: Callable[[list[torch.Tensor]], torch.Tensor]
) -> None:
    """If it has more terms than programs write one by one."""
    nets = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def program(x: torch.Tensor, number: int) -> torch.Tensor:
        return total([net(x) for net in nets[:number]]) / 2

    view = view_of(torchrecorder.record(program, (torch.ones(1, 3), 4)))
    (box,) = sums(view)
    assert sorted(box.count for box in view.boxes.values()) == [1, 1, 1, 1, 4]
    assert sum(member in view.recording.ops for member in view.boxes[box].members) == 3
    assert not sums(view_of(torchrecorder.record(program, (torch.ones(1, 3), 3))))


def of_generator(net: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    total = sum(branch(x) for branch in net)
    assert isinstance(total, torch.Tensor)
    return total


def of_calls(net: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    def term(branch: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return branch(x.cos())

    total = sum(term(branch, x)
                for branch in net)
    assert isinstance(total, torch.Tensor)
    return total


def of_sums(net: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    total = sum(sum(branch(part) for part in (x, x.exp())) for branch in net)
    assert isinstance(total, torch.Tensor)
    return total


@pytest.mark.parametrize("total, count", [(of_generator, 1), (of_calls, 1), (of_sums, 5)])
@pytest.mark.parametrize("functions", [None, True])
def test_the_terms_of_a_generator_expression_are_beside_each_other(
    total: Callable[[nn.ModuleList, torch.Tensor], torch.Tensor], count: int, functions: bool | None
) -> None:
    """Also if Python adds each of them before it computes the next."""
    nets = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
    recording = torchrecorder.record(lambda x: total(nets, x), torch.ones(1, 3))
    grouped = WithFunctions(functions)(recording)
    added = [scope for scope in grouped.scopes.values() if scope.cls == SUM]
    assert len(added) == count and not [*problems(grouped)]
    (last,) = {slot.value for slot in recording.outputs}
    final = next(scope for scope in added if last in [slot.value for slot in scope.outputs])
    assert [slot.name for slot in final.inputs] == [f"iterable.{place}" for place in range(4)]
    assert {len(recording.consumers[slot.value]) for slot in final.inputs} == {1}
    view = view_of(recording, functions=functions, fold=False)
    assert not any(name_of(view, box) == "add" for box in view.boxes)
    view = view_of(recording, functions=functions)
    assert 4 in {part.count for part in (*view.boxes.values(), *view.clusters.values())}
    (box,) = [box for box in sums(view) if final.id in view.boxes[box].members]
    assert [*view.boxes].index(box) == len(view.boxes) - 2  # before the output


def test_a_sum_that_is_added_to_something_on_its_line_is_a_box_of_its_own():
    view = view_of(torchrecorder.record(lambda x, y: x + sum((y, y.exp(), y.cos())),
                                        (torch.ones(2), torch.ones(2))))
    (box,) = sums(view)
    assert len([arrow for arrow in view.arrows if arrow.head == box]) == 3


def test_steps_with_a_sum_are_one_loop():
    net = Losses()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with torchrecorder.Recorder() as recorder:
        for _ in range(3):
            total = by_sum(net(torch.rand(1, 3)))
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
    view = view_of(recorder.recording)
    assert [count for _, count in loops(view)] == [3]
    (box,) = sums(view)
    assert view.boxes[box].count == 1


def sum_read_between(terms: list[torch.Tensor]) -> torch.Tensor:
    partial = 0 + terms[0]
    kept = [partial := partial + term for term in terms[1:]]
    return torch.stack(kept)


def sum_with_other_steps(terms: list[torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor | int = 0
    for term in terms:
        total = total + term.exp()
    assert isinstance(total, torch.Tensor)
    return total


def sum_in_a_loop(terms: list[torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor | int = 0
    for term in terms: total = total + [*(part.exp() for part in (term,))][0].cos()  # noqa
    assert isinstance(total, torch.Tensor)
    return total


def sum_of_one(terms: list[torch.Tensor]) -> torch.Tensor:
    total = sum(terms[:1])
    assert isinstance(total, torch.Tensor)
    return total.exp()


def sum_of_tensors(terms: list[torch.Tensor]) -> torch.Tensor:
    return terms[0] + terms[1] + terms[2]


def sum_with_a_number(terms: list[torch.Tensor]) -> torch.Tensor:
    return terms[0] + terms[1] + 1 + terms[2] + 2


def sum_of_twice(terms: list[torch.Tensor]) -> torch.Tensor:
    total: torch.Tensor | int = 0
    for _ in range(3):
        total = (total + terms[0]) + total
    assert isinstance(total, torch.Tensor)
    return total


def sum_of_others_on_a_line(terms: list[torch.Tensor]) -> torch.Tensor:
    return (0 + terms[0]) * terms[1]


def cumulative(terms: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    total, kept = 0, []
    for term in terms:
        total = total + term
        kept.append(total)
    return tuple(kept)


@pytest.mark.parametrize(
    "program",
    [
        sum_read_between, sum_with_other_steps, sum_in_a_loop, sum_of_one, sum_of_tensors,
        sum_with_a_number, sum_of_twice, sum_of_others_on_a_line, cumulative,
    ],
)
def test_what_is_no_such_sum_is_drawn_as_it_is(program: Callable[..., object]) -> None:
    """Something ran between the additions or read them; or the program wrote them one by one."""
    terms = [torch.rand(2) for _ in range(3)]
    view = view_of(torchrecorder.record(program, (terms,)))
    assert not sums(view)
