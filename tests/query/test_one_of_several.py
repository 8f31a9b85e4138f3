"""Why a backward pass failed, where one of several tensors is the reason."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torchrecorder as tr


@pytest.mark.parametrize("place", [1, 0])
def test_only_the_tensor_without_a_graph_is_followed(place: int) -> None:
    """Of three at which the pass starts: another has a graph behind an operation without one."""
    model, x = nn.Linear(4, 4), torch.ones(2, 4)
    with pytest.raises(RuntimeError), tr.Recorder(model) as recorder:
        cut = model(x).argmax().float()
        whole = model(x).tanh().detach() + model(x)
        torch.autograd.grad([*[whole.sum()] * place, cut, whole.mean()], model.weight)
    why = recorder.recording.why_backward_failed()
    assert why is not None and [op.name for op in why.ops] == ["argmax"]


def test_writes_to_other_sparse_tensors_are_none() -> None:
    """Nothing is known of the memory of sparse tensors, so that no two of them share it."""
    weight = nn.Parameter(torch.ones(3, 3))
    with pytest.raises(RuntimeError), tr.Recorder() as recorder:
        factor, dense = torch.eye(3).to_sparse().requires_grad_(), weight * 2
        loss = torch.sparse.mm(factor, dense).sum()
        torch.eye(3).to_sparse().mul_(2)
        dense.mul_(2)
        loss.backward()
    why = recorder.recording.why_backward_failed()
    assert why is not None and [op.name for op in why.ops] == ["sparse_mm", "mul_"]
    assert "saved its argument 'dense'" in str(why)
