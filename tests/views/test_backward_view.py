"""The backward view, on a training step written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import torchrecorder
from tests.stepped import doubled, stepped
from torchrecorder.errors import InvalidArgument, NothingFound
from torchrecorder.export.page_data.data import page_data
from torchrecorder.style.color import scale
from torchrecorder.style.draw import draw
from torchrecorder.style.style import Style
from torchrecorder.style.themes import LIGHT, THEMES
from torchrecorder.views.backward import backward_view
from torchrecorder.views.collapse import Collapse
from torchrecorder.views.expand_ops import open_ops
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tensors import show_tensors
from torchrecorder.views.view import BoxKind


def lines(figure):
    """The lines on each shape."""
    return {shape.id: [text.text for text in shape.label] for shape in figure.shapes}


def test_boxes_are_grad_nodes_in_the_order_in_which_they_ran():
    """And what a gradient is added to is drawn as what it is."""
    view = backward_view(stepped())
    view.check()
    assert list(view.boxes) == ["g4", "g3", "v3", "g1", "v1"]
    assert view.boxes["v3"].kind is BoxKind.PARAMETER
    assert view.boxes["v3"].members == ("g2", "v3")


def test_arrows_run_with_the_gradients_and_carry_their_value():
    """From the loss to the weights."""
    view = backward_view(stepped())
    assert [(each.tail, each.head, each.value) for each in view.arrows] == [
        ("g4", "g1", "v2"), ("g4", "g3", None), ("g3", "v3", "v3"), ("g1", "v1", "v1"),
    ]


def test_nodes_lie_in_the_scopes_whose_forward_made_them():
    """Several nodes of one op are a group of their own."""
    view = backward_view(stepped())
    assert {box.id: box.cluster for box in view.boxes.values()} == {
        "g4": "o1", "g3": "o1", "v3": "s2", "g1": "s1", "v1": "s1",
    }
    assert {each.id: each.parent for each in view.clusters.values()} == {
        "s0": None, "s1": "s0", "s2": "s0", "o1": "s2",
    }


def test_closed_to_a_depth():
    """Modules as boxes, gradients between them."""
    view = make_view(stepped(), ViewOptions(view="backward", depth=1))
    view.check()
    assert [(each.tail, each.head) for each in view.arrows] == [("s2", "s1")]
    assert list(make_view(stepped(), ViewOptions(view="backward", depth=0)).boxes) == ["s0"]


@pytest.mark.parametrize("step", [Collapse(), Collapse(1), open_ops, show_tensors])
def test_a_step_keeps_the_direction(step):
    """Whatever is made smaller, gradients still run in it, and nodes that did not run say so."""
    view = step(backward_view(stepped()))
    view.check()
    assert view.backward


def test_equal_blocks_fold():
    """From the last to the first, as gradients run; no node is lost, and numbers are a range."""
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4)]
    model = nn.Sequential(*layers, nn.Linear(4, 1))
    recording = torchrecorder.record(model, torch.ones(2, 4), backward=True)
    closed = make_view(recording, ViewOptions(view="backward", depth=1))
    closed.check()
    _, box = closed.boxes.values()
    assert (box.count, box.names) == (4, ("3", "2", "1", "0"))
    assert closed.backward
    assert len(make_view(recording, ViewOptions(view="backward", depth=1, fold=False)).boxes) == 5
    opened = make_view(recording, ViewOptions(view="backward"))
    opened.check()
    (group,) = (group for group in opened.unfolded().repeats if group[0] in recording.scopes)
    assert all(recording.scopes[item].cls == "Sequential" for item in group)
    members = [member for box in opened.boxes.values() for member in box.members]
    assert sorted(set(members) & {*recording.grad_nodes}) == sorted(recording.grad_nodes)
    orders = [ran.order + 1 for ran in recording.grad_runs
              if recording.grad_nodes[ran.grad].name == "TanhBackward0"]
    (tanh,) = [label for label in lines(draw(opened)).values() if "TanhBackward0" in label]
    assert tanh[1] == f"ran as no. {min(orders)} … no. {max(orders)}"


def test_an_unknown_view_is_refused():
    """The message says which there are."""
    with pytest.raises(InvalidArgument, match="'forward' or 'backward'"):
        ViewOptions(view="sideways")


def test_nodes_show_when_they_ran():
    """Their place in the order; a double backward is marked."""
    said = lines(draw(backward_view(doubled())))
    assert said["g4"] == ["MmBackward0", "ran as no. 1"]
    assert said["g5"] == ["MulBackward0", "did not run", "double backward"]


def test_tooltips_of_nodes_tell_the_gradients():
    """What a node was given, and what it gave."""
    shape = next(each for each in draw(backward_view(stepped())).shapes if each.id == "g4")
    assert shape.tooltip.splitlines()[2:] == ["given: 2×4 float32", "gave: 2×4 float32"]


def test_a_part_without_the_node_whose_pass_made_another():
    """The other node is still marked as one of a double backward."""

    def penalty(x):
        y = x.exp()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return slope.sin()

    recording = torchrecorder.record(penalty, torch.ones(2, requires_grad=True))
    call = recording["grad"].id
    view = make_view(recording, ViewOptions(view="backward", since=call))
    drawn = {shape.name: shape for shape in draw(view).shapes}
    assert "double backward" in [text.text for text in drawn["MulBackward0"].label]
    assert "in a backward pass" in drawn["MulBackward0"].tooltip


def test_of_several_backward_runs_nodes_show_which():
    """A loss for each of two optimizers, or a graph that is retained."""
    again = [ran.replace(run=run) for run in (1, 2) for ran in stepped().grad_runs[:run]]
    recording = replace(stepped(), grad_runs=(*stepped().grad_runs, *again))
    said = lines(draw(backward_view(recording)))
    assert said["g4"][1] == "run 1 no. 1 … run 3 no. 1"
    assert said["g3"][1] == "run 1 no. 2, run 3 no. 2"
    assert said["g1"][1] == "run 1 no. 4"


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_what_never_ran_in_backward_is_marked(theme):
    """A closed module as its nodes, and what got no gradient; in the page of it too."""
    first = [ran for ran in stepped().grad_runs if ran.grad in ("g2", "g3", "g4")]
    recording = replace(stepped(), grad_runs=tuple(first))
    view = make_view(recording, ViewOptions(view="backward", depth=1))
    figure = draw(view, Style(theme=theme))
    assert lines(figure)["s1"][-1] == "did not run" != lines(figure)["s2"][-1]
    looks = {shape.id: shape.look for shape in figure.shapes}
    assert (looks["s1"].fill, looks["s1"].dash) == (theme.paper, "dotted")
    assert looks["s2"].dash == "solid"
    assert lines(draw(backward_view(recording)))["v1"][-1] == "no gradient"
    whole = lines(draw(backward_view(stepped())))
    assert not any({"no gradient", "did not run"} & {*said} for said in whole.values())
    assert "did not run" in page_data(view, Style())["strings"]
    forward = draw(make_view(recording, ViewOptions(depth=1, fold=False)))
    assert "did not run" not in lines(forward)["s1"]


def test_the_node_that_failed_is_marked():
    """In the backward view the node, in the forward view its op."""
    recording = stepped(failed=True)
    backward = draw(backward_view(recording))
    marked = {shape.id for shape in backward.shapes if shape.look.bold}
    assert marked == {"g1"}
    assert "in backward: ValueError: no" in lines(backward)["g1"]
    forward = draw(make_view(recording, ViewOptions(depth=2, fold=False)))
    assert {shape.id for shape in forward.shapes if shape.look.bold} >= {"o0"}


def test_colors_follow_the_number():
    """The largest number has the hottest color; what has none is paper."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    style = Style(color_by="saved_bytes")
    looks = {shape.id: shape.look for shape in draw(view, style).shapes}
    heat = style.theme.heat
    assert looks["s2"].fill == heat[-1]
    assert looks["s1"].fill not in (heat[0], heat[-1], style.theme.paper)
    assert looks["v0"].fill == style.theme.paper
    assert lines(draw(view, style))["s2"][-1] == "Saved 200 B"


