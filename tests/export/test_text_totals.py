"""Totals below the summary."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import torch

import torchrecorder
from tests.export.test_text import total
from tests.figures import network
from torchrecorder.events import ScopeKind
from torchrecorder.export.page_data.facts import Facts
from torchrecorder.export.table.text import summary
from torchrecorder.testing import Builder


def test_what_was_lost_is_stated() -> None:
    """A recording with gaps says how many; one without says nothing."""
    found = network()
    text = summary(replace(found, run=replace(found.run, lost=3)))
    assert text.splitlines()[-1] == "Note: 3 facts lost"
    assert "Note:" not in summary(found)


def test_written_parameter_counts_once() -> None:
    """What an op writes into a parameter is no further parameter."""
    run = Builder("Net")
    with run.scope("Net"):
        run.input("x")
        weight = run.parameter("weight")
        run.op("add_", weight, writes=weight, shape=(4, 4))
    assert total(run.recording(), "Total params") == "16"


def test_views_and_recomputation_take_no_memory() -> None:
    """The forward size counts new tensors only, and those of the forward pass."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("linear", run.input("x"))
        run.op("view", x)
        with run.scope("again", "checkpoint", kind=ScopeKind.CHECKPOINT, recompute=True):
            run.op("relu", x)
    found = run.recording()
    view, ran_again = list(found.values.values())[-2:]
    values = dict(found.values)
    values[view.id] = view.replace(storage=7)
    linear_made = next(value for value in found.values.values() if value.producer == "o0")
    values[linear_made.id] = linear_made.replace(storage=7)
    values[ran_again.id] = ran_again.replace(storage=8)
    ops = {
        key: op.replace(recompute=key == ran_again.producer) for key, op in found.ops.items()
    }
    changed = replace(found, values=MappingProxyType(values), ops=MappingProxyType(ops))
    assert total(changed, "Forward pass size") == "32 B"


def test_parameters_that_no_module_has_registered() -> None:
    """They are counted on a line of their own, because an optimizer may not know them."""
    class Holds(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) @ held[0]

    held = [torch.nn.Parameter(torch.ones(3, 4))]
    model = Holds(4, 3)
    found = torchrecorder.record(model, torch.ones(1, 4))
    own = sum(each.numel() for each in model.parameters())
    assert total(found, "Params in no module") == "12"
    assert total(found, "Total params") == str(own + 12)
    about = Facts(torchrecorder.view(found), {}, False).run()
    assert ("params in no module", "12") in about
    for run in (torchrecorder.record(torch.nn.Linear(4, 3), torch.ones(1, 4)),
                torchrecorder.record(lambda x: x @ held[0], torch.ones(1, 3))):
        told = Facts(torchrecorder.view(run), {}, False).run()
        assert "no module" not in f"{run.summary()} {told}"
