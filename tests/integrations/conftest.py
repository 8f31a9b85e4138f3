"""Fixtures for tests of the integrations."""

from __future__ import annotations

import pytest


@pytest.fixture
def project(tmp_path, monkeypatch, request):
    """An empty Sphinx project, whose folder can be imported from."""
    from tests.integrations.sphinx_project import Project

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    number = abs(hash(request.node.name)) % 10**9
    return Project(tmp_path, f"nets_{number}")