def test_the_legend_shows_the_scale():
    """From nothing to the largest number."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    legend = draw(view, Style(color_by="saved_bytes")).legend
    assert [row.text for row in legend] == ["Saved", "0 B", "50 B", "100 B", "150 B", "200 B"]


def test_orders_of_magnitude_get_a_scale_of_their_own():
    """Norms of gradients go by the logarithm."""
    view = make_view(stepped(), ViewOptions(depth=9, fold=False))
    legend = draw(view, Style(color_by="gradient_norm")).legend
    assert [row.text for row in legend] == [
        "Grad norm", "1e-06", "3.16e-05", "0.001", "0.0316", "1",
    ]


def test_a_range_makes_figures_comparable():
    """The ends of the scale are those that were given; what lies beyond gets the color there."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    style = Style(color_by="saved_bytes", color_range=(0, 100))
    figure = draw(view, style)
    assert [row.text for row in figure.legend][-1] == "100 B"
    looks = {shape.id: shape.look for shape in figure.shapes}
    assert looks["s1"].fill == looks["s2"].fill == style.theme.heat[-1]


def test_folded_siblings_have_the_number_of_all():
    """And say so; their color is that of one of them, as the legend says."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    both = (*view.boxes["s1"].members, *view.boxes["s2"].members)
    folded = view.boxes["s1"].replace(members=both, count=2, names=("a", "b"))
    boxes = {name: box for name, box in view.boxes.items() if name != "s2"}
    view = replace(view, boxes={**boxes, "s1": folded}, arrows=())
    figure = draw(view, Style(color_by="saved_bytes"))
    assert lines(figure)["s1"][-1] == "Saved 300 B in total"
    assert figure.legend[0].text == "Saved (mean for ×N)"
    assert figure.legend[-1].text == "150 B"
    beside = draw(view, Style(numbers=("saved_bytes",)))
    assert lines(beside)["s1"][-1] == "Saved 300 B in total"


def test_an_unmeasured_number_colors_nothing():
    """The legend says so, and a warning."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    with pytest.warns(NothingFound, match="memory=True.* measures it"):
        (row,) = draw(view, Style(color_by="peak_bytes")).legend
    assert row.text == "Peak: nothing recorded"


