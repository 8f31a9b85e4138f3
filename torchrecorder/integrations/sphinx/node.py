"""Recorded: the node of a figure in a document, until a builder writes it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from docutils import nodes

from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.errors import TorchRecorderError
from torchrecorder.events import Slot
from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.sphinx.cache import Cache
from torchrecorder.recording import Recording
from torchrecorder.style import labels


class Recorded(nodes.General, nodes.Inline, nodes.Element):  # type: ignore[misc]
    """A recording and how to show it.

    Attributes of the node: ``recording``, its name in the cache; ``drawing``, the options of
    the figure; ``page``, whether it is shown as a page; ``explore``, whether it links to one;
    ``alt``; ``width`` and ``height`` as in docutils; ``links``, the addresses of the documentation
    of the names in the figure.
    """

    @property
    def drawing(self) -> Mapping[str, Any]:
        """The options of the figure."""
        options: Mapping[str, Any] = self["drawing"]
        return options


def message_of(error: BaseException, page: str | Path = "") -> str:
    """The text of a warning about *error*, with flags as options, and files beside *page*."""
    if not isinstance(error, TorchRecorderError):
        text = f"{type(error).__name__}: {error}"
    elif isinstance(error, ModelFailed):
        text = str(error)
    else:
        text = with_options(str(error))
    return beside(text, page)


def with_options(text: str) -> str:
    """*text* with flags as options of the directive."""
    return re.sub(r"(?<!\S)--([a-z][a-z-]*)", r":\1:", text)


def beside(text: str, page: str | Path) -> str:
    """*text* without the folder of *page* in the names of files."""
    return text.replace(str(Path(page).parent / "_")[:-1], "")


def line_of(error: BaseException, page: str | Path) -> int | None:
    """The line of *page* whose code raised *error*, or None."""
    cause = error.__cause__ or error
    if isinstance(cause, SyntaxError) and cause.filename == str(page):
        return cause.lineno
    frames = traceback.extract_tb(cause.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(page)]
    return lines[-1] if lines else None


def size_style(given: Any) -> str:
    """The CSS of the width and height in a mapping or node; lengths without a unit are pixels."""
    sizes = [(side, given.get(side)) for side in ("width", "height")]
    return "; ".join(f"{side}: {size}{'px' * size.isdigit()}" for side, size in sizes if size)


def cache_of(doctrees: str | PathLike[str]) -> Cache:
    """The cache of a project, beside its *doctrees*, which all its builders share."""
    return Cache(Path(doctrees) / "torchrecorder")


_MAX_NAMES = 3
"""The maximum number of inputs and outputs that are named."""


def described(recording: Recording) -> str:
    """The inputs, outputs and size of the model, in a sentence.

    Example:
        >>> import torch, torchrecorder
        >>> described(torchrecorder.record(torch.nn.Linear(4, 2), torch.ones(1, 4)))
        'Linear: from input 1×4 to 1×2, 10 params'
    """
    ends = [_ends(recording, slots) for slots in (recording.inputs, recording.outputs)]
    flow = [f"{word} {text}" for word, text in zip(("from", "to"), ends) if text]
    count = labels.parameters(int(PARAMETERS.on(recording).total()))
    facts = ", ".join(part for part in (" ".join(flow), count) if part)
    return f"{recording.name}: {facts}" if facts else recording.name


def _ends(recording: Recording, slots: Sequence[Slot]) -> str:
    text = [
        f"{slot.name} {labels.value(recording.values[slot.value])}".strip()
        for slot in slots[:_MAX_NAMES]
        if slot.value in recording.values
    ]
    return ", ".join([*text, "…"] if len(slots) > _MAX_NAMES else text)
