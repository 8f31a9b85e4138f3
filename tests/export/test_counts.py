"""The numbers under the table, compared with the models themselves."""

from __future__ import annotations

import warnings

import pytest

import torchrecorder
from tests import real_models
from tests.export.test_text import total
from torchrecorder.annotations.parameters import BUFFER_BYTES, PARAMETER_BYTES

HEAVY = {"faster_rcnn", "faster_rcnn_training", "raft", "inception_v3", "timm_levit"}
FUNCTIONS = {"generation", "beam_search"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name
        for name in real_models.available()
        if name not in FUNCTIONS
    ],
)
def test_counts(name: str) -> None:
    """Weights, trained and not, and the bytes of all that is stored are those of the model."""
    run = real_models.make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = torchrecorder.record(run.model, run.args, run.kwargs)
    weights = list(run.model.parameters())
    trained = sum(each.numel() for each in weights if each.requires_grad)
    count = sum(each.numel() for each in weights)
    assert total(recording, "Total params") == f"{count:,}"
    assert total(recording, "Trainable params") == f"{trained:,}"
    assert total(recording, "Non-trainable params") == f"{count - trained:,}"
    assert PARAMETER_BYTES.on(recording).total() == sum(each.nbytes for each in weights)
    assert BUFFER_BYTES.on(recording).total() == sum(each.nbytes for each in run.model.buffers())
