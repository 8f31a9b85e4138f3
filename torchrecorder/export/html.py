"""HTML: an interactive page of a recording, in one file that works offline."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, ClassVar

from torchrecorder.export.exporter import timeout_option, times_option
from torchrecorder.graph.flat import printable
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.option_table import Checked, documented
from torchrecorder.style.style import Style
from torchrecorder.views.view import View

_FOLDER = files("torchrecorder.export").joinpath("page")

STYLES = ("page.css", "cost_table.css")

ESCAPES = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""Characters with a special meaning inside a script element."""


@documented
@dataclass(frozen=True)
class Html(Checked):
    """A page in which scopes open and close in place, with all recorded facts."""

    suffix: ClassVar[str] = ".html"
    times: bool = times_option()
    timeout: float = timeout_option()

    def export(self, view: View, style: Style) -> str:
        from torchrecorder.export.page_data.data import page_data

        with without_gc():
            return page(page_data(view, style, self.times, self.timeout))


def page(data: dict[str, Any]) -> str:
    """The page that shows *data*."""
    return _template().render(  # type: ignore[no-any-return]
        name=printable(data["name"]),
        theme=data["theme"],
        data=embedded(data),
        **_program(),
    )


@lru_cache(maxsize=1)
def _program() -> dict[str, Any]:
    """The scripts, styles and policy, which are those of all pages."""
    names = (file.name for file in _FOLDER.iterdir() if file.name.endswith(".js"))
    # the script that starts the page comes after all that it uses
    ordered = sorted(names, key=lambda name: (name == "page.js", name))
    scripts = [_lean(_asset(name)) for name in ordered]
    css = "".join(_lean(_asset(name)) for name in STYLES)
    return {"scripts": scripts, "style": css, "csp": policy(scripts, css)}


def embedded(data: dict[str, Any]) -> str:
    """*data* as JSON, escaped for a script element."""
    import msgspec

    from torchrecorder.graph.codec import plain

    try:
        text = msgspec.json.encode(data, enc_hook=plain)
    except UnicodeEncodeError:  # half of a pair of surrogates, in a name
        text = json.dumps(data, allow_nan=False, separators=(",", ":")).encode()
    for letter, escaped in ESCAPES.items():
        text = text.replace(letter.encode(), escaped.encode())
    return text.decode()


def policy(scripts: Sequence[str], css: str) -> str:
    """The content security policy: only these scripts and styles, and no network."""
    run = " ".join(f"'{_digest(script)}'" for script in scripts)
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {run}",
            f"style-src '{_digest(css)}'",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _lean(text: str) -> str:
    """*text* without comments, indentation and empty lines: in Markdown, an empty line ends
    HTML."""
    return re.sub(r"^\s*(//.*)?\n|^ +", "", text, flags=re.MULTILINE)


def _asset(name: str) -> str:
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _template() -> Any:
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True).from_string(_asset("template.html"))
