"""The documentation: it is built without a warning, and complete."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchrecorder

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUIET = "ignore::FutureWarning,ignore:Guards may run slower:RuntimeWarning"
"""Warnings of some versions of PyTorch and Python about themselves."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the extension keeps what it recorded and drew: the pages of both sites have it once."""
    return tmp_path_factory.mktemp("recordings")


def _built(folder: Path, recordings: Path, *options: str) -> Path:
    (folder / ".doctrees").mkdir(parents=True)
    (folder / ".doctrees" / "torchrecorder").symlink_to(recordings)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", *options, str(DOCS), str(folder)]
    environment = {**os.environ, "PYTHONWARNINGS": QUIET}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder.parent, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


@pytest.mark.slow
def test_site(tmp_path, recordings):
    """All pages, from nothing: every gallery entry has a figure, for light pages and for dark."""
    for needed in ("sphinx", "myst_parser", "furo", "transformers", "torch_geometric"):
        pytest.importorskip(needed)
    out = _built(tmp_path / "html", recordings)
    entries = [each for each in (DOCS / "gallery").glob("*.md") if each.stem != "index"]
    assert len(entries) >= 12
    for entry in entries:
        page = (out / "gallery" / f"{entry.stem}.html").read_text()
        assert page.count('torchrecorder-dark"') >= 1 and "The script" in page
    assert not [page for page in out.rglob("*.html") if "torchrecorder-failed" in page.read_text()]


@pytest.mark.slow
def test_site_without_libraries_of_models(tmp_path, recordings):
    """The quick build, for machines that have nothing but the extra.

    Its pages are those of the whole site, which are written there; here all are read and linked.
    """
    for needed in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(needed)
    read = _built(tmp_path / "quick", recordings, "-t", "quick", "-b", "dummy") / ".doctrees"
    assert (read / "guide" / "first-picture.doctree").exists()
    assert not (read / "gallery").exists()


def test_every_public_name_is_in_the_reference():
    """What `import torchrecorder` offers is explained."""
    reference = (DOCS / "reference" / "index.md").read_text()
    named = torchrecorder.__all__
    assert [name for name in named if f":: torchrecorder.{name}\n" not in reference] == []


def test_every_gallery_entry_shows_its_script():
    """An entry names a function of a script, and shows all of the script."""
    for entry in sorted((DOCS / "gallery").glob("*.md")):
        text = entry.read_text()
        named = [line.partition("../../examples/")[2] for line in text.splitlines()]
        for target in [each for each in named if ":" in each]:
            file, _, name = target.partition(":")
            tree = ast.parse((ROOT / "examples" / file).read_text())
            assert name in [each.name for each in tree.body if hasattr(each, "name")], target
            shown = f"{{literalinclude}} ../../examples/{file}\n" in text
            assert shown or entry.stem == "index"


def test_every_page_is_reached():
    """Each page of the guide and of extending stands in a table of contents."""
    listed = (DOCS / "index.md").read_text() + (DOCS / "extending" / "index.md").read_text()
    for page in [*DOCS.glob("guide/*.md"), *DOCS.glob("extending/*.md")]:
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert f"\n{name}\n" in listed or f"\n{page.stem}\n" in listed, name
