"""The fenced block for MkDocs: real projects, built."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("pymdownx")
pytest.importorskip("docutils")

SETTINGS = """
site_name: Models
plugins: []
markdown_extensions:
  - pymdownx.superfences:
      custom_fences:
        - name: torchrecorder
          class: torchrecorder
          format: !!python/name:torchrecorder.integrations.mkdocs.figure
          validator: !!python/name:torchrecorder.integrations.mkdocs.validate
"""
NETS = """
from torch import nn

def net(width=4):
    return nn.Sequential(nn.Linear(width, 3), nn.ReLU())
"""


class Project:
    """A MkDocs project in a folder, with a file of models beside its page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "docs").mkdir()
        (folder / "mkdocs.yml").write_text(SETTINGS)
        (folder / "docs" / "nets.py").write_text(NETS)

    def build(self, page: str, **others: str) -> tuple[int, str, str]:
        """The exit status of a strict build, the first page and what was said."""
        for name, text in {"index": page, **others}.items():
            (self.folder / "docs" / f"{name}.md").write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        ran = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True
        )
        built = self.folder / "site" / "index.html"
        return ran.returncode, built.read_text() if built.is_file() else "", ran.stderr


@pytest.fixture
def project(tmp_path):
    """A new project."""
    return Project(tmp_path)


def figures(page):
    """The drawings inside a page, by class."""
    found = re.findall(r'<object class="([^"]*)".*?base64,([^"]*)"', page)
    return [(kind.split()[-1], base64.b64decode(data).decode()) for kind, data in found]


def test_figures_of_targets_and_of_code(project):
    """Each has a drawing for light paper and one for dark; the script comes once."""
    code, page, said = project.build(
        """
        ```torchrecorder depth="1"
        nets.py:net
        :shape: 2,4
        :caption: The *small* one.
        :alt: one < two
        ```

        ```torchrecorder
        :theme: print
        :code: before

        from torch import nn, rand
        nn.Tanh(), rand(1, 5)
        ```
        """
    )
    assert code == 0, said
    drawn = figures(page)
    assert [kind for kind, _ in drawn] == [
        "torchrecorder-light", "torchrecorder-dark", "torchrecorder-figure"
    ]
    assert "Linear" in drawn[0][1] and "Tanh" in drawn[2][1] and drawn[0][1] != drawn[1][1]
    assert "<figcaption><p>The <em>small</em> one.</p></figcaption>" in page
    assert 'aria-label="one &lt; two"' in page
    assert "nn.Tanh(), rand(1, 5)</code>" in page
    assert page.count("<style data-torchrecorder>") == 1
    assert list((project.folder / ".cache" / "torchrecorder").glob("*.json.gz"))


def test_numbers_and_options_of_one_format(project):
    """The numbers of a figure are measured; its layout does not count for its page."""
    options = ":shape: 2,4\n:numbers: flops\n:layout: dot\n:explore:"
    code, page, said = project.build(f"```torchrecorder\nnets.py:net\n{options}\n```\n")
    assert code == 0 and "<details>" in page, said
    assert all("FLOP" in svg for _, svg in figures(page))


def test_page_in_a_frame(project):
    """``format: html`` is the page that opens and closes, whole."""
    code, page, said = project.build(
        "```torchrecorder\nnets.py:net\n:shape: 2,4\n:format: html\n:height: 300\n```\n"
    )
    assert code == 0, said
    assert 'srcdoc="&lt;!' in page and "height: 300px" in page and not figures(page)


def test_builds_with_a_cache_warn_again(project):
    """Of what a figure lacks: otherwise a strict build would succeed the second time."""
    page = "# P\n\n```torchrecorder\nnets.py:net\n:shape: 2,4\n:hide: nothing\n```\n"
    first, second = [project.build(page)[::2] for _ in range(2)]
    assert first == second and first[0] == 1
    assert "index.md:4: torchrecorder: hide: no name matches 'nothing'" in first[1]


def test_what_is_wrong_is_stated_in_the_page(project):
    """It fails a strict build by a warning, with the reason; a block is never lost in silence."""
    blocks = {
        "target": ("nets.py:other", "other"),
        "shape": ("nets.py:net\n:shape: 2,5", "shapes cannot be multiplied"),
        "option": ("nets.py:net\n:depht: 2", "no option 'depht'; did you mean 'depth'?"),
        "set": ("nets.py:net\n:set: n=2", ":arg: VALUE and :set: NAME=VALUE; :as-is: records it"),
        "explore": ("nets.py:net\n:explore: perhaps", ":explore: it must be yes or no"),
        "code": ("nets.py:net\nprint()", "either package.module:name"),
        "empty": ("", "either package.module:name"),
        "exit": ("raise SystemExit('enough')", "enough"),
    }
    pages = {name: f"```torchrecorder\n{block}\n```\n" for name, (block, _) in blocks.items()}
    code, _, said = project.build("# Figures\n", **pages)
    assert code == 1
    for name, (_, words) in blocks.items():
        warning = rf"WARNING.*{name}\.md(?::2)?: torchrecorder:.*(?:\n(?!WARNING).*)*"
        (line,) = re.findall(warning, said)
        assert words in line


