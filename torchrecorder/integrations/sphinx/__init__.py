"""Sphinx: the ``torchrecorder`` directive, which records a model and shows its figure.

::

    .. torchrecorder:: package.module:factory
       :shape: 1,3,224,224
       :depth: 2
       :caption: The encoder.

A model is recorded once, when a page is read; a figure is drawn when it is written, in the
format that the builder needs. Both are kept in ``torchrecorder/`` beside the doctrees, under
names made from the code of the target, all options and all versions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrecorder import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_STATIC = Path(__file__).with_name("static")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx: ``extensions = ["torchrecorder.integrations.sphinx"]``."""
    # Here, because the MkDocs block shares modules of this package where Sphinx is not there.
    from torchrecorder.integrations.sphinx.directive import TorchRecorder
    from torchrecorder.integrations.sphinx.links import resolve_links
    from torchrecorder.integrations.sphinx.node import Recorded
    from torchrecorder.integrations.sphinx.writers import VISITORS

    app.add_node(Recorded, **VISITORS)
    app.add_directive("torchrecorder", TorchRecorder)
    app.add_config_value("torchrecorder_defaults", {}, "env", [dict])
    app.add_config_value("torchrecorder_dark", True, "html", [bool])
    app.add_config_value("torchrecorder_links", True, "html", [bool])
    app.add_css_file("torchrecorder.css")
    app.add_js_file("torchrecorder.js", loading_method="defer")
    app.connect("doctree-resolved", resolve_links)
    app.connect("build-finished", _copy_static)
    return {
        "version": __version__,
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }


def _copy_static(app: Sphinx, error: Exception | None) -> None:
    from sphinx.util.fileutil import copy_asset

    if error is None and app.builder.format == "html":
        copy_asset(_STATIC, Path(app.outdir) / "_static", force=True)
