"""MkDocs: a fenced block ``torchrecorder`` that records a model and shows its figure.

The options are those of the Sphinx directive. Figures are embedded in the page: no files have to be
copied, and styles and ids of figures do not interfere.
"""

from __future__ import annotations

import base64
import html
import logging
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchrecorder.checks import guess
from torchrecorder.errors import InvalidArgument
from torchrecorder.export import by_suffix
from torchrecorder.integrations.sphinx import options
from torchrecorder.integrations.sphinx.cache import Cache
from torchrecorder.integrations.sphinx.node import (
    beside, described, line_of, message_of, size_style, with_options,
)
from torchrecorder.integrations.sphinx.notices import notices_to
from torchrecorder.integrations.sphinx.request import Request
from torchrecorder.integrations.sphinx.sources import file_of
from torchrecorder.integrations.targets import FILES, measuring
from torchrecorder.options import drawing, fitting, shown_numbers

logger = logging.getLogger("mkdocs.plugins.torchrecorder")

_STATIC = Path(options.__file__).with_name("static")
_MARK = "<style data-torchrecorder>"
_TARGET = re.compile(rf"[\w./\\-]+:[\w.]+|\S+({'|'.join(map(re.escape, FILES))})")
_OPTION = re.compile(r":(?P<name>[\w-]+):(?P<text>.*(?:\n[ \t]+\S.*)*)\n?")
_FENCES = "```", "~~~"
_DAYS = 30
"""How many days an unused figure is kept."""

_SEEN: dict[str, int] = {}
"""Modification times of the sources of the figures."""


def validate(language: str, given: Any, chosen: Any, attributes: Any, md: Any) -> bool:
    """Accept all options of the first line: errors are shown in the page."""
    chosen.update(given)
    return True


def figure(
    source: str, language: str, css_class: str, given: Mapping[str, str], md: Any, **_: Any
) -> str:
    """The HTML of a block; if it fails, a visible note and a warning."""
    place = md.treeprocessors["relpath"] if "relpath" in md.treeprocessors else None
    page = Path(place.file.abs_src_path) if place else Path("page.md").absolute()
    root = Path(place.config.config_file_path).parent if place else page.parent

    begins = _begins(source, page)

    def report(text: str, line: int | None = None) -> None:
        number = line or begins
        where = f"{place.file.src_uri if place else page}{f':{number}' if number else ''}"
        logger.warning("%s: torchrecorder: %s", where, beside(text, page))

    try:
        with notices_to(lambda text: report(with_options(text))):
            cache = Cache(root / ".cache" / "torchrecorder", _DAYS)
            shown = _figure(source, given, page, cache, begins or 1)
    except (Exception, SystemExit) as error:  # any exception: the model is the user's
        text = message_of(error, page)
        report(text, line_of(error, page) if begins else None)
        note = html.escape(text).replace("\n", "<br>")
        title = '<p class="admonition-title">This figure could not be made</p>'
        return f'<div class="admonition danger">{title}<p>{note}</p></div>'
    first = not any(_MARK in str(block) for block in md.htmlStash.rawHtmlBlocks)
    return shown + (_look() if first else "")


def _begins(source: str, page: Path) -> int | None:
    """The line of *page* in which the block with *source* begins; None if that is not clear."""
    lines = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
    there, block = [[line.strip() for line in one] for one in (lines, source.splitlines())]
    found = {
        there[n - 1]: n + 1
        for n in range(len(there) - len(block) - 1, 0, -1)
        if there[n : n + len(block)] == block
        and all(there[fence].startswith(_FENCES) for fence in (n - 1, n + len(block)))
    }
    return found.popitem()[1] if len(found) == 1 else None


