"""Lines that run for each weight of a model fold, although the weights have different shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call

import torchrecorder
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import BoxKind, View

X = torch.ones(2, 3)


def made() -> nn.Sequential:
    """A model with eight weights of six shapes."""
    return nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 5), nn.Linear(5, 2)
    )


def recorded(net: nn.Module, program: Callable[[], object]) -> Recording:
    with torchrecorder.Recorder(net) as recorder:
        program()
    return recorder.recording


def view_of(recording: Recording, **options: Any) -> View:
    view = make_view(recording, ViewOptions(**options))
    view.check()
    drawn = [member for box in view.boxes.values() for member in box.members]
    assert len(drawn) == len(set(drawn))
    return view


def loops(view: View) -> list[tuple[list[str], int]]:
    """The names of the ops in each fold of ops, and how many times they ran."""
    return [
        ([name for box in view.boxes.values() if box.cluster == cluster.id
          if (name := name_of(view, box.id))], cluster.count)
        for cluster in view.clusters.values() if is_block(cluster.id)
    ]


def name_of(view: View, box: str) -> str:
    """The name of an op; empty for other boxes."""
    op = view.recording.ops.get(OpId(box))
    return op.name if op else ""


def texts(view: View, name: str) -> list[str]:
    """The lines of the boxes with this title."""
    labels = [shape.label for shape in draw(view, Style()).shapes]
    return [text.text for label in labels if label[0].text == name for text in label[1:]]


def sent(view: View, name: str) -> list[str]:
    """The labels of the lines from the boxes with this title."""
    figure = draw(view, Style())
    tails = {shape.id for shape in figure.shapes if shape.label[0].text == name}
    return [line.label for line in figure.lines if line.tail in tails]


def squares(net: nn.Module) -> Iterator[torch.Tensor]:
    return (weight.pow(2).sum() for weight in net.parameters())


def test_a_sum_over_all_weights_is_one_loop() -> None:
    """The first term is added to the number 0, and stands before the loop."""
    net = made()
    view = view_of(recorded(net, lambda: (net(X).sum() + sum(squares(net))).backward()))
    assert loops(view) == [(["pow", "sum", "add"], 7)]
    assert not [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]


def test_copies_of_all_weights_are_one_loop() -> None:
    """The loop shows the first and last shape, and what it reads the number of tensors."""
    net = made()

    def program() -> None:
        best = {name: weight.clone() for name, weight in net.state_dict().items()}
        net(X)
        net.load_state_dict(best)
        net(X)

    view = view_of(recorded(net, program))
    assert loops(view) == [(["clone"], 8)]
    assert sent(view, "clone") == ["4×3 … [2]"]
    assert sent(view, "state_dict") == ["8 tensors"]


def test_copies_in_each_round_are_counted_for_one_round() -> None:
    net = made()

    def program() -> None:
        for _ in range(3):
            net(X)
            best = {name: weight.clone() for name, weight in net.state_dict().items()}
            net.load_state_dict(best)

    view = view_of(recorded(net, program))
    assert (["clone"], 8) in loops(view)
    assert sent(view, "state_dict") == ["8 tensors"]


def test_parts_of_one_vector_are_a_loop() -> None:
    """Of all weights in a row, where each part has other bounds and becomes another shape."""
    net = made()

    def program() -> torch.Tensor:
        vector = nn.utils.parameters_to_vector(net.parameters())
        nn.utils.vector_to_parameters(vector * 0.9, net.parameters())
        found: torch.Tensor = net(X)
        return found

    view = view_of(recorded(net, program))
    assert [count for _, count in loops(view)] == [8, 8]


def test_weights_of_one_shape_are_not_drawn_either() -> None:
    net = nn.Sequential(*(nn.Linear(3, 3, bias=False) for _ in range(4)))
    view = view_of(recorded(net, lambda: (net(X), sum(squares(net)))))
    assert loops(view) == [(["pow", "sum", "add"], 3)]
    assert not [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]


def test_what_is_made_of_weights_may_have_readers_of_its_own() -> None:
    """A step of gradient descent whose results each another module reads."""
    net = made()

    def program() -> torch.Tensor:
        weights = dict(net.named_parameters())
        grads = torch.autograd.grad(net(X).sum(), list(weights.values()), create_graph=True)
        stepped = {
            name: weight - 0.1 * grad for (name, weight), grad in zip(weights.items(), grads)
        }
        found: torch.Tensor = functional_call(net, stepped, (X,))
        return found

    view = view_of(recorded(net, program))
    assert loops(view) == [(["mul", "sub"], 8)]
    loop = next(box for box in view.boxes.values() if name_of(view, box.id) == "sub")
    heads = {view.boxes[arrow.head].id for arrow in view.arrows if arrow.tail == loop.id}
    assert len(heads) == 4  # three linear layers, and the norm
    assert not [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]


def test_two_loops_that_follow_each_other() -> None:
    """The second reads what the first has made, weight for weight."""
    net = made()

    def program() -> torch.Tensor:
        grads = torch.autograd.grad(net(X).sum(), list(net.parameters()))
        noise = [torch.randn_like(weight) for weight in net.parameters()]
        return torch.stack([(one * other).sum() for one, other in zip(grads, noise)])

    view = view_of(recorded(net, program))
    assert loops(view) == [(["randn_like"], 8), (["mul", "sum"], 8)]
    first, second = (
        next(box.id for box in view.boxes.values() if name_of(view, box.id) == name)
        for name in ("randn_like", "mul")
    )
    assert [arrow.head for arrow in view.arrows if arrow.tail == first] == [second]


@pytest.mark.parametrize("fold", [True, False])
def test_constants_for_each_weight_are_one_box(fold: bool) -> None:
    """Those of one line: here a mask for each weight, and there what it should be."""
    net = made()
    masks = [torch.ones_like(weight) for weight in net.parameters()]
    goals = [torch.ones_like(weight) for weight in net.parameters()]

    def program() -> None:
        for _ in range(2):
            loss = net(X).sum()
            for weight, mask, goal in zip(net.parameters(), masks, goals):
                loss = loss + (mask * (weight - goal)).sum()
            loss.backward()

    view = view_of(recorded(net, program), fold=fold)
    constants = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    if not fold:
        assert len(constants) == 8 * 2
        return
    assert [(box.count, len(box.members)) for box in constants] == [(8, 8), (8, 8)]
    assert (["sub", "mul", "sum", "add"], 8) in loops(view)
    assert texts(view, "constants") == ["8 tensors", "8 tensors"]
    assert view.unfolded is not None
    opened = view.unfolded().view
    assert Counter(box.kind for box in opened.boxes.values())[BoxKind.CONSTANT] == 2
    assert {
        len({arrow.value for arrow in opened.arrows if arrow.tail == box.id}) for box in constants
    } == {1}  # one line for all tensors of a box


def test_constants_of_a_loop_that_runs_once_are_in_it() -> None:
    """Also their shapes are those of the first and last weight."""
    net = made()
    masks = [torch.ones_like(weight) for weight in net.parameters()]

    def program() -> None:
        loss = net(X).sum()
        for weight, mask in zip(net.parameters(), masks):
            loss = loss + (mask * weight).sum()
        loss.backward()

    view = view_of(recorded(net, program))
    (constant,) = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert constant.cluster is not None and is_block(constant.cluster)
    assert texts(view, "constant") == ["4×3 … [2]"]


def test_in_each_step_of_training() -> None:
    """The steps fold, and the loop in each of them: the norm of all gradients."""
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def program() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            net(X).sum().backward()
            total = torch.zeros(())
            for weight in net.parameters():
                total = total + weight.grad.norm() ** 2  # type: ignore[union-attr]
            optimizer.step()

    view = view_of(recorded(net, program))
    assert (["norm", "pow", "add"], 8) in loops(view)
    assert sorted(count for _, count in loops(view)) == [3, 8]


def test_an_optimizer_that_is_opened_shows_what_it_does_to_each_weight() -> None:
    """Each tensor has its shapes once, although the next step reads it, too."""
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=False)

    def program() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            net(X).sum().backward()
            optimizer.step()

    view = view_of(recorded(net, program), depth=9)
    found = [(names, count) for names, count in loops(view) if count == 8]
    assert found == [(["detach", "clone", "add_"], 8), (["mul_", "add_", "add_"], 8)]
    assert sent(view, "clone") == ["4×3 … [2]", ""]
    assert {*sent(view, "add_")} == {"4×3 … [2]", ""}


def test_state_from_before_the_run_is_one_tensor_for_each_weight() -> None:
    """Averages that the program updates, as an optimizer does with its state."""
    net = made()
    means = {name: weight.detach().clone() for name, weight in net.named_parameters()}

    def program() -> None:
        net(X)
        for name, weight in net.named_parameters():
            means[name].mul_(0.9).add_(weight.detach(), alpha=0.1)

    view = view_of(recorded(net, program))
    assert loops(view) == [(["mul_", "detach", "add_"], 8)]
    assert texts(view, "constant") == ["4×3 … [2]"]


def test_batches_of_different_sizes_are_no_weights() -> None:
    """They are constants, too, but only read."""
    net = made()
    batches = [torch.ones(number, 3) for number in (4, 4, 4, 2)]

    def program() -> None:
        for batch in batches:
            net(batch * 2)

    recording = recorded(net, program)
    assert not recording.weight_loops
    names = [name_of(view_of(recording), box) for box in view_of(recording).boxes]
    assert names.count("mul") == 2


def test_other_lines_are_other_loops() -> None:
    net = made()

    def program() -> torch.Tensor:
        found = [weight.exp().sum() for weight in net.parameters()]
        found += [weight.exp().sum() for weight in net.parameters()]
        return torch.stack(found)

    assert loops(view_of(recorded(net, program))) == [(["exp", "sum"], 8), (["exp", "sum"], 8)]


def test_equal_steps_of_a_weight_from_several_lines_still_fold() -> None:
    """A line that reads the same weight in each round is no loop over weights."""
    weight = nn.Parameter(torch.ones(3))

    def program() -> torch.Tensor:
        found = []
        for _ in range(2):
            one = weight.exp().sum()
            two = weight.exp().sum()
            four = weight.exp().sum()
            found += [one, two, four]
        return torch.stack(found)

    recording = torchrecorder.record(program)
    assert not recording.weight_loops
    assert loops(view_of(recording)) == [(["exp", "sum"], 6)]


def test_activations_of_different_shapes_do_not_fold() -> None:
    """Only weights, gradients, and what is made of these."""
    net = made()

    def program() -> torch.Tensor:
        sizes = [torch.ones(number, 3) for number in range(2, 10)]
        return torch.stack([net(size).exp().sum() for size in sizes])

    recording = recorded(net, program)
    assert not recording.weight_loops
    assert all(names != ["exp", "sum"] for names, _ in loops(view_of(recording)))


class Mixed(nn.Module):
    """Weighs its input with the sum of its own weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.ones(number, 2) for number in range(1, 6))
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = torch.stack([weight.softmax(-1).sum() for weight in self.weights])
        return self.layer(x) * kept.sum()  # type: ignore[no-any-return]


def test_weights_that_a_module_reads_itself_are_drawn() -> None:
    """They are inputs of the model as a class token is; its loop folds all the same."""
    view = view_of(torchrecorder.record(Mixed(), X), depth=9)
    assert loops(view) == [(["softmax", "sum"], 5)]
    assert sum(box.kind is BoxKind.PARAMETER for box in view.boxes.values()) == 5


def test_weights_of_a_model_that_did_not_run() -> None:
    net = made()
    view = view_of(torchrecorder.record(lambda: torch.stack([*squares(net)])))
    assert loops(view) == [(["pow", "sum"], 8)]
