"""Writers: how each builder writes a figure. If one cannot be drawn, a warning and a message."""

from __future__ import annotations

import html
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging

from torchrecorder.files import write_file
from torchrecorder.integrations.sphinx.links import aside, with_addresses, with_names
from torchrecorder.integrations.sphinx.node import Recorded, cache_of, message_of, size_style
from torchrecorder.integrations.sphinx.notices import notices_to

logger = logging.getLogger(__name__)

_FILES = "torchrecorder-"
"""The prefix of our files among the images of a project."""


def _html(translator: Any, node: Recorded) -> None:
    writer = _page if node["page"] else _pictures
    shown, why = _tried(writer, translator, node)
    failed = f'<span class="torchrecorder-failed">{html.escape(why)}</span>'
    translator.body.append(failed if shown is None else shown)
    raise nodes.SkipNode


def _pictures(translator: Any, node: Recorded) -> str:
    """The figure as one object, or as two: for light paper and for dark."""
    themes = {"": node.drawing.get("theme")}
    if themes[""] is None:
        themes = {"light": "light", "dark": "dark"}
        if not translator.config.torchrecorder_dark:
            themes = {"": "light"}
    shown = "".join(_object(translator, node, paper, theme) for paper, theme in themes.items())
    return shown + (_link_to_page(translator, node) if node["explore"] else "")


def _object(translator: Any, node: Recorded, paper: str, theme: str | None) -> str:
    chosen = {"background": "transparent", **node.drawing, "theme": theme}
    cache = cache_of(translator.builder.doctreedir)
    path = cache.figure(node["recording"], ".svg", chosen, with_names)
    svg = with_addresses(path.read_text(encoding="utf-8"), _addresses(translator, node))
    address = _written(translator, path.name, svg)
    alt = html.escape(node["alt"])
    kind = f"torchrecorder-figure torchrecorder-{paper}" if paper else "torchrecorder-figure"
    return (
        f'<object class="{kind}" type="image/svg+xml" data="{html.escape(address)}"'
        f'{_size(node)} aria-label="{alt}">{alt}</object>'
        f'<a class="torchrecorder-alone {kind.partition(" ")[2]}" href="{html.escape(address)}"'
        ' title="the figure alone">⤢</a>'
    )


def _page(translator: Any, node: Recorded) -> str:
    """The recording as a page inside the page."""
    return (
        f'<iframe class="torchrecorder-page" src="{_address(translator, node)}" loading="lazy"'
        f'{_size(node)} title="{html.escape(node["alt"])}"></iframe>'
    )


def _link_to_page(translator: Any, node: Recorded) -> str:
    """A link to the page of the recording."""
    words = "explore it: open its modules, find, color"
    return f'<a class="torchrecorder-explore" href="{_address(translator, node)}">{words}</a>'


def _address(translator: Any, node: Recorded) -> str:
    """The address of the page of a recording."""
    cache = cache_of(translator.builder.doctreedir)
    path = cache.figure(node["recording"], ".html", dict(node.drawing))
    return html.escape(_written(translator, path.name, path.read_text(encoding="utf-8")))


def _addresses(translator: Any, node: Recorded) -> dict[str, str]:
    page = translator.builder.get_target_uri(translator.builder.current_docname)
    folder = translator.builder.imagedir
    return {name: aside(address, page, folder) for name, address in node["links"].items()}


def _written(translator: Any, name: str, contents: str) -> str:
    """Write a file among the images; returns its address relative to the current page."""
    builder = translator.builder
    folder = Path(builder.outdir) / builder.imagedir
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / (_FILES + name), contents)
    return posixpath.join(builder.imgpath, _FILES + name)


def _size(node: Recorded) -> str:
    """The style attribute for the requested width and height."""
    style = size_style(node)
    return f' style="{style}"' if style else ""


def _latex(translator: Any, node: Recorded) -> None:
    shown, why = _tried(_included, translator, node)
    shown = translator.encode(why) if shown is None else shown
    alone = not isinstance(node.parent, nodes.figure)
    translator.body.append(f"\n{{\\centering{shown}\\par}}\n" if alone else f"\\noindent{shown}")
    raise nodes.SkipNode


def _included(translator: Any, node: Recorded) -> str:
    cache, theme = cache_of(translator.builder.doctreedir), node.drawing.get("theme", "light")
    path = cache.figure(node["recording"], ".pdf", {**node.drawing, "theme": theme})
    shutil.copyfile(path, Path(translator.builder.outdir) / (_FILES + path.name))
    sizes = [(name, node[name]) for name in ("width", "height") if node[name]]
    lengths = ((name, translator.latex_image_length(size)) for name, size in sizes)
    options = ",".join(f"{name}={length}" for name, length in lengths if length)
    return _fitting(f"{{{{{_FILES}{path.stem}}}.pdf}}", options)


def _fitting(file: str, sizes: str) -> str:
    """The inclusion of *file*; without sizes, as large as leaves room for a caption."""
    if sizes:
        return f"\\sphinxincludegraphics[{sizes}]{file}"
    return (
        f"{{\\setbox0\\hbox{{\\sphinxincludegraphics{file}}}"
        "\\ifdim\\ht0>.86\\textheight"
        f"\\sphinxincludegraphics[height=.86\\textheight]{file}\\else\\unhbox0\\fi}}"
    )


def _tried(
    write: Callable[[Any, Recorded], str], translator: Any, node: Recorded
) -> tuple[str | None, str]:
    """The result of *write*; if it fails, None and a replacement text, after a warning."""
    def report(text: str) -> None:
        logger.warning("%s", text, location=node, type="torchrecorder", subtype="draw")

    try:
        with notices_to(report):
            return write(translator, node), ""
    except Exception as error:  # one missing figure must not stop the whole build
        report(message_of(error))
        return None, f"[{node['alt']}: {message_of(error)}]"


def _text(translator: Any, node: Recorded) -> None:
    """Write the alternative text as a paragraph."""
    text = f"[{node['alt']}]"
    paragraph = nodes.paragraph(text, text)
    paragraph.parent = node.parent
    paragraph.walkabout(translator)
    raise nodes.SkipNode


VISITORS: dict[str, Any] = {
    "html": (_html, None),
    "latex": (_latex, None),
    **dict.fromkeys(("text", "man", "texinfo"), (_text, None)),
}
"""The functions that visit the node, by format; none departs from it."""