def test_lines_of_mistakes(project):
    """Those of the page, also where two blocks are equal but for their first line; names of files
    are those that the page has."""
    code, page, said = project.build(
        """
        - A model:

            ```torchrecorder
            :depth: 1

            width = 1
            width / 0
            ```

        ```torchrecorder
        width = (
        ```

        ```torchrecorder
        nets.py:net
        ```

        ```torchrecorder depth="x"
        nets.py:net
        ```

        ```torchrecorder
        nets.py:nothing
        ```

        ```torchrecorder
        missing.json
        ```
        """
    )
    warned = [line for line in said.splitlines() if line.startswith("WARNING")]
    assert code == 1 and str(project.folder) not in "".join(warned) + page
    places = re.findall(r"WARNING -  (\S+): torchrecorder: (.*)", said)
    assert [place for place, _ in places] == [
        "index.md:8", "index.md:12", "index.md", "index.md", "index.md:24", "index.md:28",
    ]
    assert "ZeroDivisionError" in places[0][1] and "(index.md, line 12)" in places[1][1]
    assert places[4][1].startswith("nets.py has no 'nothing'")
    assert places[5][1] == "there is no file 'missing.json'"


def converted(text):
    """The HTML of a page, without a project."""
    import markdown

    from torchrecorder.integrations import mkdocs

    fence = {"name": "torchrecorder", "class": "", "format": mkdocs.figure}
    fence["validator"] = mkdocs.validate
    return markdown.markdown(
        text,
        extensions=["pymdownx.superfences"],
        extension_configs={"pymdownx.superfences": {"custom_fences": [fence]}},
    )


def test_the_rest_of_a_page_is_built():
    """What cannot be made leaves a note in its place."""
    page = converted('Before.\n\n```torchrecorder nothing="<1>"\nno:model\n```\n\nAfter.')
    assert "Before." in page and "After." in page
    assert '<div class="admonition danger">' in page and "no option &#x27;nothing&#x27;" in page


@pytest.mark.parametrize(
    ("where", "order"), [("before", "code figure"), ("after", "figure code"), ("none", "figure")]
)
def test_the_code_of_a_block(where, order, tmp_path, monkeypatch):
    """It stands before or after its figure, or is not shown."""
    monkeypatch.chdir(tmp_path)
    options = f":theme: print\n:code: {where}"
    page = converted(f"```torchrecorder\n{options}\n\nfrom torch import nn, rand\n"
                     "nn.Tanh(), rand(1, 5)\n```\n")
    assert " ".join(re.findall("(?<=<)(?:code|figure)", page)) == order


@pytest.mark.parametrize("source", ["", "no:model\n"])
def test_a_block_that_is_not_closed_is_none(source, tmp_path, monkeypatch, caplog):
    """Also at the end of the page, below one with the same text: mistakes are in that one."""
    monkeypatch.chdir(tmp_path)
    text = f"Before.\n\n```torchrecorder\n{source}```\n\n```torchrecorder\n{source}"
    Path("page.md").write_text(text)
    assert converted(text).count("could not be made") == 1
    assert "page.md:4: torchrecorder:" in caplog.text


def test_a_mistake_is_in_the_block_with_its_text(tmp_path, monkeypatch, caplog):
    """Not in another one with as many lines."""
    monkeypatch.chdir(tmp_path)
    text = '```torchrecorder depth="1"\nno:model\n```\n\n```torchrecorder\nno:other\n```\n'
    Path("page.md").write_text(text)
    assert converted(text).count("could not be made") == 2
    assert "page.md:2: torchrecorder:" in caplog.text and "page.md:6:" in caplog.text


def test_needs_no_sphinx():
    """The modules that are shared with the directive do not import Sphinx."""
    program = "import sys, torchrecorder.integrations.mkdocs; print('sphinx' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "False", ran.stderr


def test_edited_models_are_imported_anew(tmp_path, monkeypatch):
    """As ``mkdocs serve`` needs it, which never ends."""
    from torchrecorder.integrations.mkdocs import _figure
    from torchrecorder.integrations.sphinx.cache import Cache

    monkeypatch.syspath_prepend(tmp_path)
    module, seen = tmp_path / "served_nets.py", []
    for layer in ("Tanh", "Sigmoid"):
        module.write_text(f"from torch import nn\n\ndef net():\n    return nn.{layer}()\n")
        os.utime(module, (time.time() + len(seen) * 10,) * 2)
        block = _figure(
            "served_nets:net\n:shape: 1,2", {}, tmp_path / "a.md", Cache(tmp_path / "cache")
        )
        seen.append(re.findall("Tanh|Sigmoid", figures(block)[0][1])[0])
    assert seen == ["Tanh", "Sigmoid"]


def test_files_are_those_beside_the_page(tmp_path, monkeypatch):
    """Programs and recordings, wherever the build runs; modules are imported as everywhere."""
    import torch

    import torchrecorder
    from torchrecorder.integrations.mkdocs import _figure
    from torchrecorder.integrations.sphinx.cache import Cache

    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "nets.py").write_text(NETS)
    torchrecorder.record(torch.nn.Tanh(), torch.ones(2)).save(docs / "run.json")
    monkeypatch.chdir(tmp_path)
    for block, drawn in (("nets.py:net\n:shape: 2,4", "Linear"), ("run.json", "Tanh")):
        shown = _figure(block, {}, docs / "a.md", Cache(tmp_path / "cache"))
        assert drawn in figures(shown)[0][1]


def test_parts_of_a_block():
    """Options stand in its head, where a flag has itself as its text, or before the code."""
    from torchrecorder.integrations.mkdocs import _parts

    path, asked, code = _parts("nets:net\n:depth: 2\n", {"explore": "explore", "width": "300"})
    assert (path, code) == ("nets:net", "")
    assert asked == {"explore": True, "width": "300", "depth": "2"}
    path, asked, code = _parts(":depth: 1\n\nmodel = 1\n", {})
    assert (path, asked, code) == ("", {"depth": "1"}, "model = 1")
