"""Examples in docstrings and in the guide: they run, and give what they say."""

from __future__ import annotations

import doctest
import importlib
import shutil
from pathlib import Path

import pytest

import torchrecorder
from torchrecorder.capture.internals.table import SAVED_TENSORS

ROOT = Path(__file__).parents[1]
PACKAGE = Path(torchrecorder.__file__).parent
FLAGS = doctest.NORMALIZE_WHITESPACE


def _modules() -> list[str]:
    paths = sorted(PACKAGE.rglob("*.py"))
    with_examples = (path for path in paths if ">>>" in path.read_text(encoding="utf-8"))
    inside = (path.relative_to(PACKAGE.parent).with_suffix("") for path in with_examples)
    return [".".join(path.parts) for path in inside]


def _pages() -> list[Path]:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in paths if ">>>" in path.read_text(encoding="utf-8")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What examples write goes to a folder of their own, with our example scripts in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", _modules())
def test_docstrings(name: str) -> None:
    """The examples of a module."""
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert failed == 0 and tried > 0


@pytest.mark.parametrize("page", _pages(), ids=lambda page: page.stem)
def test_pages(page: Path) -> None:
    """The examples of a page."""
    if "saved=True" in page.read_text(encoding="utf-8") and not SAVED_TENSORS.present:
        pytest.skip("this PyTorch does not tell what is kept for backward")
    failed, tried = doctest.testfile(
        str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8"
    )
    assert failed == 0 and tried > 0
