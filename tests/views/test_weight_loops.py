"""Lines that run for each weight of a model fold, although the weights have different shapes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.func import functional_call

import torchrecorder
from tests.callers import called
from tests.views.loops import X, loops, made, name_of, recorded, sent, squares, texts, view_of
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.view import BoxKind


def sum_of_squares(net: nn.Module) -> torch.Tensor:
    """In a loop, which passes the sum on."""
    total: torch.Tensor | int = 0
    for weight in net.parameters():
        total = total + weight.pow(2).sum()
    assert isinstance(total, torch.Tensor)
    return total


def test_a_sum_over_all_weights_is_one_loop() -> None:
    """The first term, which is added to the number 0, too."""
    net = made()
    view = view_of(recorded(net, lambda: (net(X).sum() + sum_of_squares(net)).backward()))
    assert loops(view) == [(["pow", "sum", "add"], 8)]
    assert not [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]


def test_the_terms_of_a_sum_over_all_weights_are_one_loop() -> None:
    net = made()
    view = view_of(recorded(net, lambda: (net(X).sum() + sum(squares(net))).backward()))
    assert loops(view) == [(["pow", "sum"], 8)]
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


def test_lines_out_of_a_loop_that_writes_weights_have_no_number_of_them() -> None:
    """Each reader is given its own."""
    net = made()

    def program() -> None:
        net(X)
        with torch.no_grad():
            for weight in net.parameters():
                weight.mul_(0.9)
        net(X)

    view = view_of(recorded(net, program))
    assert loops(view) == [(["mul_"], 8)]
    assert sent(view, "mul_") == [""] * 4


def test_buffers_are_copied_in_the_same_loop() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    kept = []

    def program() -> None:
        net(X)
        kept.append({name: weight.clone() for name, weight in net.state_dict().items()})
        net.load_state_dict(kept[0])

    assert loops(view_of(recorded(net, program))) == [(["clone"], 9)]


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


def test_copies_that_are_read_together_are_counted_for_one_model() -> None:
    """Averages over several models: each gives all of its weights, in an argument of its own."""
    net = made()

    def program() -> None:
        states = []
        for _ in range(3):
            net(X).sum()
            states.append(net.state_dict())
        together = {key: torch.stack([each[key] for each in states]) for key in states[0]}
        net.load_state_dict({key: each.mean(0) for key, each in together.items()})

    view = view_of(recorded(net, program))
    assert (["stack"], 8) in loops(view)
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
    assert loops(view) == [(["pow", "sum"], 4)]
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


@pytest.mark.parametrize("listed", [4, 6, 8])
def test_constants_of_a_list_and_others_are_all_drawn(listed: int) -> None:
    """In a loop that reads both; those of a list that is long enough are a box of their own."""
    model = nn.ModuleDict({"net": made()})
    masks = [torch.ones_like(weight) for weight in model.parameters()]
    model.masks = masks[:listed]

    def forward(x: torch.Tensor) -> torch.Tensor:
        total = x.sum()
        for _ in range(2):
            for weight, mask in zip(model.parameters(), masks):
                total = total + (weight * mask).sum()
        return total

    model.forward = forward
    view = view_of(torchrecorder.record(model, X))
    constants = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    members = [member for box in constants for member in box.members]
    assert len(members) == len({*members}) == len(masks)
    counts = [8] if listed == 4 else [listed, *(1 for _ in masks[listed:])]
    assert [box.count for box in constants] == counts


def test_constants_of_two_lines_are_two_boxes() -> None:
    """Also if both call the same operation; those that something else reads are not grouped."""
    net = made()
    masks, scales, others = (
        [torch.ones_like(weight) for weight in net.parameters()] for _ in range(3)
    )

    def program() -> torch.Tensor:
        found = []
        for _ in range(2):
            for weight, mask, scale, other in zip(net.parameters(), masks, scales, others):
                part = weight * mask
                part = part * scale
                part = part * other
                found.append(part.sum())
        return torch.stack(found) + sum(other.exp().sum() for other in others)

    view = view_of(recorded(net, program))
    constants = [box for box in view.boxes.values() if box.kind is BoxKind.CONSTANT]
    assert sorted(box.count for box in constants) == [*[1] * 8, 8, 8]


def test_weights_that_were_updated_may_have_any_shape() -> None:
    """The loop reads what the optimizer has written, and passes the sum on."""
    net = made()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def program() -> torch.Tensor:
        net(X).sum().backward()
        optimizer.step()
        return sum_of_squares(net)

    view = view_of(recorded(net, program))
    assert loops(view) == [(["pow", "sum", "add"], 8)]
    (loop,) = filter(is_block, view.clusters)
    assert len(view.clusters[loop].carried) == 1


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
    assert texts(view, called("mask", "constant")) == ["4×3 … [2]"]


def test_constants_that_each_round_writes_begin_before_the_loop() -> None:
    """The slow weights of a lookahead, or an average of weights that is kept in a list."""
    net = made()
    slow = [weight.detach().clone() for weight in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def program() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            net(X).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for weight, one in zip(net.parameters(), slow):
                    one.add_(weight - one, alpha=0.5)
                    weight.copy_(one)

    view = view_of(recorded(net, program))
    assert (["sub", "add_", "copy_"], 8) in loops(view)
    assert sorted(count for _, count in loops(view)) == [3, 8]


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
    (first, once), steps = found  # older versions detach the copy, not what is copied
    assert (sorted(first), once) == (["add_", "clone", "detach"], 8)
    assert steps == (["mul_", "add_", "add_"], 8)
    assert sent(view, first[1]) == ["4×3 … [2]", ""]
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
