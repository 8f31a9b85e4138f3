"""The Sphinx directive: what it says of pages with mistakes."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch import nn

pytest.importorskip("sphinx")

import torchrecorder  # noqa: E402
from tests.integrations.sphinx_project import PAGE, SHY  # noqa: E402
from torchrecorder.errors import LayoutFailed  # noqa: E402

WRONG = {
    "no such module": ("NETS_gone:net", "", 4, "there is no module"),
    "no such name": ("NETS:nett", "", 4, "has no 'nett'; it has 'net'"),
    "no such file": ("gone.json", "", 4, "there is no file 'gone.json'"),
    "no path": ("NETS", "", 4, "write package.module:name"),
    "neither": ("", "", 4, "either package.module:name or code"),
    "both": ("NETS:net", "\n   net()", 4, "not both"),
    "no inputs": ("NETS:net", "", 4, ":shape: 1,3,224,224 or :inputs:"),
    "a wrong shape": ("NETS:net", "   :shape: 1;x", 4, "cannot read the shape 'x'"),
    "a model that raises": ("NETS:broken", "   :shape: 1,4", 4, "mat1 and mat2"),
    "a factory that leaves": ("NETS:leaving", "", 4, "SystemExit: enough"),
    "a wrong theme": ("NETS:net", "   :theme: pink", 4, ":theme: it must be 'light', 'dark' or"),
    "a wrong option": ("NETS:net", "   :option: dept=2", 4, "did you mean 'depth'"),
    "a wrong depth": ("NETS:net", "   :depth: -2", 4, ":depth: it must be a whole number"),
    "bad syntax": ("", "\n   import torch\n   x = = 3", 7, "SyntaxError"),
    "code that raises": ("", "\n   import torch\n\n   1 / 0", 8, "ZeroDivisionError"),
    "code without a model": ("", "\n   import torch", 4, "its last line must be a model"),
    "code with no model": ("", "\n   3", 4, "which is neither a model nor a recording"),
}


@pytest.mark.parametrize("case", WRONG)
def test_warnings(project, capsys, case):
    """What goes wrong is a warning with file and line; the rest of the page is built."""
    target, body, line, message = WRONG[case]
    page = f"Page\n====\n\n.. torchrecorder:: {target}\n{body}\n\nThe rest.\n"
    project.write("index.rst", page)
    out = project.build(strict=False)
    said = capsys.readouterr().err
    assert f"index.rst:{line}: WARNING: " in said
    assert message in said
    html = (out / "index.html").read_text()
    assert "The rest." in html and "torchrecorder-failed" in html
    assert "could not be made" in html
    assert re.search(r"\w+", message)[0] in html.partition("torchrecorder-failed")[2]


def test_names_of_files_are_relative(project, capsys):
    """The page is published: the folder that it is built in does not concern its readers."""
    targets = ("NETS.py:nett", "NETS.py:leaving", "gone.py:net", "gone.json")
    page = "".join(f".. torchrecorder:: {target}\n\n" for target in targets)
    project.write("index.rst", f"P\n=\n\n{page}")
    html = (project.build(strict=False) / "index.html").read_text()
    said = [line.partition(": WARNING: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert len(said) == len(targets) and f"{project.name}.py has no" in said[0]
    assert str(project.folder) not in html + "".join(said)


def test_options_without_effect(project, capsys):
    """Those of a run on what ran already are a warning with file and line, as those of a drawing;
    both are repeated when they come from the cache."""
    torchrecorder.record(nn.Linear(4, 2), torch.ones(1, 4)).save(project.folder / "run.json")
    page = "P\n=\n\n.. torchrecorder:: run.json\n   :flops:\n   :numbers: flops\n"
    for builds in range(2):
        project.write("index.rst", page + "\n" * builds)
        project.build(strict=False)
        said = capsys.readouterr().err
        assert "index.rst:4: WARNING: run.json is a recording: :flops: has no effect" in said
        assert "index.rst:4: WARNING: this recording of Linear has no 'flops'" in said
        assert said.count("WARNING") == 2


def test_an_unknown_option(project, capsys):
    """It is an error of the directive, with a suggestion."""
    project.write("index.rst", "A\n=\n\n.. torchrecorder:: NETS:net\n   :dept: 2\n")
    project.build(strict=False)
    assert "did you mean 'depth'" in capsys.readouterr().err


def test_a_bare_assertion_is_shown_by_its_line(project, capsys):
    """What says nothing itself is no reason."""
    body = ".. torchrecorder:: NETS:bare\n   :name: it\n\n:ref:`x <it>`\n"
    project.write("index.rst", f"P\n=\n\n{body}")
    out = project.build(strict=False)
    assert "AssertionError: " in capsys.readouterr().err
    assert "assert not nn" in (out / "index.html").read_text()


def test_what_is_deprecated_is_not_asked(project, capsys):
    """An object that warns of every question warns of none of ours."""
    project.write("shy.py", SHY)
    project.write("index.rst", PAGE.replace("NETS:net", "shy:net"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        project.build()


@pytest.mark.parametrize("builder", ["html", "latex"])
def test_figure_that_cannot_be_drawn(project, capsys, monkeypatch, builder):
    """A layout that fails when a page is written is a warning, and leaves the text."""

    def fail(*args, **options):
        raise LayoutFailed("it takes too long")

    monkeypatch.setattr("torchrecorder.drawing.render", fail)
    project.write("index.rst", PAGE)
    out = project.build(builder, strict=False)
    assert "index.rst:4: WARNING: it takes too long" in capsys.readouterr().err
    (page,) = out.glob("index.html" if builder == "html" else "*.tex")
    assert "50 params: it takes too long" in page.read_text()
