"""What is handed out: archives that are equal byte by byte, with all that belongs in them."""

from __future__ import annotations

import ast
import configparser
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = ("setup.py", "setup.cfg", "MANIFEST.in", "LICENSE", "README.md", "CHANGELOG.md",
       "CONTRIBUTING.md", "constraints.txt")


def built(folder: Path, umask: int, epoch: str | None = None) -> dict[str, Path]:
    """The archives made from a copy of the tree in *folder*, by suffix."""
    tree, out = folder / "tree", folder / "out"
    tree.mkdir(parents=True)
    for name in TOP:
        shutil.copyfile(ROOT / name, tree / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "torchrecorder", tree / "torchrecorder", ignore=ignored)
    (tree / "examples").mkdir()
    shutil.copyfile(ROOT / "examples" / "first_picture.py", tree / "examples" / "first_picture.py")
    for path in tree.rglob("*"):
        path.chmod((0o777 if path.is_dir() else 0o666) & ~umask)
        os.utime(path, (umask * 1e6, umask * 1e6))
    variables = {name: text for name, text in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    if epoch is not None:
        variables["SOURCE_DATE_EPOCH"] = epoch
    command = [sys.executable, "setup.py", "-q", "sdist", "-d", str(out), "bdist_wheel", "-d",
               str(out)]
    done = subprocess.run(
        command, cwd=tree, env=variables, umask=umask, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {path.suffix: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Archives from one folder."""
    pytest.importorskip("setuptools")
    return built(tmp_path_factory.mktemp("one"), 0o022)


def digests(found: dict[str, Path]) -> dict[str, str]:
    """A digest of each archive."""
    return {
        suffix: hashlib.sha256(path.read_bytes()).hexdigest() for suffix, path in found.items()
    }


def test_equal_bytes(archives: dict[str, Path], tmp_path: Path) -> None:
    """Another folder, other times and other permissions give the same archives."""
    assert set(archives) == {".whl", ".gz"}
    assert digests(built(tmp_path / "another" / "place", 0o077)) == digests(archives)


def test_the_time_of_the_source(archives: dict[str, Path], tmp_path: Path) -> None:
    """``SOURCE_DATE_EPOCH`` is the time of everything; the owner is nobody."""
    dated = built(tmp_path, 0o022, "1700000000")
    with tarfile.open(dated[".gz"]) as found:
        members = found.getmembers()
    assert {each.mtime for each in members} == {1700000000}
    assert {(each.uid, each.gid, each.uname, each.gname) for each in members} == {(0, 0, "", "")}
    assert {each.mode for each in members} == {0o644, 0o755}
    with zipfile.ZipFile(dated[".whl"]) as wheel:
        assert {each.date_time[:3] for each in wheel.infolist()} == {(2023, 11, 14)}
        assert wheel.testzip() is None


def test_what_is_in_them(archives: dict[str, Path]) -> None:
    """Every module and every file that a page or the documentation needs, and no test."""
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "torchrecorder").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(archives[".whl"]) as wheel:
        inside = {each for each in wheel.namelist() if ".dist-info/" not in each}
    assert inside == package
    with tarfile.open(archives[".gz"]) as source:
        names = {each.name.partition("/")[2] for each in source.getmembers()}
    assert package | set(TOP) <= names


def test_metadata(archives: dict[str, Path]) -> None:
    """What an index shows and installers read."""
    with zipfile.ZipFile(archives[".whl"]) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith("/METADATA"))
        said = Parser().parsestr(wheel.read(name).decode())
        points = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert said["Name"] == "torchrecorder" and said["Requires-Python"] == ">=3.10"
    assert said["Summary"] and said["License"] and said["Keywords"]
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload().startswith((ROOT / "README.md").read_text(encoding="utf-8")[:40])
    extras = set(said.get_all("Provides-Extra", []))
    assert {"jupyter", "sphinx", "test", "docs", "dev"} <= extras
    versions = {text.rpartition(" ")[2] for text in said.get_all("Classifier", [])}
    assert {"3.10", "3.11", "3.12", "3.13", "3.14", "3.15"} <= versions
    assert "torchrecorder = torchrecorder.integrations.cli:main" in points
    assert "[pytest11]" in points


def test_the_matrix_covers_what_is_promised() -> None:
    """The oldest PyTorch and Python of the metadata are tried together; so is the pinned one."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    floor = re.search(r"^torch>=([\d.]+)$", setup["options"]["install_requires"], re.MULTILINE)
    python = setup["options"]["python_requires"].removeprefix(">=")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("torch==")[1].split()[0]
    (cells,) = (
        ast.literal_eval(node.value)
        for node in ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CELLS"
    )
    assert floor is not None and (f"{floor[1]}.0", python) in cells
    assert pinned in {torch for torch, _ in cells}
    listed = {line.rpartition(" ")[2] for line in setup["metadata"]["classifiers"].splitlines()}
    assert {version for _, version in cells} == {each for each in listed if each.startswith("3.")}


def test_import_without_extras() -> None:
    """Nothing that only an extra brings is needed to import, record and draw."""
    script = (
        "import sys\n"
        "for name in ('IPython', 'sphinx', 'docutils', 'pytest', 'hypothesis', 'jsonschema',\n"
        "             'myst_parser', 'furo', 'pandas'):\n"
        "    sys.modules[name] = None\n"
        "import torch, torchrecorder\n"
        "recording = torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))\n"
        "assert recording.summary()\n"
        "assert recording._repr_mimebundle_()\n"
        "from torchrecorder.integrations.cli import main\n"
        "sys.exit(main(['doctor']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PDF of exact size" in done.stdout and "FAILS" not in done.stdout
