"""Comparisons that only an ``if`` of Python reads are not drawn, unless queries are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from torchrecorder.events import OpId
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.quiet_ops import comparisons, made_for_conditions


def drawn(recording: Recording, queries: bool = False) -> set[str]:
    """The names of the operations that have boxes."""
    view = make_view(recording, ViewOptions(queries=queries))
    return {recording.ops[box].name for box in view.boxes if box in recording.ops}


def decide(x: Tensor) -> Tensor:
    """Two comparisons together decide; one is computed with, and one is a result."""
    if ((x > 0).any() & (x < 9).all()) or torch.is_nonzero(x.ge(100).all()):
        x = x.sin()
    low = x <= 0.9
    if low.any():
        x = x.cos()
    return x * low


def test_a_chain_of_comparisons() -> None:
    """As far as nothing else reads them."""
    recording = torchrecorder.record(decide, torch.ones(3))
    assert drawn(recording) == {"sin", "cos", "le", "mul"}
    more = {"gt", "any", "lt", "all", "and", "bool()"}
    assert drawn(recording, queries=True) >= more


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda x: (x > 0).all(), {"gt", "all"}),  # is returned
        (lambda x: bool((x > 0).sum()) and x, {"gt", "sum"}),  # a number, not a flag
        (lambda x: (x > 0).all().item() and x, {"gt", "all"}),  # may be a result
        (lambda x: (x > 0).tolist() and x, {"gt"}),
        (lambda x: bool(torch.isnan(x).logical_not_().all()) and x, {"isnan", "logical_not_"}),
        (lambda x: bool(x.max() > 0) and x, {"max"}),
    ],
)
def test_what_stays(function: object, kept: set[str]) -> None:
    """What is computed, is a result, or writes."""
    assert drawn(torchrecorder.record(function, torch.ones(3))) == kept


def test_parts_that_are_only_compared() -> None:
    """The bounds of an interval, say: not what is computed with, nor what other parts select."""

    def checked(t: Tensor, x: Tensor, place: Tensor) -> Tensor:
        assert (t[1:] > t[:-1]).all() and t[0].view(1) == t.unbind()[0]
        if t.narrow(0, 0, 1) > x[0] or t[place] > 0:
            x = x + t[-1]
        return x * t

    recording = torchrecorder.record(checked, (torch.arange(3.0), torch.ones(3), torch.tensor(1)))
    calls = [op for op in recording.ops.values() if op.name == "getitem"]
    view = make_view(recording, ViewOptions())
    assert drawn(recording) == {"getitem", "add", "mul"}
    last, selected = (
        op.id for op in calls if ("index", "-1") in op.arguments or len(op.inputs) > 1
    )
    assert {op.id for op in calls if op.id in view.boxes} == {last, selected}
    assert {"unbind", "narrow", "view"} <= drawn(recording, queries=True)


def test_an_input_that_is_only_compared() -> None:
    """It stays connected: the comparisons that lead away from it are drawn, and others not."""

    def masked(x: Tensor, mask: Tensor) -> Tensor:
        if (mask == 1).all() and (x > 0).any():
            x = x.sin()
        return x

    recording = torchrecorder.record(masked, (torch.ones(3), torch.ones(3)))
    assert drawn(recording) == {"eq", "all", "sin"}


def test_checks_of_distributions() -> None:
    """PyTorch compares parameters and values with what is allowed."""
    normal = torch.distributions.Normal
    recording = torchrecorder.record(
        lambda x: normal(x, 1.0, validate_args=True).log_prob(x), torch.ones(3)
    )
    checks = {"_is_all_true", "all"}  # in PyTorch 2.6 the latter
    assert checks & {op.name for op in recording.ops.values()}
    assert not drawn(recording) & {*checks, "eq", "gt"}


class Masked(nn.Module):
    """Compares a mask with one that it makes from numbers."""

    def __init__(self, *, used: bool = False, number: bool = False) -> None:
        super().__init__()
        self.used, self.number = used, number

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Run."""
        own = torch.full((3, 3), 1.0).triu().cumsum(-1)
        if own.sum().item() > 100 if self.number else (own[:, 1] == mask[:, 1]).all():
            x = x.sin()
        return (x * own if self.used else x) + mask


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (Masked(), set()),
        (Masked(used=True), {"full", "triu", "cumsum", "mul"}),
        (Masked(number=True), {"full", "triu", "cumsum", "sum"}),
    ],
)
def test_what_a_module_makes_from_numbers_to_compare(model: nn.Module, kept: set[str]) -> None:
    """Unless it is used otherwise, or a number that the program reads."""
    recording = torchrecorder.record(model, (torch.ones(3, 3), torch.ones(3, 3)))
    assert drawn(recording) - {"sin", "add"} == kept
    assert drawn(recording, queries=True) >= {"full", "triu", "cumsum"}


def test_what_a_program_makes_from_numbers() -> None:
    """Outside of a module, it may be all that there is to see."""
    with torchrecorder.Recorder() as recorder:
        if (torch.ones(3).exp().cumsum(0) > 2).any():
            pass
    assert drawn(recorder.recording) == {"ones", "exp", "cumsum"}


def test_what_leads_to_a_decision_that_is_drawn() -> None:
    """It is drawn too: a failed one, for instance."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        made = run.op("exp", x)
        run.op("bool()", run.op("gt", made, dtype="bool"), outputs=0)
        run.returns(made)
    recording = run.recording()
    _, compared, decision = recording.ops
    assert comparisons(recording) == {compared}
    assert comparisons(recording, {decision}) == frozenset()


@pytest.mark.parametrize("number", [0, 1])
def test_one_of_the_parts_is_a_result(number: int) -> None:
    """Then the others stay, too."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("unbind", run.op("exp", run.input("x")), outputs=2)
        parts = [event.id for event in run.events if getattr(event, "producer", None) == "o1"]
        run.op("bool()", run.op("gt", parts[number], dtype="bool"), outputs=0)
        run.returns(parts[1 - number])
    assert comparisons(run.recording()) == {OpId("o2")}


def test_a_tensor_from_numbers_that_is_a_condition_itself() -> None:
    """It is hidden with the others, unless its decision is drawn."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("bool()", run.op("full", shape=()), outputs=0)
        other = OpId("o2")
        run.op("gt", x, dtype="bool")
    recording = run.recording()
    made, decision, _ = recording.ops
    assert made_for_conditions(recording, {other}) == {made}
    assert made_for_conditions(recording, {other}, {decision}) == frozenset()
    assert made_for_conditions(recording, ()) == frozenset()


class Forgetful(nn.Module):
    """Makes a tensor that it does not read, besides what it compares."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        torch.ones(3).cumsum(0)
        return x if (torch.arange(3) == x).all() else x.sin()


def test_what_nothing_reads_is_drawn() -> None:
    """It is unused, and not made for a condition."""
    recording = torchrecorder.record(Forgetful(), torch.zeros(3))
    assert drawn(recording) >= {"ones", "cumsum"}
