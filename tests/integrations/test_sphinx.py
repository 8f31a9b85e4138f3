"""The Sphinx directive: real projects, built."""

from __future__ import annotations

import re
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

pytest.importorskip("sphinx")

import torch  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402
from torch import nn  # noqa: E402

import torchrecorder  # noqa: E402
from torchrecorder.errors import LayoutFailed  # noqa: E402
from torchrecorder.integrations.sphinx import options  # noqa: E402
from torchrecorder.integrations.sphinx.alt import described  # noqa: E402
from torchrecorder.integrations.sphinx.links import aside, with_addresses  # noqa: E402
from torchrecorder.options import OPTIONS  # noqa: E402

NETS = '''
from pathlib import Path
from torch import nn
from {name}_parts import Block

def net(width=4):
    """Counts how often it is called."""
    with Path(__file__).with_name("calls").open("a") as calls:
        calls.write("x")
    return nn.Sequential(Block(width), Block(width), nn.Linear(width, 2))

def broken():
    """A model that raises."""
    return nn.Sequential(nn.Linear(4, 2), nn.Linear(4, 2))

def bare():
    assert not nn

def leaving():
    raise SystemExit("enough")
'''
SHY = """
import warnings
from torch import nn
from NETS import net

class Shy:
    def __getattribute__(self, name):
        warnings.warn("deprecated", FutureWarning, stacklevel=2)
        return object.__getattribute__(self, name)

shy = Shy()
"""
PARTS = '''
from torch import nn

class Block(nn.Module):
    """A layer, and a way around it."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        """Features like *x*."""
        return x + self.layer(x).relu()
'''


class Project:
    """A Sphinx project in a folder, with a module of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.write(f"{name}.py", NETS.format(name=name))
        self.write(f"{name}_parts.py", PARTS)
        self.write(
            "conf.py",
            "extensions = ['torchrecorder.integrations.sphinx', 'sphinx.ext.autodoc']\n"
            "html_theme = 'alabaster'\nhtml_show_sphinx = False\n",
        )

    def write(self, name: str, text: str) -> None:
        """A file of the project; ``NETS`` in it is the name of the module."""
        said = textwrap.dedent(text).replace("NETS", self.name).lstrip("\n")
        (self.folder / name).write_text(said, encoding="utf-8")

    def build(self, builder: str = "html", *options: str, strict: bool = True) -> Path:
        """Build it, and give the folder of what was built."""
        for name in [each for each in sys.modules if each.startswith(self.name)]:
            del sys.modules[name]  # as in a new process
        out = self.folder / "_build" / builder
        trees = str(self.folder / "_build" / "doctrees")
        strictly = ("-W", "-n") if strict else ()
        code = build_main(
            ["-q", *strictly, *options, "-b", builder, "-d", trees, str(self.folder), str(out)]
        )
        assert code == 0
        return out

    def calls(self) -> int:
        """How often the factory has been called."""
        calls = self.folder / "calls"
        return len(calls.read_text()) if calls.exists() else 0


@pytest.fixture
def project(tmp_path, monkeypatch, request) -> Project:
    """An empty project, whose folder can be imported from."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    number = abs(hash(request.node.name)) % 10**9
    return Project(tmp_path, f"nets_{number}")


PAGE = """
    Page
    ====

    .. torchrecorder:: NETS:net
       :shape: 1,4
       :depth: 2
       :caption: The *net*, with **two** blocks.
       :name: the-net
       :width: 80%

    See :ref:`the-net`.

    .. autoclass:: NETS_parts.Block
"""


def _svgs(out: Path) -> list[str]:
    return [each.read_text() for each in sorted((out / "_images").glob("torchrecorder-*.svg"))]


def test_html(project):
    """Two figures, one for each kind of paper, in a frame with caption, name and width."""
    project.write("index.rst", PAGE)
    page = (project.build() / "index.html").read_text()
    assert page.count("<object") == 2
    assert page.count('style="width: 80%"') == 2
    assert '<figure class="torchrecorder align-center" id="the-net">' in page
    assert "The <em>net</em>, with <strong>two</strong> blocks." in page
    assert 'aria-label="Sequential: from input 1×4 to 1×2, 50 params"' in page
    assert "torchrecorder.css" in page and "torchrecorder.js" in page


def test_html_files(project):
    """The files are there: figures with tooltips, on no paper of their own, and what picks one."""
    project.write("index.rst", PAGE)
    out = project.build()
    light_and_dark = _svgs(out)
    assert len(light_and_dark) == 2 and light_and_dark[0] != light_and_dark[1]
    for svg in light_and_dark:
        assert "in_features=4, out_features=2" in svg
        assert "torchrecorder:" not in svg
    for name in ("torchrecorder.css", "torchrecorder.js"):
        assert (out / "_static" / name).stat().st_size


