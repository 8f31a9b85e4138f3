"""Options and fixtures that all tests share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` renews the files that tests compare with."""
    parser.addoption("--update-golden", action="store_true", help="renew golden files")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be renewed."""
    return bool(request.config.getoption("--update-golden"))
