"""Files of version 1: what an earlier version wrote is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.export.test_text import odd
from tests.figures import network, regions
from torchrecorder.graph.codec import decode
from torchrecorder.recording import Recording

OLD = Path(__file__).parent / "version_1"
"""What version 1 wrote."""


def old(name: str) -> Any:
    return json.loads((OLD / f"{name}.json").read_text())


@pytest.mark.parametrize("example", [network, odd, regions], ids=lambda made: made.__name__)
def test_version_1_is_read(example: Any) -> None:
    """A file that an earlier version wrote gives the same recording."""
    assert decode(old(example.__name__), Recording) == example()


def test_version_1_may_lack_columns() -> None:
    """A column that has a default need not be there in an old file either."""
    data = old("network")
    del data["grad_nodes"]["failed"]
    assert decode(data, Recording) == network()


def test_version_1_counts_nodes_over_all_tables_but_modules() -> None:
    """Scopes, ops, values, grad nodes."""
    recording = network()
    tables = recording.scopes, recording.ops, recording.values, recording.grad_nodes
    ids = [key for table in tables for key in table]
    data = old("network")
    data["measured"] = {"n": {"node": [*range(len(ids))], "amount": [*range(len(ids))]}}
    found = decode(data, Recording).measured["n"]
    assert found == {key: amount for amount, key in enumerate(ids)}