def test_links(project):
    """Boxes link to where their class is documented, seen from the folder of the figures."""
    project.write("index.rst", PAGE)
    block = f"{project.name}_parts.Block"
    for svg in _svgs(project.build()):
        assert svg.count(f'xlink:href="../index.html#{block}"') == 1
        assert svg.count("<a ") == svg.count("</a>") == 1
    for svg in _svgs(project.build("dirhtml")):
        assert svg.count(f'xlink:href="../#{block}"') == 1


def test_links_can_be_left_out(project):
    """torchrecorder_links = False."""
    project.write("index.rst", PAGE)
    assert not any("<a " in svg for svg in _svgs(project.build("html", "-Dtorchrecorder_links=0")))


def test_one_theme(project):
    """With a theme of its own, or without dark figures, there is one."""
    project.write("index.rst", PAGE.replace(":depth: 2", ":theme: print"))
    assert (project.build() / "index.html").read_text().count("<object") == 1
    project.write("index.rst", PAGE)
    out = project.build("html", "-Dtorchrecorder_dark=0")
    assert (out / "index.html").read_text().count("<object") == 1


def test_latex(project):
    """A PDF that LaTeX includes, as wide as was asked for."""
    project.write("index.rst", PAGE)
    out = project.build("latex")
    (text,) = out.glob("*.tex")
    (figure,) = out.glob("torchrecorder-*.pdf")
    assert figure.read_bytes().startswith(b"%PDF")
    included = f"\\sphinxincludegraphics[width=0.800\\linewidth]{{{{{figure.stem}}}.pdf}}"
    assert included in text.read_text()


@pytest.mark.parametrize("builder", ["text", "man", "texinfo", "epub", "singlehtml", "xml"])
def test_other_builders(project, builder):
    """Every builder has a place for the figure, if only for its alternative text."""
    conf = (project.folder / "conf.py").read_text()
    project.write("conf.py", conf + "version = copyright = '1'\n")
    project.write("index.rst", PAGE.replace(":depth: 2", ":alt: A tiny net & so on."))
    out = project.build(builder)
    files = [each for each in out.rglob("*") if each.suffix not in (".pyc", ".epub")]
    found = [each for each in files if each.is_file() and b"A tiny net" in each.read_bytes()]
    assert found


def test_code(project):
    """Code in the body makes the model; it can be shown, and changed."""
    page = """
        Page
        ====

        .. torchrecorder::
           :code: before
           :direction: LR

           import torch
           from torch import nn

           nn.Linear(3, 7), torch.ones(1, 3)
    """
    project.write("index.rst", page)
    out = project.build()
    assert "highlight-python" in (out / "index.html").read_text()
    assert all("3 → 7" in svg for svg in _svgs(out))
    project.write("index.rst", page.replace("7", "8"))
    assert any("3 → 8" in svg for svg in _svgs(project.build()))


def test_saved_recording(project):
    """A saved recording is drawn as it is, beside the page or below the root."""
    recording = torchrecorder.record(nn.Linear(4, 2), torch.ones(1, 4))
    recording.save(project.folder / "run.json.gz")
    project.write("index.rst", "Page\n====\n\n.. torchrecorder:: /run.json.gz\n")
    assert all("4 → 2" in svg for svg in _svgs(project.build()))


def test_file_target(project):
    """A file is looked for beside the page."""
    project.write("index.rst", PAGE.replace("NETS:net", "NETS.py:net").replace("2\n", "1\n"))
    assert len(_svgs(project.build())) == 2


def test_defaults(project):
    """The configuration can say options for all figures; a figure has the last word."""
    conf = (project.folder / "conf.py").read_text()
    project.write("conf.py", conf + "torchrecorder_defaults = {'depth': 0, 'shapes': False}\n")
    project.write("index.rst", PAGE.replace(":depth: 2", ":option: shapes=True"))
    assert all(">layer:" not in svg and "2 → 2" not in svg for svg in _svgs(project.build()))


def test_recorded_once(project):
    """Neither another builder, nor other options of the figure, nor a new reading runs it again."""
    project.write("index.rst", PAGE)
    project.build()
    assert project.calls() == 1
    project.build("latex")
    project.build("html", "-E")
    project.write("index.rst", PAGE.replace(":depth: 2", ":depth: 1"))
    project.build()
    assert project.calls() == 1


