"""Settings of the documentation: ``sphinx-build -W -n docs docs/_build/html``.

With ``-t quick`` pages are left out that need torchvision, transformers or torch_geometric.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

import torchrecorder  # noqa: E402

QUICK = tags.has("quick")  # type: ignore[name-defined]  # noqa: F821

if not QUICK:
    from tests import torchvision_shim

    torchvision_shim.install()

project = "torchrecorder"
author = "The torchrecorder developers"
version = release = torchrecorder.__version__
copyright = author

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "torchrecorder.integrations.sphinx",
    "architecture",
    "console",
    "option_list",
]
exclude_patterns = ["_build"]
if QUICK:
    exclude_patterns += ["gallery/*", "guide/large.md"]
    suppress_warnings = ["toc.excluded", "toc.not_readable"]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

default_role = "py:obj"
nitpick_ignore_regex = [
    (r"py:obj", r".*"),  # a word in backticks that is no name of ours is a word
    (r"py:.*", r"(?!torchrecorder\.).*"),  # what Python, PyTorch and networkx explain
    (r"py:class", r"torchrecorder\.[a-z_]+\..*"),  # types of signatures, from inner modules
]
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"torchrecorder {release}"
html_static_path = ["static"]
html_css_files = ["docs.css"]
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00649b", "color-brand-content": "#00649b"},
    "dark_css_variables": {"color-brand-primary": "#6cbbe8", "color-brand-content": "#6cbbe8"},
}
html_show_sphinx = False

latex_engine = "xelatex"


def setup(app):
    """Fields of named tuples are explained by their class; what Python says adds nothing."""
    app.connect(
        "autodoc-skip-member",
        lambda app, kind, name, member, skip, options: type(member).__name__ == "_tuplegetter"
        or None,
    )
