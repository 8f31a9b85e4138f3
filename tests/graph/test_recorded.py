"""Recordings of real runs, as data: they survive saving, and two runs save the same bytes."""

from __future__ import annotations

import functools
import json
from typing import Any

import jsonschema
import pytest

import torchrecorder
from tests import zoo
from tests.graph.schema import schema
from torchrecorder.export import EXPORTERS, known
from torchrecorder.graph.saved_files import dumps, loads
from torchrecorder.option_table import options_of
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.views.auto_depth import max_depth
from torchrecorder.views.pipeline import ViewOptions, make_view

pytestmark = pytest.mark.filterwarnings("ignore")  # the warnings of the models are not ours
each_case = pytest.mark.parametrize(
    "case", zoo.CASES, ids=lambda case: case.name, scope="module"  # one after the other for a case
)


def recorded(case: Any) -> Any:
    """A recording of the case."""
    run = case.make()
    return torchrecorder.record(run.model, run.args, run.kwargs, backward=case.backward)


shared = functools.lru_cache(maxsize=1)(recorded)
"""The same for the tests that only read it."""


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """What checks a file against the schema."""
    return jsonschema.Draft202012Validator(schema())


@each_case
def test_comes_back(case: Any, validator: jsonschema.Draft202012Validator) -> None:
    """Every odd model's recording is saved, valid by the schema, and loaded equal."""
    recording = shared(case)
    text = dumps(recording)
    assert loads(text, Recording) == recording
    validator.validate(json.loads(text))


@each_case
def test_every_format(case: Any) -> None:
    """Every format that needs no layout is written, at the least and the largest depth."""
    recording = shared(case)
    for depth in (0, max_depth(recording)):
        view = make_view(recording, ViewOptions(depth=depth, grad_nodes=depth > 0))
        for exporter in EXPORTERS:
            if "timeout" not in options_of(exporter):
                assert exporter().export(view, Style())
    assert len(EXPORTERS) == len(known())


@pytest.mark.parametrize(
    "name", ["operators", "dropout_residual", "checkpoint_new", "tied_weights"]
)
def test_two_runs_same_bytes(name: str) -> None:
    """Times aside, two runs of the same model are saved as the same bytes."""
    case = zoo.BY_NAME[name]
    recorded(case)
    assert dumps(recorded(case), times=False) == dumps(recorded(case), times=False)
