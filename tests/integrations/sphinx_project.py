"""A Sphinx project in a folder, for tests of the directive."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from sphinx.cmd.build import build_main

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
