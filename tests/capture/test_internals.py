"""The table of PyTorch's internals: complete, and the only way to them."""

import ast
import dataclasses
import functools
import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

import torchrecorder
from torchrecorder.capture import internals
from torchrecorder.capture.internals import table
from torchrecorder.capture.internals.table import INTERNALS, Internal
from torchrecorder.capture.internals.trials import OLDEST, find
from torchrecorder.errors import UnsupportedTorch
from torchrecorder.integrations.cli import main

CAPTURE = Path(torchrecorder.__file__).parent / "capture"
ACCESS = CAPTURE / "internals" / "access.py"
OTHERS = sorted(set(CAPTURE.rglob("*.py")) - {ACCESS})

each_other = pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
each_internal = pytest.mark.parametrize("internal", INTERNALS, ids=lambda each: each.name)


def _is_private(name):
    return name.startswith("_") and not name.startswith("__")


def _imported(tree):
    """Dotted names that a file imports from PyTorch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _attributes(tree):
    """The attributes that a file reads: the object as text, and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node.value), node.attr


def _reaches_inside(name):
    return name.partition(".")[0] == "torch" and any(map(_is_private, name.split(".")))


@functools.cache
def _own_names():
    """Private names that capture itself defines."""
    found = set()
    for path in CAPTURE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return found


@each_other
def test_private_names_are_imported_in_one_place(path):
    """No file of capture names anything private of PyTorch, or walks frames by itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [*_imported(tree), *(f"{owner}.{name}" for owner, name in _attributes(tree))]
    assert [name for name in names if _reaches_inside(name) or name == "sys._getframe"] == []


@each_other
def test_private_attributes_are_listed(path):
    """A private attribute that is read of an object is one of capture's own, or in the table."""
    listed = {name for each in INTERNALS for name in each.attributes}
    tuples = {"_fields", "_make", "_replace"}  # public, by the documentation of namedtuple
    tree = ast.parse(path.read_text(encoding="utf-8"))
    read = {name for _, name in _attributes(tree) if _is_private(name)}
    assert read - _own_names() - tuples <= listed


@each_internal
def test_an_entry_is_complete(internal):
    """It says what it is, what it gives and what is different without it, and can be found out."""
    assert all((internal.name, internal.gives, internal.without))
    assert re.fullmatch(r"\d+\.\d+", internal.since)
    looks = internal.works is not Internal.works
    assert internal.paths or looks
    assert internal.present or not internal.needed


@each_internal
@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch has less elsewhere")
def test_versions_have_what_is_said_of_them(internal):
    """From the version on that is said to be the first, until it is said to be gone."""
    versions = internal.since, torch.__version__, internal.until or "99.0"
    first, this, end = (tuple(map(int, version.split(".")[:2])) for version in versions)
    assert internal.present or not first <= this < end
    assert this < end or not internal.present


def test_what_is_bound_is_listed():
    """Every private name behind the plain ones is a path of the table."""
    tree = ast.parse(ACCESS.read_text(encoding="utf-8"))
    paths = {path for each in INTERNALS for path in each.paths}
    reached = set(filter(_reaches_inside, _imported(tree)))
    for owner, name in _attributes(tree):
        whole = f"{owner}.{name}"
        if whole.startswith("torch._C.") and not hasattr(find(whole), "__path__"):
            reached.add(whole)
    packages = {"torch._C._autograd", "torch._C._functorch", "torch._C._nn", "torch._C.DispatchKey"}
    unlisted = {
        name
        for name in reached - packages
        if not any(path == name or path.startswith(f"{name}.") for path in paths)
    }
    assert unlisted <= {
        "torch._C.DispatchKey.CPU",
        "torch._C.DispatchKey.CUDA",
        "torch.utils._pytree",
    }


@pytest.mark.parametrize("path", ["torch.no_such_name", "torch._C._no_such_name", "sys._no_such"])
def test_what_is_not_there_is_not_found(path):
    """Looking for a name that does not exist is no error."""
    assert find(path) is None


def test_names_and_modules_are_found():
    """Names are found in modules that nobody has imported, too."""
    assert find("torch.nn.Linear") is torch.nn.Linear
    assert find("torch.utils.benchmark.Timer").__name__ == "Timer"


def test_a_torch_without_what_is_needed_is_refused(monkeypatch):
    """One sentence says what is there and what is needed."""
    lacking = dataclasses.replace(table.COMPILER_STANCE, paths=("torch.compiler.no_such_name",))
    monkeypatch.setattr(table, "INTERNALS", (lacking,))
    with pytest.raises(UnsupportedTorch) as caught:
        importlib.reload(internals)
    said = str(caught.value)
    assert f"PyTorch {OLDEST} or newer" in said
    assert f"this is PyTorch {torch.__version__}, which has no torch.compiler.no_such_name" in said


def test_doctor_lists_all(capsys, monkeypatch):
    """The doctor says of each whether it is there, and what is different where it is not."""
    gone = dataclasses.replace(table.BACKWARD_CALLS, works=lambda: False)
    others = tuple(each for each in INTERNALS if each is not table.BACKWARD_CALLS)
    monkeypatch.setattr(table, "INTERNALS", (gone, *others))
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for each in others:
        answer = "yes" if each.present else "no"
        assert any(line.startswith(f"{answer:<5} {each.name}: {each.gives}") for line in lines)
    told = f"no    {gone.name}: {gone.gives} (PyTorch 2.11 has it). Without: {gone.without}"
    assert told in lines
