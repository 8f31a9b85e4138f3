"""The public names: there, documented, and cheap to import."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import torchrecorder
from torchrecorder.errors import InvalidArgument


@pytest.mark.parametrize("name", torchrecorder.__all__)
def test_name_is_there_and_documented(name):
    """Every public name can be had and says what it is."""
    assert getattr(torchrecorder, name).__doc__.strip()


def test_unknown_name_is_an_attribute_error():
    """A name that is not there fails as on any module."""
    with pytest.raises(AttributeError, match="no attribute 'nonesuch'"):
        torchrecorder.nonesuch


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_import_leaves_the_rest_for_later():
    """Importing the package imports neither torch nor Graphviz nor networkx."""
    heavy = "{'torch', 'graphviz', 'networkx'}"
    code = f"import sys, torchrecorder; print(*sorted({heavy} & {{*sys.modules}}))"
    assert _python(code).stdout.split() == []


def test_recording_imports_no_drawing():
    """Recording imports what records, and nothing that draws."""
    code = (
        "import torch, sys, torchrecorder; torchrecorder.record;"
        "drawing = ('torchrecorder.style', 'graphviz');"
        "print(*(name for name in sys.modules if name.startswith(drawing)))"
    )
    assert _python(code).stdout.split() == []


def test_import_collects_garbage_once() -> None:
    """Importing what records searches for garbage once, at its end, and not every few modules."""
    code = (
        "import torch, gc, torchrecorder; started = [];"
        "gc.callbacks.append(lambda phase, _: started.append(phase) if phase == 'start' else None);"
        "torchrecorder.record; gc.callbacks.clear(); print(len(started) <= 1, gc.isenabled())"
    )
    assert _python(code).stdout.split() == ["True", "True"]


def test_the_first_recording_waits_for_no_library():
    """The first recording imports nothing but torch's own modules, that for its rows, and what
    finds objects by name.

    In PyTorch 2.6 its module for checkpointing needs sympy.
    """
    code = (
        "import torch.utils.checkpoint, sys; layer = torch.nn.Linear(2, 2); layer(torch.ones(2));"
        "had = {*sys.modules};"
        "import torchrecorder; torchrecorder.record(layer, torch.ones(2));"
        "new = {name.partition('.')[0] for name in {*sys.modules} - had};"
        "print(*sorted(new - {'torchrecorder'}))"
    )
    assert {*_python(code).stdout.split()} <= {"msgspec", "decimal", "_decimal", "pkgutil"}


@pytest.mark.parametrize("suffix, needed", [("html", {"jinja2", "markupsafe"}), ("svg", set())])
def test_the_first_figure_waits_for_no_other_library(
    suffix: str, needed: set[str], tmp_path: Path
) -> None:
    """The first page or figure of a process imports no library that it does not need."""
    code = (
        "import torch, sys, torchrecorder;"
        "recording = torchrecorder.record(torch.nn.Linear(2, 2), torch.ones(2));"
        "had = {*sys.modules};"
        f"recording.render({str(tmp_path / f'figure.{suffix}')!r});"
        "new = {name.partition('.')[0] for name in {*sys.modules} - had};"
        "print(*sorted(new - {'torchrecorder', *sys.stdlib_module_names}))"
    )
    assert {*_python(code).stdout.split()} <= needed


def test_what_is_no_recording_is_refused() -> None:
    """A model given where a recording is wanted: the message says how to make one."""
    model = object()
    for use in (torchrecorder.view, torchrecorder.make_dot, torchrecorder.figure):
        with pytest.raises(InvalidArgument, match=r"object: .*torchrecorder\.record"):
            use(model)
    with pytest.raises(InvalidArgument, match="not an? int"):
        torchrecorder.compare(3, model)


def test_all_names_are_listed() -> None:
    """Those that are not imported yet too, and nothing that the module imports."""
    names = dir(torchrecorder)
    assert [name for name in names if not name.startswith("_")] == sorted(torchrecorder.__all__)
    assert "__version__" in names


def test_the_command_line_starts_with_the_module_only(capsys, monkeypatch) -> None:
    """Not where a process of a data loader imports it once more, under another name."""
    monkeypatch.setattr(sys, "argv", ["torchrecorder", "--version"])
    path = torchrecorder.__file__.replace("__init__", "__main__")
    runpy.run_path(path, run_name="__mp_main__")
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(path, run_name="__main__")
    assert not stopped.value.code and torchrecorder.__version__ in capsys.readouterr().out
