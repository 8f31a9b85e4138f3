"""Fixtures of the tests of recording."""

from __future__ import annotations

import pytest

from torchrecorder.capture.tape import Tape


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of instruments are raised."""
    monkeypatch.setattr(Tape, "strict", True)
