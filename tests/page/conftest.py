"""A browser, and two pages in it to evaluate JavaScript in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.figures import network
from tests.page.browser import Visit, Visiting, browser
from tests.views.test_fold import stack
from torchrecorder.recording import Recording


@pytest.fixture(scope="module")
def program() -> Iterator[Any]:
    """One browser for all tests of a file."""
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def flat(program: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Evaluates JavaScript in the page of a small network."""
    yield from _evaluator(program, network().render(tmp_path_factory.mktemp("a") / "page.html"))


@pytest.fixture(scope="module")
def deep(program: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Evaluates JavaScript in the page of six equal blocks, folded."""
    yield from _evaluator(program, stack(6).render(tmp_path_factory.mktemp("b") / "page.html"))


@pytest.fixture
def visit(program: Any, tmp_path: Path) -> Iterator[Visiting]:
    """Opens the page of a recording; in the end, nothing may have gone wrong in it."""
    visits = []

    def open_page(
        recording: Recording, hash: str = "", dark: bool = False, **options: Any
    ) -> Visit:
        path = recording.render(tmp_path / "page.html", **options)
        visits.append(Visit(program, dark).open(path, hash))
        return visits[-1]

    yield open_page
    for each in visits:
        assert each.troubles == []
        assert [url for url in each.requests if not url.startswith(("file:", "blob:"))] == []
        each.window.close()


def _evaluator(program: Any, path: Path) -> Iterator[Any]:
    seen = Visit(program).open(path)
    yield seen.page.evaluate
    assert seen.troubles == []
    seen.window.close()
