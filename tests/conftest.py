"""Options and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` renews the files that tests compare with."""
    parser.addoption("--update-golden", action="store_true", help="renew golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be renewed."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Callable[[str, str], None]:
    """Compares a text with the golden file of this name."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if update_golden:
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return compare
