"""Backward passes through a graph that an earlier pass freed: what led back to it."""

from __future__ import annotations

import torch
from torch import nn

from tests.query.test_failed_backward import failed


def test_graphs_that_were_not_freed_may_be_read() -> None:
    """What was computed before the call, but is not behind what it started from. So may one that
    was freed, for what is not behind the second call."""
    def program(model: nn.Module) -> None:
        fake, aside = model[0](torch.ones(2, 4)), model[1](torch.ones(2, 4))
        fake.sum().backward()
        fake.sin()
        (aside.exp() + fake.cos()).sum().backward()

    why = failed(program)[0].why_backward_failed()
    assert why is not None
    assert [op.name for op in why.ops] == ["backward", "cos"]


def test_a_gradient_with_a_graph_is_a_result_of_the_call_that_freed_it() -> None:
    """It leads back to what that call ran on, as in a gradient penalty."""
    def program(model: nn.Module) -> None:
        x = torch.ones(2, 4, requires_grad=True)
        loss = model(x).exp().sum()
        (grad,) = torch.autograd.grad(loss, x, create_graph=True, retain_graph=False)
        grad.square().sum().backward()

    why = failed(program)[0].why_backward_failed()
    assert why is not None and [op.name for op in why.ops] == ["grad", "square"]
    assert "has read 'self', a result of that call: " in str(why)


def test_passes_through_other_graphs_did_not_free_it() -> None:
    """The pass that ran the node did, before or after which others ran."""
    def program(model: nn.Module) -> None:
        middle = model[0](torch.ones(2, 4)).exp()
        model[1](torch.ones(2, 4)).sum().backward()
        middle.sum().backward()
        model[1](torch.ones(2, 4)).mean().backward()
        middle.cos().sum().backward()

    recording = failed(program)[0]
    why = recording.why_backward_failed()
    assert why is not None and [op.name for op in why.ops] == ["backward", "cos"]
    assert why.ops[0].id == recording.backward_runs[1].op


def test_what_reads_only_the_shape_of_a_result_did_not_lead_back() -> None:
    """``ones_like`` of the scores of a discriminator, that make the labels of a generator."""
    def program(model: nn.Module) -> None:
        scores = model(torch.ones(2, 4))
        scores.exp().sum().backward()
        labels = torch.ones_like(scores)
        nn.functional.binary_cross_entropy_with_logits(scores, labels).backward()

    why = failed(program)[0].why_backward_failed()
    assert why is not None
    assert [op.name for op in why.ops] == ["backward", "binary_cross_entropy_with_logits"]
    assert "(and 1 more)" not in str(why)


def test_what_reads_a_weight_first_led_back_by_its_other_argument() -> None:
    """No operation made the weight."""
    def program(model: nn.Module) -> None:
        fake = model[0](torch.ones(2, 4))
        fake.sum().backward()
        (model[1].bias * fake).sum().backward()

    why = failed(program)[0].why_backward_failed()
    assert why is not None
    assert [op.name for op in why.ops] == ["backward", "mul"]
