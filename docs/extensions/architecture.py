"""architecture: the tree of the package, with the first sentence of every module's docstring."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import torchrecorder

PACKAGE = Path(torchrecorder.__file__).parent


class Architecture(SphinxDirective):
    """``.. architecture::`` a table for each folder of the package, in the given order."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """One section for each line: a folder, ``.`` for the top."""
        return [self.section(line.strip()) for line in self.content if line.strip()]

    def section(self, folder: str) -> nodes.section:
        """What a folder is for, and each of its modules."""
        home = PACKAGE / folder
        title = "torchrecorder" if folder == "." else folder
        section = nodes.section(ids=[nodes.make_id(f"folder-{title}")])
        section += nodes.title(title, title)
        section += nodes.paragraph("", docstring(home / "__init__.py"))
        rows = [(file, docstring(file)) for file in self.files(home, folder)]
        section += _table([(str(file.relative_to(home)), said) for file, said in rows])
        return section

    def files(self, home: Path, folder: str) -> list[Path]:
        """The modules of a folder and of the folders in it."""
        found = home.glob("*.py") if folder == "." else home.rglob("*.py")
        kept = [file for file in found if file != home / "__init__.py"]
        for file in kept:
            self.env.note_dependency(str(file))
        return sorted(kept, key=lambda file: (file.parent != home, str(file)))


def docstring(file: Path) -> str:
    """The first paragraph of what a module says of itself."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].replace("``", "").split())


def _table(rows: list[tuple[str, str]]) -> nodes.table:
    group = nodes.tgroup("", nodes.colspec(colwidth=30), nodes.colspec(colwidth=70), cols=2)
    body = nodes.tbody()
    for name, said in rows:
        cells = [nodes.paragraph("", "", nodes.literal(name, name)), nodes.paragraph(said, said)]
        body += nodes.row("", *(nodes.entry("", cell) for cell in cells))
    group += body
    return nodes.table("", group)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("architecture", Architecture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