def test_numbers_that_do_not_add_up():
    """Siblings have their mean, and the legend says so; a module has that of its output."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(3)))
    recording = torchrecorder.record(model, torch.ones(1, 4), stats=True)
    norms = recording.annotations["activation_norm"]
    style = Style(color_by="activation_norm")
    figure = draw(make_view(recording, ViewOptions(depth=1)), style)
    shown = norms.annotation.show(sum(norms.by_node.values()) / 3)
    assert len(norms.by_node) == 3
    assert lines(figure)["s1"][-1] == f"Norm {shown} on average"
    title, number = figure.legend
    assert (title.text, number.text) == ("Norm (mean for ×N)", shown)
    assert number.look.fill == next(shape for shape in figure.shapes if shape.id == "s1").look.fill
    last = norms.annotation.show(norms.by_node[recording.outputs[0].value])
    figure = draw(make_view(recording, ViewOptions(depth=0)), style)
    assert lines(figure)["s0"][-1] == f"Norm {last}"


def test_nodes_of_the_backward_view_have_the_norm_of_the_gradient_they_receive():
    """As the outputs of modules and ops have it in the forward view; a fold has the mean."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4))
    recording = torchrecorder.record(model, torch.ones(1, 4), backward=True, stats=True)
    style = Style(color_by="gradient_norm")
    for depth in (0, 1, 3):
        ahead, back = (
            lines(draw(make_view(recording, ViewOptions(view=view, depth=depth)), style))
            for view in ("forward", "backward")
        )
        norms = [
            sorted(line[-1] for line in each.values() if line and "Grad norm" in line[-1])
            for each in (ahead, back)
        ]
        assert norms[0] == norms[1] != []
    recording = torchrecorder.record(Rounds(), torch.ones(1, 4), backward=True, stats=True)
    folded = lines(draw(make_view(recording, ViewOptions(view="backward", depth=1)), style))
    assert sum(line[-1].endswith("on average") for line in folded.values()) == 1