def test_drawn_once(project):
    """A figure that was drawn is not drawn again."""
    project.write("index.rst", PAGE)
    project.build()
    cache = project.folder / "_build" / "doctrees" / "torchrecorder"
    before = {each: each.stat().st_mtime_ns for each in cache.iterdir()}
    project.build("html", "-E", "-a")
    assert {each: each.stat().st_mtime_ns for each in cache.iterdir()} == before


@pytest.mark.parametrize("changed", ["{}.py", "{}_parts.py"])
def test_code_changes(project, changed):
    """A page is read again, and its model run, when the code that it names or uses changes."""
    project.write("index.rst", PAGE)
    project.build()
    file = project.folder / changed.format(project.name)
    file.write_text(file.read_text() + "\n# Another version.\n")
    project.build()
    assert project.calls() == 2


def test_options_of_the_run(project):
    """Arguments of the factory, inputs, and how it is run."""
    project.write(
        "index.rst",
        """
        Page
        ====

        .. torchrecorder:: NETS:net
           :set: width=6
           :shape: 5,6
           :backward:
           :grad: yes
           :label: Six
           :color-by: saved_bytes
           :legend:
           :fold: no
           :hide: relu
        """,
    )
    out = project.build()
    assert 'aria-label="Six: from input 5×6 to 5×2' in (out / "index.html").read_text()
    assert all("6 → 6" in svg for svg in _svgs(out))


def test_parallel(project):
    """Pages are read and written by several processes at a time."""
    names = [f"page{number}" for number in range(6)]
    project.write("index.rst", "Pages\n=====\n\n.. toctree::\n\n   " + "\n   ".join(names) + "\n")
    for name in names:
        project.write(f"{name}.rst", PAGE.replace("the-net", name))
    text = (project.folder / "page0.rst").read_text()
    for name in names[1:]:
        project.write(f"{name}.rst", text.replace("page0", name).split(".. autoclass")[0])
    out = project.build("html", "-j", "2")
    assert len(_svgs(out)) == 2
    assert all("<object" in (out / f"{name}.html").read_text() for name in names)


