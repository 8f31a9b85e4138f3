"""torchrecorder html: write the page to explore a model."""

from __future__ import annotations

from dataclasses import dataclass

from torchrecorder.integrations.commands.render import Render


@dataclass(frozen=True)
class Html(Render):
    """Write a page: the whole model in one file, to open, search and explore in a browser.

    examples:
      torchrecorder html torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder html nets.py:make --device meta --backward -o net.html --theme dark
      torchrecorder html run.json.gz -o run.html

    The page needs no server and no network. It is named after the model if -o is not given.
    """

    name: str = "html"
    format: str = "html"
