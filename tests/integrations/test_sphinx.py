"""The Sphinx directive: real projects, built."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sphinx")

import torch  # noqa: E402
from torch import nn  # noqa: E402

import torchrecorder  # noqa: E402
from tests.integrations.sphinx_project import PAGE  # noqa: E402
from torchrecorder.capture.internals.table import SAVED_TENSORS  # noqa: E402


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


@pytest.mark.parametrize(
    "lines",
    [
        (":shape: 1,4", ":group: |", ":  Stem = 0, 1", ":  Rest = 2"),
        (":shape: 1,4", ":group: Stem = 0, 1; Rest = 2"),
        ("---", "shape: 1,4", "group: |", "  Stem = 0, 1", "  Rest = 2", "---"),
    ],
)
def test_several_values_in_myst(project, lines):
    """On lines that begin with a colon, as the guide shows, on one line, or in a block of YAML."""
    pytest.importorskip("myst_parser")
    conf = (project.folder / "conf.py").read_text(encoding="utf-8")
    project.write("conf.py", conf.replace("['", "['myst_parser', '", 1))
    page = ["# Nets", "", "```{torchrecorder} NETS:net", *lines, "```", ""]
    project.write("index.md", "\n".join(page))
    light, *_ = _svgs(project.build())
    assert "Stem" in light and "Rest" in light


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


@pytest.mark.parametrize(
    ("builder", "suffix", "text"),
    [("man", ".1", r"[one {a} \- b]"), ("texinfo", ".texi", "[one @{a@} - b]")],
)
def test_alternative_texts_are_paragraphs(project, builder, suffix, text):
    """Each on a line of its own, in the spelling of the format."""
    figure = ".. torchrecorder:: NETS:net\n   :shape: 1,4\n   :alt: one {a} - b\n\n"
    project.write("index.rst", f"Page\n====\n\n{figure}{figure}")
    (file,) = project.build(builder).glob(f"*{suffix}")
    assert file.read_text().splitlines().count(text) == 2


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
        f"""
        Page
        ====

        .. torchrecorder:: NETS:net
           :set: width=6
           :shape: 5,6
           :backward:
           :grad: yes
           :label: Six
           :color-by: {"saved_bytes" if SAVED_TENSORS.present else "backward_time"}
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


def test_options_of_one_format(project):
    """What only a figure has does not count for its page, and defaults hold where they can."""
    conf = (project.folder / "conf.py").read_text()
    project.write("conf.py", conf + "torchrecorder_defaults = {'layout': 'dot'}\n")
    page = PAGE.replace(":width: 80%", ":explore:\n       :times: no")
    project.write("index.rst", page + "\n" + PAGE.split("See")[0].replace("2\n", "1\n").replace(
        ":name: the-net", ":format: html"
    ).replace("Page\n    ====", ""))
    out = project.build()
    assert len(list((out / "_images").glob("torchrecorder-*.html"))) == 2
    project.build("latex")


def test_numbers_are_measured(project):
    """Those that a figure shows, without an option of the run."""
    project.write("index.rst", PAGE.replace(":width: 80%", ":numbers: backward_time, flops"))
    assert all("FLOP" in svg for svg in _svgs(project.build()))


DARK_PAPER = "body, div.body { background: oklch(0.2 0.02 250); color: white }"


@pytest.mark.page
@pytest.mark.parametrize(
    ("style", "system", "shown"),
    [("", "light", "light"), ("", "dark", "light"), (DARK_PAPER, "light", "dark")],
    ids=["light", "a theme that stays light", "dark"],
)
def test_figure_for_the_paper(project, style, system, shown):
    """The figure of the pair is shown that fits the color which the page really has."""
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