def _figure(
    source: str, given: Mapping[str, str], page: Path, cache: Cache, begins: int = 1
) -> str:
    path, settings, code = _parts(source, given)
    drawn, framed = options.drawing(settings), settings.get("format") == "html"
    suffix = ".html" if framed else ".svg"
    drawing(by_suffix(suffix), **fitting(drawn, suffix))
    if path.endswith(FILES) or path.rpartition(":")[0].endswith(".py"):
        path = str(page.parent / path)
    _forget_changed()
    target = measuring(options.target(path, settings), shown_numbers(drawn))
    line = begins + source[:source.rindex(code)].count("\n")
    name, sources = cache.recorded(Request(target, code, str(page), line))
    _SEEN.update((file, _changed(file)) for file in sources.files)
    alt = html.escape(settings.get("alt") or described(cache.recording(name)))
    size = size_style(settings)
    shown = "" if framed else _pictures(cache, name, drawn, f'style="{size}" aria-label="{alt}"')
    if framed or settings.get("explore"):
        text = html.escape(cache.figure(name, ".html", drawn).read_text(encoding="utf-8"))
        rights = 'sandbox="allow-scripts allow-downloads"'
        style = f"color-scheme: light; {size * framed}"
        frame = f'<iframe class="torchrecorder-page" style="{style}" title="{alt}" '
        frame += f'{rights} loading="lazy" srcdoc="{text}"></iframe>'
        shown += frame if framed else f"<details><summary>explore it</summary>{frame}</details>"
    return _placed(shown, settings, code)


def _parts(source: str, given: Mapping[str, str]) -> tuple[str, dict[str, Any], str]:
    """The target, the options and the code of a block."""
    first, _, rest = source.lstrip("\n").partition("\n")
    path = first.strip() if _TARGET.fullmatch(first.strip()) else ""
    rest = rest if path else source.lstrip("\n")
    settings = [(name, None if text == name else text) for name, text in given.items()]
    while found := _OPTION.match(rest):
        settings.append((found["name"], found["text"].strip() or None))
        rest = rest[found.end():]
    if bool(path) == bool(rest.strip()):
        raise InvalidArgument("a block has either package.module:name in its first line or code")
    return path, dict(_read(name, text) for name, text in settings), rest.strip("\n")


def _read(name: str, text: str | None) -> tuple[str, Any]:
    if name not in options.ALL:
        there = sorted({item.replace("_", "-") for item in options.ALL})
        hint = guess(name, there) or f"; there are {', '.join(there)}"
        raise InvalidArgument(f"no option {name!r}{hint}")
    try:
        return name, options.ALL[name](text)
    except ValueError as error:
        raise InvalidArgument(f"option {name!r}: {error}") from error


def _pictures(cache: Cache, name: str, drawn: Mapping[str, Any], rest: str) -> str:
    """The figure as one object, or as two objects for light and dark mode."""
    shown = ""
    for theme in (drawn["theme"],) if "theme" in drawn else ("light", "dark"):
        path = cache.figure(name, ".svg", {"background": "transparent", **drawn, "theme": theme})
        data = base64.b64encode(path.read_bytes()).decode()
        kind = "torchrecorder-figure" + f" torchrecorder-{theme}" * ("theme" not in drawn)
        shown += f'<object class="{kind}" type="image/svg+xml" {rest} '
        shown += f'data="data:image/svg+xml;base64,{data}"></object>'
    return shown


def _placed(shown: str, settings: Mapping[str, Any], code: str) -> str:
    """A figure with its caption, and the code if requested."""
    if "caption" in settings:
        from markdown import markdown

        shown += f"<figcaption>{markdown(settings['caption'])}</figcaption>"
    align = settings.get("align", "center")
    kinds = ["torchrecorder", f"align-{align}", *settings.get("class", ())]
    known = f' id="{html.escape(settings["name"])}"' if settings.get("name") else ""
    shown = f'<figure class="{" ".join(kinds)}"{known}>{shown}</figure>'
    block = f'<pre><code class="language-python">{html.escape(code)}</code></pre>'
    where = settings.get("code", "none") if code else "none"
    return block * (where == "before") + shown + block * (where == "after")


def _look() -> str:
    """The style, and the script that detects light or dark mode."""
    style, script = (
        (_STATIC / f"torchrecorder.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")
    )
    return f"{_MARK}{style}</style><script>{script}</script>"


def _forget_changed() -> None:
    """Forget modules that were edited under ``mkdocs serve``, so that they are imported again."""
    if all(_changed(file) == before for file, before in _SEEN.items()):
        return
    for name, module in list(sys.modules.items()):
        if file_of(module) in _SEEN:
            del sys.modules[name]
    _SEEN.clear()


def _changed(file: str) -> int:
    path = Path(file)
    return path.stat().st_mtime_ns if path.is_file() else 0
