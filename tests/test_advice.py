"""Errors about wrong arguments: what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torchrecorder as tr
from torchrecorder.errors import TorchRecorderError
from torchrecorder.integrations.import_target import find
from torchrecorder.integrations.scripts import Script

MODEL, X = torch.nn.Linear(4, 2), torch.ones(1, 4)


@pytest.fixture(scope="module")
def recording() -> tr.Recording:
    """One run, for what needs a recording."""
    return tr.record(MODEL, X)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda run: tr.Recorder(MODEL, backward=True), r"record\(model, inputs, \.\.\.\)"),
        (lambda run: tr.Recorder(MODEL, depth=1), r"recording\.render\(path, \.\.\.\)"),
        (lambda run: tr.Recorder(MODEL, stat=True), "did you mean 'stats'"),
        (lambda run: tr.record(MODEL, (1, 4)), r"or input_shapes=\(1, 4\)"),
        (lambda run: tr.summary(run), r"methods of its own, such as render\(path\)"),
        (lambda run: tr.render_network(MODEL, X, "a.svg"), "filename=path"),
        (lambda run: tr.record(MODEL, X, X), "several inputs as a tuple"),
        (lambda run: tr.Recorder(MODEL, X), r"Recorder\(\) takes model, not 2 arguments"),
        (lambda run: tr.figure(run, focus=["a", "b"]), "focus must be one path or one pattern"),
        (lambda run: tr.figure(run, since=["a"]), "since must be one path or one name"),
        (lambda run: tr.figure(run, backward=True), "view='backward' draws"),
        (lambda run: tr.render_network(MODEL, X, format="png"), "did you mean 'fmt'"),
        (lambda run: tr.render_network(MODEL, X, directon="LR"), "did you mean 'direction'"),
        (lambda run: run.render("a.svg", format="png"), "suffix of the path sets the format"),
        (lambda run: run.render("a"), r"as in a\.svg or a\.html\. Known: \.svg"),
        (lambda run: run.why_no_gradient(MODEL.weight), "a name must be a string, not Param"),
        (lambda run: find("net.py"), r"`torchrecorder run net\.py` runs; .* net\.py:name"),
        (lambda run: Script("net:model").check(), "`torchrecorder render` draws"),
    ],
)
def test_what_to_write_instead(
    recording: tr.Recording, call: Callable[[tr.Recording], Any], said: str
) -> None:
    """For names and values that belong elsewhere."""
    with pytest.raises(TorchRecorderError, match=said):
        call(recording)
