"""TorchRecorder: the directive, which records a model and adds a node for its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from torchrecorder.annotations.annotation import Annotation
from torchrecorder.errors import TorchRecorderError
from torchrecorder.export import by_suffix
from torchrecorder.integrations.sphinx import options
from torchrecorder.integrations.sphinx.node import (
    Recorded, beside, cache_of, described, line_of, message_of, with_options,
)
from torchrecorder.integrations.sphinx.notices import notices_to
from torchrecorder.integrations.sphinx.request import Request
from torchrecorder.integrations.targets import FILES, measuring
from torchrecorder.options import drawing, fitting, shown_numbers

logger = logging.getLogger(__name__)


class TorchRecorder(SphinxDirective):  # type: ignore[misc]
    """``.. torchrecorder:: package.module:factory``, or code in the body instead."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = False
    option_spec: ClassVar[dict[str, Any]] = options.ALL

    def run(self) -> list[nodes.Node]:
        """The figure with its caption, or a message if it cannot be drawn."""
        page = self._code_place()[0]

        def report(text: str, where: str) -> None:
            logger.warning("%s", text, location=where, type="torchrecorder", subtype="record")

        def note(text: str) -> None:
            report(beside(with_options(text), page), str(self.get_location()))

        try:
            with notices_to(note):
                recorded = self._recorded()
            return self._with_code(self._framed(recorded))
        except (Exception, SystemExit) as error:  # it may be anything: the model is the user's
            text = message_of(error, page)
            report(text, self._location(error))
            return self._with_code(self._failed(text))

    def _failed(self, why: str) -> nodes.Element:
        """The message in place of a figure that could not be drawn, with its name."""
        lines = [nodes.line("", text) for text in why.splitlines()]
        title = nodes.title("", f"{self._alt('')} could not be made")
        frame = nodes.admonition(
            "", title, nodes.line_block("", *lines), classes=["danger", "torchrecorder-failed"]
        )
        self.set_source_info(frame)
        self.add_name(frame)
        return frame

    def _recorded(self) -> Recorded:
        chosen = {**self.config.torchrecorder_defaults, **options.drawing(self.options)}
        request = self._request(shown_numbers(chosen))
        page = self.options.get("format") == "html"
        suffix = ".html" if page else ".svg"
        drawing(by_suffix(suffix), **fitting(chosen, suffix))
        cache = cache_of(self.env.doctreedir)
        name, sources = cache.recorded(request)
        for file in sources.files:
            self.env.note_dependency(file)
        return Recorded(
            recording=name,
            drawing=chosen,
            page=page,
            explore=self.options.get("explore", False),
            alt=self._alt(described(cache.recording(name))),
            width=self.options.get("width"),
            height=self.options.get("height"),
            links={},
        )

    def _request(self, numbers: Sequence[Annotation]) -> Request:
        """The request for the target or code; these *numbers* are measured."""
        if bool(self.arguments) == bool(self.content):
            raise TorchRecorderError(
                "the directive takes either package.module:name or code in its body"
                + (", not both" if self.arguments else "")
            )
        path = self._path(self.arguments[0]) if self.arguments else ""
        file, line = self._code_place()
        return Request(
            measuring(options.target(path, self.options), numbers),
            code="\n".join(self.content),
            file=file if self.content else "",
            line=line if self.content else 1,
        )

    def _path(self, given: str) -> str:
        """Files are looked for where Sphinx looks: beside the page, or ``/`` below the root."""
        file, colon, name = given.rpartition(":")
        if not colon and given.endswith(FILES):
            return str(self.env.relfn2path(given)[1])
        if file.endswith(".py"):
            return f"{self.env.relfn2path(file)[1]}:{name}"
        return given

    def _code_place(self) -> tuple[str, int]:
        """The file of the body and the line that it begins in."""
        if not self.content.items:
            return str(self.env.doc2path(self.env.docname)), self.lineno
        file, line = self.content.items[0]
        return str(file), int(line) + 1

    def _alt(self, otherwise: str) -> str:
        text = self.options.get("alt") or otherwise
        return " ".join(str(text or f"Figure of {' '.join(self.arguments) or 'a model'}").split())

    def _framed(self, shown: nodes.Node) -> nodes.Element:
        """A figure with a caption, or a paragraph of its own."""
        frame = nodes.figure("", shown) if "caption" in self.options else nodes.container("", shown)
        align = self.options.get("align", "center")
        frame["classes"] += ["torchrecorder", f"align-{align}", *self.options.get("class", [])]
        if isinstance(frame, nodes.figure):
            frame["align"] = align
        if "caption" in self.options:
            parsed, messages = self.parse_inline(self.options["caption"], lineno=self.lineno)
            frame += nodes.caption(self.options["caption"], "", *parsed, *messages)
        self.set_source_info(shown)
        self.set_source_info(frame)
        self.add_name(frame)
        return frame

    def _with_code(self, frame: nodes.Element) -> list[nodes.Node]:
        where = self.options.get("code", "none")
        if not self.content or where == "none":
            return [frame]
        text = "\n".join(self.content)
        block = nodes.literal_block(text, text, language="python")
        self.set_source_info(block)
        return [block, frame] if where == "before" else [frame, block]

    def _location(self, error: BaseException) -> str:
        """The line of the body that raised, or that of the directive."""
        file, _ = self._code_place()
        line = line_of(error, file) if self.content else None
        return str(self.get_location()) if line is None else f"{file}:{line}"