class Rounds(torch.nn.Module):
    """Calls one layer several times."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(4):
            x = self.layer(x)
        return x


def test_numbers_stand_on_the_boxes():
    """Each with its title, unless its unit says it."""
    view = make_view(stepped(), ViewOptions(depth=1, fold=False))
    said = lines(draw(view, Style(numbers=("flops", "backward_time"))))
    assert said["s1"][-2:] == ["1.00 kFLOP", "Backward 2.25 s"]


@pytest.mark.parametrize("low", [0, -1])
def test_a_range_from_zero_has_no_logarithm(low):
    """The colors are those of the legend, in even steps."""
    view = make_view(stepped(), ViewOptions(depth=9, fold=False))
    figure = draw(view, Style(color_by="gradient_norm", color_range=(low, 1)))
    assert [row.text for row in figure.legend][3] == f"{(low + 1) / 2:g}"
    shares = {
        shape.label[-1].text: shape.look.fill
        for shape in figure.shapes if shape.label[-1].text.startswith("Grad norm")
    }
    assert shares["Grad norm 1"] == LIGHT.heat[-1]
    assert shares["Grad norm 1e-06"] == scale(LIGHT.heat, (1e-6 - low) / (1 - low))


def test_max_boxes_chooses_the_depth():
    """As in the forward view."""
    few, many = (
        make_view(stepped(), ViewOptions(view="backward", fold=False, max_boxes=most))
        for most in (3, 40)
    )
    assert len(few.boxes) < len(many.boxes)


class Shared(nn.Module):
    """Calls a module twice: on its own result, or on two inputs."""

    def __init__(self, chained):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        self.chained = chained

    def calls(self, a, b):
        first = self.enc(a)
        return first, self.enc(first if self.chained else b)

    def forward(self, a, b):
        first, second = self.calls(a, b)
        return (first - second).pow(2).sum()


def leads(start, end):
    """Whether autograd's graph leads from a node to another one."""
    waiting, seen = [start], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return end in seen


def reaches(view, start, end):
    """Whether arrows lead from a box in the scope *start* to one in the scope *end*."""
    inside = {box.id: {box.id, *view.nesting.around(box.cluster)} for box in view.boxes.values()}
    waiting, seen = [name for name in inside if start in inside[name]], set()
    while waiting:
        box = waiting.pop()
        if box not in seen:
            seen.add(box)
            waiting += [arrow.head for arrow in view.arrows if arrow.tail == box]
    return any(end in inside[name] for name in seen)


@pytest.mark.parametrize("depth", [1, 2, 3, 9])
@pytest.mark.parametrize("chained", [True, False])
def test_calls_of_a_module_are_connected_as_in_the_graph_of_autograd(chained, depth):
    """The sums of the gradients of weights that they share do not make them a chain."""
    model, given = Shared(chained), (torch.rand(2, 4), torch.rand(2, 4))
    plain = [call.grad_fn for call in model.calls(*given)]
    recording = torchrecorder.record(model, given, backward=True)
    view = make_view(recording, ViewOptions(view="backward", depth=depth, fold=False))
    view.check()
    calls = [scope.id for scope in recording.scopes.values() if scope.path == "enc"]
    assert reaches(view, *reversed(calls)) == leads(*reversed(plain)) == chained
    assert not reaches(view, *calls) and not leads(*plain)


def test_independent_calls_of_a_module_fold_side_by_side():
    """Nothing is passed from one to the next."""
    recording = torchrecorder.record(Shared(False), (torch.rand(2, 4), torch.rand(2, 4)),
                                     backward=True)
    view = make_view(recording, ViewOptions(view="backward", depth=1))
    (call,) = [box for box in view.boxes.values() if box.kind is BoxKind.MODULE]
    assert call.count == 2 and call.carried == ()


def test_a_weight_of_several_calls_is_outside_of_them():
    """Where both calls add to its gradient; that of a single call is in it."""
    given = torch.rand(2, 4), torch.rand(2, 4)
    shared = torchrecorder.record(Shared(False), given, backward=True)
    single = torchrecorder.record(Shared(False).enc, given[0], backward=True)
    for recording, depth in ((shared, 0), (single, 1)):
        view = backward_view(recording, depth=9)
        weights = [box for box in view.boxes.values() if box.kind is BoxKind.PARAMETER]
        assert len(weights) == 4
        assert {view.nesting.depth[box.cluster] for box in weights} == {depth}
