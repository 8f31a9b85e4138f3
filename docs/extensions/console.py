"""console: a command of torchrecorder and what it prints, run when the page is read."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from typing import Any
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from torchrecorder.integrations.cli import main

logger = logging.getLogger(__name__)


class Console(SphinxDirective):
    """``.. console:: render --help`` runs torchrecorder with these arguments."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The command and what it printed."""
        command, printed = self.arguments[0], io.StringIO()
        with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, COLUMNS="96"):
            try:
                code = main(shlex.split(command))
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 1
        if code:
            where = self.get_location()
            logger.warning("torchrecorder %s: exit code %s", command, code, location=where)
        text = f"$ torchrecorder {command}\n{printed.getvalue()}"
        return [nodes.literal_block(text, text, language="console")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("console", Console)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
