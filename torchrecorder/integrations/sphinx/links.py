"""Links: from a box to the documentation of its class or function.

The addresses of other pages are unknown while a figure is drawn. So each box first links to the
full name of its class or function. When all pages have been read, the names that the project
documents itself, or knows through intersphinx, become addresses; other links are removed.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import NoUri

from torchrecorder.graph.nodes import Op
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import step_of
from torchrecorder.integrations.sphinx.node import Recorded, cache_of
from torchrecorder.style.figure import Figure, Group, Shape
from torchrecorder.views.view import View

PartT = TypeVar("PartT", Shape, Group)

_SCHEME = "torchrecorder:"
_LINK = re.compile(rf'<a xlink:href="{_SCHEME}(?P<name>[^"]*)"[^>]*>(?P<inside>.*?)</a>', re.DOTALL)


def with_names(figure: Figure, view: View) -> Figure:
    """*figure* with boxes that link to the names of their classes and functions."""
    return replace(
        figure,
        shapes=tuple(_named(shape, view.recording) for shape in figure.shapes),
        groups=tuple(_named(group, view.recording) for group in figure.groups),
    )


def with_addresses(svg: str, addresses: Mapping[str, str]) -> str:
    """*svg* with links to *addresses* in the place of links to names."""

    def link(match: re.Match[str]) -> str:
        address = addresses.get(html.unescape(match["name"]))
        if address is None:
            return match["inside"]
        return f'<a xlink:href="{html.escape(address)}" target="_parent">{match["inside"]}</a>'

    return _LINK.sub(link, svg)


def resolve_links(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Resolve the names in the figures of a page to addresses."""
    if app.builder.format != "html" or not app.config.torchrecorder_links:
        return
    cache, known = cache_of(app.doctreedir), dict[str, str]()
    for node in doctree.findall(Recorded):
        for name in sorted(set(_names(cache.recording(node["recording"])))):
            if name not in known:
                known[name] = _address(app, page, name)
            if known[name]:
                node["links"][name] = known[name]


def aside(address: str, page: str, folder: str) -> str:
    """*address*, which is relative to *page*, relative to a file in *folder*."""
    if re.match(r"[a-z][a-z0-9+.-]*:", address):
        return address
    path, hash_, anchor = address.partition("#")
    whole = posixpath.join(posixpath.dirname(page), path) if path else page
    slash = "/" if posixpath.basename(whole) in ("", ".", "..") else ""
    return posixpath.relpath(whole or ".", folder) + slash + hash_ + anchor


def _named(part: PartT, recording: RecordedRun) -> PartT:
    attributes, name = part.look.attributes, _name(part.id, recording)
    if not name or "URL" in attributes or "href" in attributes:
        return part
    linked = {**attributes, "URL": _SCHEME + name}
    return replace(part, look=replace(part.look, attributes=linked))


def _name(node: str, recording: RecordedRun) -> str:
    """The full name of the class or function behind a recorded node."""
    step = step_of(recording, node)
    if isinstance(step, Op):
        return step.qualname
    module = recording.module_of(step) if step is not None else None
    return module.qualname if module is not None else ""


def _names(recording: RecordedRun) -> Iterator[str]:
    yield from (module.qualname for module in recording.modules.values())
    yield from (op.qualname for op in recording.ops.values() if op.qualname)


def _address(app: Sphinx, page: str, name: str) -> str:
    """The address of the documentation of *name*, relative to *page*; empty if there is none."""
    for spelling in _spellings(name):
        node = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=spelling, refdoc=page, refexplicit=True
        )
        found = _found(app, page, spelling, node)
        if isinstance(found, nodes.reference):
            return str(found.get("refuri") or f"#{found.get('refid', '')}")
    return ""


def _found(app: Sphinx, page: str, name: str, node: addnodes.pending_xref) -> nodes.Node | None:
    content = nodes.inline(name, name)
    python = app.env.domains["py"]
    try:
        found = python.resolve_xref(app.env, page, app.builder, "obj", name, node, content)
        return found or app.emit_firstresult(
            "missing-reference", app.env, node, content, allowed_exceptions=(NoUri,)
        )
    except NoUri:
        return None


def _spellings(name: str) -> list[str]:
    """*name*, and the shorter names under which it may be documented: ``torch.nn.Conv2d``."""
    package, _, last = name.rpartition(".")
    parts = package.split(".")
    return [name, *(".".join([*parts[:count], last]) for count in range(len(parts) - 1, 0, -1))]
