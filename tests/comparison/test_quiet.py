"""What changes nothing that is computed, or follows from something else, has no color."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.comparison.test_box_captions import labels, recorded
from tests.comparison.test_compare import lines, stack
from torchrecorder import record
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.overlay import Overlay, overlay
from torchrecorder.events import ScopeId
from torchrecorder.graph.differences import changed_inside
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def _both(before: Recording, after: Recording) -> Overlay:
    found = compare(before, after)
    return overlay(found.matching, found.changes)


def _colored(before: Recording, after: Recording) -> set[str]:
    """The names of the modules with a color."""
    both = _both(before, after)
    return {scope.name for scope in both.recording.scopes.values()
            if scope.id in both.marks and scope.id not in both.quiet}


def test_a_number_shifted_by_an_insertion(tmp_path: Path) -> None:
    """The module behind the new one reads it, and those behind it are only renamed."""
    before, after = stack("Linear", "ReLU", "Tanh"), stack("Linear", "Dropout", "ReLU", "Tanh")
    assert _colored(before, after) == {"1"}
    assert labels(tmp_path, before, after, depth=2)["3: Tanh"].endswith("was 2")
    drawn = compare(before, after).render(tmp_path / "both.dot", depth=2).read_text()
    assert "different" not in drawn  # no color in the legend, so none in the figure
    assert compare(before, after).text().splitlines()[2:] == [
        "  added     body.1 (Dropout)  1 op",
        "  renamed   body.2, body.3    was body.1, body.2",
        "  rewired   body.2            reads body.1, not body.0",
    ]


def _frozen(*names: str) -> Recording:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    for name, weight in model.named_parameters():
        weight.requires_grad_(name not in names)
    return record(model, torch.ones(1, 4))


ALL = "0.weight", "0.bias", "1.0.weight", "1.0.bias"


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (ALL, "0.weight and 3 more  all 4 parameters"),
        (ALL[1:3], "0.bias and 1 more  2 of 4 parameters"),
        (ALL[:1], "0.weight  1 of 4 parameters"),
    ],
)
def test_frozen_weights_are_counted(names: tuple[str, ...], line: str) -> None:
    """In one line, whatever their shapes; and the same for those that are no longer frozen."""
    found = compare(_frozen(), _frozen(*names))
    assert [change.kind for change in found.changes] == [ChangeKind.FROZEN] * len(names)
    assert found.text().splitlines()[1:] == [f"  frozen    {line}"]
    back = compare(_frozen(*names), _frozen())
    assert back.text().splitlines()[1:] == [f"  unfrozen  {line}"]


def test_frozen_weights_of_a_single_one() -> None:
    """A count of one is no plural."""
    def run(trainable: bool) -> Recording:
        model = nn.Linear(4, 4, bias=False).requires_grad_(trainable)
        return record(model, torch.ones(1, 4))

    assert compare(run(True), run(False)).text().endswith("weight  1 of 1 parameter")


def test_frozen_modules_have_a_text_and_no_color(tmp_path: Path) -> None:
    """One line for all weights of a box."""
    before, after = _frozen(), _frozen(*ALL)
    both = _both(before, after)
    assert both.marks and both.quiet == set(both.marks)
    found = labels(tmp_path, before, after, depth=2)
    assert found["0: Linear"].endswith("20 params | now frozen")
    assert labels(tmp_path, before, after, depth=1)["1: Sequential"].count("now frozen") == 1
    assert labels(tmp_path, after, before, depth=2)["0: Linear"].endswith("now trainable")
    mixed = labels(tmp_path, before, _frozen(*ALL[2:]), depth=2)
    assert mixed["0: Linear"].endswith("20 params, now frozen")
    assert "frozen" not in mixed["0: Linear"].replace("now frozen", "")


def test_weights_of_which_only_some_are_frozen_are_counted(tmp_path: Path) -> None:
    """A module is only called frozen if all of it is."""
    before, after = _frozen(), _frozen("0.weight", "0.bias", "1.0.bias")
    whole, inner = (labels(tmp_path, before, after, depth=depth) for depth in (0, 2))
    assert whole["Sequential"] == "40 params, 16 trained | 3 weights now frozen"
    assert inner["0: Linear"].endswith("20 params, 16 trained | 1 weight now frozen")  # 1.0
    assert labels(tmp_path, after, before, depth=0)["Sequential"].endswith("| now trainable")


def test_no_module_is_opened_for_it() -> None:
    """The way is open to the new layer, and to no other."""
    both = _both(_frozen(), _frozen(*ALL))
    assert both.recording.own_differences and not changed_inside(both.recording)
    before, after = stack("Linear", "ReLU", "Tanh"), stack("Linear", "Dropout", "ReLU", "Tanh")
    recording = _both(before, after).recording
    quiet = {scope.name for scope in recording.scopes.values()
             if scope.id in recording.quiet_differences}
    assert quiet == {"2", "3"}
    opened = {recording.scopes[ScopeId(scope)].name for scope in changed_inside(recording)}
    assert opened == {"Net", "body"}


def test_another_difference_is_told_before_that(tmp_path: Path) -> None:
    """In a module in which a layer also differs, and this layer has a color."""
    def run(act: nn.Module, trainable: bool) -> Recording:
        return recorded(nn.Linear(4, 4).requires_grad_(trainable), act)

    before, after = run(nn.ReLU(), True), run(nn.GELU(), False)
    assert _colored(before, after) == {"1"}
    found = labels(tmp_path, before, after, depth=1)["0: Sequential"]
    assert "ReLU → GELU" in found and "now frozen" not in found


def test_another_batch_size_is_a_difference_of_the_input(tmp_path: Path) -> None:
    """All results follow from it: they share a line, and have no color."""
    def run(batch: int) -> Recording:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        return record(model, torch.ones(batch, 4))

    before, after = run(1), run(3)
    told = compare(before, after).text().splitlines()[2:]
    assert [" ".join(line.split()) for line in told] == [
        "resized input 1×4 → 3×4", "resized 0 … 2 because of their inputs"
    ]
    both = _both(before, after)
    loud = {node for node in both.marks if node not in both.quiet}
    assert loud == {slot.value for slot in both.recording.inputs}
    for label in labels(tmp_path, before, after, depth=0).values():
        assert "1×8" not in label and "1×2" not in label


def test_another_dtype_is_one_line() -> None:
    """Of weights, inputs and results: what differs is the same."""
    def run(dtype: torch.dtype) -> Recording:
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2)).to(dtype)
        return record(model, torch.ones(1, 4, dtype=dtype))

    found = compare(run(torch.float32), run(torch.float64))
    assert found.text().splitlines()[2:] == ["  cast      input and 6 more  float32 → float64"]


def test_a_result_of_another_form_without_a_reason_in_its_inputs() -> None:
    """It is where the difference begins, and what reads it follows."""
    def run(size: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.op("nonzero", builder.input("x"), shape=(size, 2))
            builder.op("exp", x, shape=(size, 2))
        return builder.recording()

    found = {change.where: change.follows for change in compare(run(3), run(5)).changes}
    assert found == {"nonzero": False, "exp": True}


@pytest.mark.parametrize(
    ("name", "sizes", "follows"),
    [("view", (2, 4), True), ("view", (4, 4), False), ("sum", (2, 4), False)],
)
def test_arguments_of_a_reshape_follow_from_its_input(
    name: str, sizes: tuple[int, int], follows: bool
) -> None:
    """Those of other ops, or of a reshape of the same input, are a difference of their own."""
    def run(size: int, dim: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            builder.op(name, builder.input("x", (size, 4)), arguments=(("dim", dim),))
        return builder.recording()

    changes = compare(run(sizes[0], "1"), run(sizes[1], "2")).changes
    assert [each.follows for each in changes if each.kind is ChangeKind.CHANGED] == [follows]


def test_weights_of_a_replaced_layer_are_not_listed() -> None:
    """Neither those that it has no more nor those of another form."""
    before = recorded(nn.BatchNorm1d(4), nn.Tanh())
    after = recorded(nn.LayerNorm(4), nn.Tanh())
    assert lines(before, after) == ["replaced 0.0 BatchNorm1d → LayerNorm"]
    assert lines(after, before) == ["replaced 0.0 LayerNorm → BatchNorm1d"]


def test_weights_of_a_replaced_module_with_layers_are_listed() -> None:
    """Like its layers."""
    def run(cls: str, *names: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("block", cls):
            x = builder.op("add", builder.input("x"), *map(builder.parameter, names))
            with builder.scope("act", "ReLU"):
                builder.op("relu", x)
        return builder.recording()

    assert lines(run("Block", "scale"), run("Better", "scale", "shift")) == [
        "replaced block Block → Better", "added block.shift 4×4 float32"
    ]


def test_one_number_that_is_trained_is_some(tmp_path: Path) -> None:
    """The only one of a bias."""
    def run(trained: bool) -> Recording:
        layer = nn.Linear(4, 1)
        layer.weight.requires_grad_(trained)
        return record(nn.Sequential(layer), torch.ones(1, 4))

    found = labels(tmp_path, run(True), run(False), depth=1)["0: Linear"]
    assert found.endswith("5 params, 1 trained | 1 weight now frozen")


def test_weights_of_no_module_are_found_by_their_names() -> None:
    """In whichever order they are read, which is a difference."""
    first, second = (nn.Parameter(torch.ones(4)) for _ in range(2))

    def before(x: torch.Tensor) -> torch.Tensor:
        return x + torch.cat([first, second])

    def after(x: torch.Tensor) -> torch.Tensor:
        return x + torch.cat([second, first])

    found = compare(record(before, torch.ones(8), name="f"), record(after, torch.ones(8), name="f"))
    assert [change.text for change in found.changes] == [
        "tensors.0: reads second, not first", "tensors.1: reads first, not second",
    ]