WRONG = {
    "no such module": ("NETS_gone:net", "", 4, "there is no module"),
    "no such name": ("NETS:nett", "", 4, "has no 'nett'; there are net"),
    "no path": ("NETS", "", 4, "write package.module:name"),
    "neither": ("", "", 4, "either package.module:name or code"),
    "both": ("NETS:net", "\n   net()", 4, "not both"),
    "no inputs": ("NETS:net", "", 4, "--shape 1,3,224,224"),
    "a wrong shape": ("NETS:net", "   :shape: 1;x", 4, "cannot read the shape 'x'"),
    "a model that raises": ("NETS:broken", "   :shape: 1,4", 4, "mat1 and mat2"),
    "a factory that leaves": ("NETS:leaving", "", 4, "SystemExit: enough"),
    "a wrong theme": ("NETS:net", "   :theme: pink", 4, ":theme: it must be 'light', 'dark' or"),
    "a wrong option": ("NETS:net", "   :option: dept=2", 4, "did you mean 'depth'"),
    "a wrong depth": ("NETS:net", "   :depth: -2", 4, ":depth: it must be a whole number"),
    "bad syntax": ("", "\n   import torch\n   x = = 3", 7, "SyntaxError"),
    "code that raises": ("", "\n   import torch\n\n   1 / 0", 8, "ZeroDivisionError"),
    "code without a model": ("", "\n   import torch", 4, "its last line must be a model"),
    "code with no model": ("", "\n   3", 4, "which is no model"),
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


def test_an_unknown_option(project, capsys):
    """It is an error of the directive, with a suggestion."""
    project.write("index.rst", "A\n=\n\n.. torchrecorder:: NETS:net\n   :dept: 2\n")
    project.build(strict=False)
    assert "did you mean 'depth'" in capsys.readouterr().err


def test_a_bare_assertion_is_told_by_its_line(project, capsys):
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


def test_page(project):
    """A recording as a page inside the page."""
    project.write("index.rst", PAGE.replace(":width: 80%", ":format: html\n       :height: 20em"))
    out = project.build()
    assert '<iframe class="torchrecorder-page"' in (out / "index.html").read_text()
    (page,) = (out / "_images").glob("torchrecorder-*.html")
    assert "<html" in page.read_text()


def test_explore(project):
    """A figure with a link to its page."""
    project.write("index.rst", PAGE.replace(":width: 80%", ":explore:"))
    out = project.build()
    (page,) = (out / "_images").glob("torchrecorder-*.html")
    assert f'href="_images/{page.name}"' in (out / "index.html").read_text()


@pytest.mark.parametrize(
    ("address", "page", "folder", "seen"),
    [
        ("https://example.org/a.html#b", "guide/x.html", "_images", "https://example.org/a.html#b"),
        ("#b", "guide/x.html", "_images", "../guide/x.html#b"),
        ("../api.html#b", "guide/x.html", "_images", "../api.html#b"),
        ("y.html", "guide/x.html", "_images", "../guide/y.html"),
        ("#b", "", "_images", "../#b"),
        ("../y/#b", "guide/x/", "_images", "../guide/y/#b"),
    ],
)
def test_addresses(address, page, folder, seen):
    """An address on a page, as a file among the images writes it."""
    assert aside(address, page, folder) == seen


def test_options_of_the_directive():
    """What text can express of a drawing is an option, also with hyphens; functions are not."""
    written = {name for name, one in OPTIONS.items() if one.check.read is not None}
    assert written <= set(options.ALL) and len(written) > 30
    assert {"color-range", "edge-attributes", "as-is", "label"} <= set(options.ALL)
    assert not {"rules", "finish", "notes"} & set(options.ALL)


def test_several_values():
    """They stand on lines of their own, or between semicolons."""
    given = {
        "rename": "fc = Classifier\nconv1=Stem", "group": "Stem = conv1, bn1", "hide": "a, b; c",
        "node-attributes": "penwidth=2", "option": "ranksep=1; nodesep=0.5", "fold": None,
    }
    assert options.drawing(given) == {
        "rename": {"fc": "Classifier", "conv1": "Stem"}, "group": {"Stem": ("conv1", "bn1")},
        "hide": ("a", "b", "c"), "node_attributes": {"penwidth": "2"}, "ranksep": 1,
        "nodesep": 0.5, "fold": True,
    }
    made = options.target("nets:Net", {"shape": "1,3\nx=2", "arg": "3; gelu", "set": "bias=no"})
    assert [(shape.name, shape.sizes) for shape in made.shape] == [(None, (1, 3)), ("x", (2,))]
    assert (made.arg, made.set, made.seed, made.train) == ((3, "gelu"), {"bias": "no"}, 0, False)
    with pytest.raises(ValueError, match=":rename: cannot read 'fc': write NAME=TEXT"):
        options.drawing({"rename": "fc"})


def test_links_without_addresses_are_none():
    """Only names that are documented somewhere stay links."""
    links = [f'<a xlink:href="torchrecorder:{name}"><g>{name}</g></a>' for name in ("a.B", "c")]
    svg = "".join(links)
    assert with_addresses(svg, {"a.B": "x?y&z"}) == (
        '<a xlink:href="x?y&amp;z" target="_parent"><g>a.B</g></a><g>c</g>'
    )


def test_described():
    """Alternative text names three ends at most."""
    four = tuple(torch.ones(2) for _ in range(4))
    recording = torchrecorder.record(lambda a, b, c, d: a + b + c + d, four)
    assert recording.name in described(recording) and "…" in described(recording)


DARK_PAPER = "body, div.body { background: oklch(0.2 0.02 250); color: white }"


@pytest.mark.page
@pytest.mark.parametrize(
    ("style", "system", "shown"),
    [("", "light", "light"), ("", "dark", "light"), (DARK_PAPER, "light", "dark")],
    ids=["light", "a theme that stays light", "dark"],
)
def test_figure_for_the_paper(project, style, system, shown):
    """The figure of the pair is shown that fits the colour which the page really has."""
    from tests.page.browser import browser

    conf = (project.folder / "conf.py").read_text()
    project.write("conf.py", conf + "html_static_path = ['static']\nhtml_css_files = ['own.css']\n")
    (project.folder / "static").mkdir()
    project.write("static/own.css", style)
    project.write("index.rst", PAGE)
    index = project.build() / "index.html"
    with browser() as program:
        page = program.new_page(color_scheme=system)
        page.goto(index.as_uri())
        page.wait_for_selector("[data-torchrecorder-paper]", state="attached")
        seen = {kind: page.is_visible(f"object.torchrecorder-{kind}") for kind in ("light", "dark")}
        assert seen == {"light": shown == "light", "dark": shown == "dark"}
        page.evaluate("document.body.setAttribute('data-theme', 'other')")
        assert page.is_visible(f"object.torchrecorder-{shown}")


def test_fold_is_a_word_or_a_flag():
    """As `Recording.render` takes it."""
    texts = (None, "yes", "no", "similar")
    read = [options.drawing({"fold": text})["fold"] for text in texts]
    assert read == [True, True, False, "similar"]
    with pytest.raises(ValueError, match=":fold: it must be yes, no or 'similar', not 'perhaps'"):
        options.drawing({"fold": "perhaps"})
